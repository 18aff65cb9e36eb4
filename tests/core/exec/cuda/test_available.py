"""What is said where no GPU can be used, and where one can."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from abw.core.base.errors import AbwError
from abw.core.exec.cuda import available
from abw.core.exec.cuda.available import inspect, open_device
from abw.core.exec.cuda.driver.driver import Driver, load_driver
from abw.core.exec.cuda.driver.toolkit import Toolkit
from tests.core.exec.cuda import fakedriver
from tests.core.exec.cuda.fakedriver import FakeLibrary

WHOLE = Toolkit(Path("libnvvm.so"), Path("libdevice.bc"), Path("ptxas"))


def given(library: FakeLibrary | None, toolkit: Toolkit | None) -> Any:
    """As if these were what the machine has."""
    found = None if library is None else Driver(library)
    return patch.multiple(available, load_driver=lambda: found, find_toolkit=lambda: toolkit)


@pytest.fixture(autouse=True)
def nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No kernels that were compiled before."""
    monkeypatch.setenv("ABW_HOME", str(tmp_path))
    return tmp_path


def test_all_that_is_missing_is_said_at_once() -> None:
    with given(None, None), pytest.raises(AbwError) as caught:
        open_device()
    assert "no NVIDIA driver" in caught.value.message
    assert "NVVM" in caught.value.message
    assert "580" in caught.value.hint
    assert 'pip install ".[cuda]"' in caught.value.hint
    assert caught.value.exit_code == 1
    with given(FakeLibrary(), None), pytest.raises(AbwError) as caught:
        open_device()
    assert "driver" not in caught.value.message


def test_kernels_compiled_elsewhere_need_no_compiler(nothing_is_kept: Path) -> None:
    (nothing_is_kept / "kernels").mkdir()
    (nothing_is_kept / "kernels" / "0.cubin").touch()
    with given(FakeLibrary(), None):
        compiler = inspect()[1]
        assert open_device().traits.name == "Simulated GPU"
    assert compiler.ok
    assert "1 kernels compiled before" in compiler.value
    assert 'pip install ".[cuda]"' in compiler.hint


def test_with_all_there_is_a_device() -> None:
    library = FakeLibrary()
    with given(library, WHOLE):
        gpu, compiler, costs = inspect()
        assert all(need.ok for need in (gpu, compiler, costs))
        assert not gpu.hint
        assert not compiler.hint
        assert library.retained == 0  # one that is only looked at can be had by others
        assert open_device().traits.name == "Simulated GPU"
        assert library.retained == 1
        assert "Simulated GPU, 4 SMs" in gpu.value


def test_a_driver_without_a_gpu() -> None:
    library = FakeLibrary()
    with given(library, WHOLE), patch.object(library, "_cuInit", lambda flags: 100):
        gpu, _ = inspect()
    assert not gpu.ok
    assert "cuInit failed" in gpu.value
    assert "nvidia-smi" in gpu.hint


def test_a_gpu_or_a_driver_that_is_too_old() -> None:
    library = FakeLibrary()
    with given(library, WHOLE), patch.dict(fakedriver._ATTRIBUTES, {75: 6, 76: 1}):
        assert not inspect()[0].ok
        with pytest.raises(AbwError, match=r"compute capability 6\.1"):
            open_device()
    assert library.retained == 0

    def version(out: Any) -> int:
        out._obj.value = 12040
        return 0

    with given(library, WHOLE), patch.object(library, "_cuDriverGetVersion", version):
        gpu = inspect()[0]
    assert gpu.ok
    assert "CUDA 12.4" in gpu.value
    assert "CUDA_HOME" in gpu.hint


def test_without_ptxas_the_driver_compiles() -> None:
    with given(FakeLibrary(), Toolkit(WHOLE.nvvm, WHOLE.libdevice, None)):
        compiler = inspect()[1]
    assert compiler.ok
    assert "no ptxas" in compiler.value


def test_no_library_is_no_driver() -> None:
    with patch("ctypes.CDLL", side_effect=OSError):
        assert load_driver() is None
