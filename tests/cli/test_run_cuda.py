"""`abw run --executor cuda`, with and without a GPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from abw.core.exec.cuda.driver.driver import Driver
from abw.core.exec.cuda.tiles import Forms
from tests.cli.conftest import Abw
from tests.cli.test_run import SMALL
from tests.core.exec.cuda.fakedriver import FakeLibrary
from tests.core.exec.cuda.simulated import SMALL as TILES


def test_cuda_where_there_is_none_says_what_is_missing(abw: Abw, home: Path) -> None:
    from abw.core.exec.cuda import available

    with patch.multiple(available, load_driver=lambda: None, find_toolkit=lambda: None):
        for flag in ("--device", "--executor"):
            done = abw(*SMALL, flag, "cuda")
            assert done.code == 1
            assert "no NVIDIA driver" in done.err
            assert "580" in done.err
            assert 'pip install ".[cuda]"' in done.err
            assert not done.out
    assert not (home / "runs").exists()


def test_schemes_are_chosen_for_the_executor_cuda(abw: Abw) -> None:
    done = abw(*SMALL, "--scheme", "plan")
    assert done.code == 2
    assert "executor 'cpu' has no choice of schemes" in done.err
    assert "--device cuda" in done.err


def test_tensor_cores_are_for_the_executor_cuda(abw: Abw) -> None:
    done = abw(*SMALL, "--no-tensor-cores")
    assert done.code == 2
    assert "executor 'cpu' has no choice of tensor cores" in done.err
    assert "--device cuda" in done.err


TREES = "(3 (2 It) (3 works))\n(3 (2 So) (3 (2 it) (2 does)))\n(2 (2 Well) (2 (2 no) (2 more)))\n"


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Callable[[FakeLibrary], FakeLibrary]:
    """Puts a driver in place whose kernels run in the simulator."""
    from abw.core.exec.cuda import available
    from abw.core.exec.cuda.driver import gpu

    def put(library: FakeLibrary) -> FakeLibrary:
        monkeypatch.setattr(available, "load_driver", lambda: Driver(library))
        found = available.Finding("cuda compiler", True, "simulated")
        monkeypatch.setattr(available, "_compiler", lambda: found)
        monkeypatch.setattr(gpu, "compile_image", library.compile)
        monkeypatch.setattr(gpu, "forms_for", lambda processors, tensor: TILES)
        return library

    return put


def run_trees(abw: Abw, folder: Path, *flags: str) -> dict[str, Any]:
    data = folder / "trees.txt"
    data.write_text(TREES)
    shared = ("--data", str(data), "--set", "hidden=8", "--policy", "depth", "--verify", "--json")
    report: dict[str, Any] = abw("run", "specs/treelstm.yaml", *shared, "--device", "cuda", *flags).json()
    assert report["max_error"] < 1e-5
    return report


@pytest.mark.simulated
@pytest.mark.parametrize("scheme", ["batch", "plan"])
def test_cuda_through_a_driver_whose_kernels_are_simulated(
    abw: Abw, simulated: Callable[[FakeLibrary], FakeLibrary], scheme: str, tmp_path: Path
) -> None:
    library = simulated(FakeLibrary(seed=1))
    report = run_trees(abw, tmp_path, "--batch", "1", "--scheme", scheme)
    assert library.failed is None
    assert (report["executor"], report["scheme"]) == ("cuda", scheme)
    assert (report["mini_batches"], report["in_pieces"]) == (3, 0)
    assert {entry[3] for entry in library.launches} == {scheme == "plan"}


@pytest.mark.simulated
@pytest.mark.parametrize("flags", [(), ("--no-tensor-cores",)])
def test_cuda_with_and_without_tensor_cores(
    abw: Abw,
    simulated: Callable[[FakeLibrary], FakeLibrary],
    flags: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    from abw.core.exec.cuda.driver import gpu

    simulated(FakeLibrary())
    asked: list[bool] = []

    def forms_for(processors: int, tensor: bool) -> Forms:
        asked.append(tensor)
        return TILES

    monkeypatch.setattr(gpu, "forms_for", forms_for)
    assert run_trees(abw, tmp_path, *flags)["tensor_cores"] is (not flags)
    assert asked == [not flags]
