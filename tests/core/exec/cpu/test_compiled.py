"""Machine code on disk: found again, never believed when damaged, written whole by whoever writes it."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from abw.core.exec.codecache import kernels_folder
from abw.core.exec.cpu.llvm import compiled
from abw.core.exec.cpu.llvm.compiled import Code, compile_ir
from abw.core.exec.cpu.llvm.emit import Function, Module
from abw.core.exec.cpu.target import get_target


def text(value: int) -> str:
    """A module whose function `set(pointer)` writes a number there."""
    module = Module(get_target())
    f = Function(module, "set", "ptr %out", public=True)
    f.put("i64", str(value), "%out", 0)
    module.add(f)
    return module.text()


def call(code: Code) -> int:
    out = ctypes.c_int64(0)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address("set"))(ctypes.addressof(out))
    return out.value


def test_compiled_once(tmp_path: Path) -> None:
    assert call(compile_ir(text(7), get_target(), tmp_path)) == 7
    (path,) = tmp_path.iterdir()
    with patch.object(compiled, "_compile", side_effect=AssertionError("compiled again")):
        assert call(compile_ir(text(7), get_target(), tmp_path)) == 7
    assert call(compile_ir(text(8), get_target(), tmp_path)) == 8
    assert len(list(tmp_path.iterdir())) == 2
    assert path.exists()


@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "other"])
def test_damaged_files_are_replaced(damage: str, tmp_path: Path) -> None:
    compile_ir(text(7), get_target(), tmp_path)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    middle = len(whole) // 2
    changed = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    path.write_bytes({"cut": whole[:-9], "changed": changed, "empty": b"", "other": b"?" * 400}[damage])
    assert call(compile_ir(text(7), get_target(), tmp_path)) == 7
    assert path.read_bytes() == whole


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert call(compile_ir(text(7), get_target(), tmp_path / "file" / "kernels")) == 7


def test_the_folder_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ABW_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert kernels_folder() == tmp_path / "home" / "kernels"
    monkeypatch.delenv("ABW_HOME")
    assert kernels_folder() == tmp_path / "abw" / "kernels"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert kernels_folder() == tmp_path / ".cache" / "abw" / "kernels"


SCRIPT = """
from pathlib import Path
import sys
from tests.core.exec.cpu.test_compiled import call, text
from abw.core.exec.cpu.llvm.compiled import compile_ir
from abw.core.exec.cpu.target import get_target
for value in range(20):
    assert call(compile_ir(text(value), get_target(), Path(sys.argv[1]))) == value
"""


def test_several_processes_at_once(root: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    running = [subprocess.Popen(command, env=environment, cwd=root) for _ in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert len(list(tmp_path.iterdir())) == 20
    assert all(path.suffix == ".o" for path in tmp_path.iterdir())
