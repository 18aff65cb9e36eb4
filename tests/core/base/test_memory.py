"""How much memory a process may still take."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from abw.core.base import memory
from abw.core.base.memory import available_memory, available_physical, peak_working_set


@pytest.mark.parametrize(
    ("most", "taken", "stat", "free"),
    [
        ("1000000", "400000", "", 600_000),
        (
            "1000000",
            "900000",
            "file 600000\ninactive_file 500000\nactive_file 100000\n",
            600_000,
        ),
        ("1000000", "900000", "workingset_inactive_file 700000\n", 100_000),
        ("1000000", "1200000", "inactive_file 1000\n", 0),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_a_control_group_limits_it_but_not_by_the_files_it_read(
    tmp_path: Path, version: int, most: str, taken: str, stat: str, free: int
) -> None:
    group(tmp_path, version, "", most, taken, stat)
    assert available_memory(tmp_path, own(tmp_path, version, "/")) == free


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("limits", "free"),
    [
        ({"": "900000", "a": "500000", "a/b": "700000"}, 490_000),
        ({"": "900000", "a/b": "300000"}, 290_000),
        ({"": "max", "a": "max", "a/b": "300000"}, 290_000),
        ({"a": "300000", "other": "20000"}, 290_000),
        ({"": "300000"}, 290_000),
    ],
    ids=["parent", "own", "none around", "a neighbour", "a container's root"],
)
def test_groups_are_nested(tmp_path: Path, version: int, limits: dict[str, str], free: int) -> None:
    for path, most in limits.items():
        group(tmp_path, version, path, most, "10000", "")
    assert available_memory(tmp_path, own(tmp_path, version, "/a/b")) == free


@pytest.mark.parametrize("version", [1, 2])
def test_without_a_limit_it_is_the_machines(tmp_path: Path, version: int) -> None:
    named = own(tmp_path, version, "/")
    assert available_memory(tmp_path, named) > 1_000_000
    group(tmp_path, version, "", "max", "900000", "")
    assert available_memory(tmp_path, named) > 1_000_000
    assert available_memory(tmp_path, tmp_path / "none") > 1_000_000


def test_the_address_space_limits_it() -> None:
    code = (
        "import resource; from abw.core.base.memory import available_memory as free; before = free();"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)); print(before, free())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, limited = map(int, done.stdout.split())
    assert limited < 1 << 30 and (limited < before or before < 1 << 30)
    assert limited > 1 << 28 or before < 1 << 28


def group(root: Path, version: int, path: str, most: str, taken: str, stat: str) -> None:
    """Write the files of a control group of a version."""
    folder = (root / "memory" if version == 1 else root) / path
    folder.mkdir(parents=True, exist_ok=True)
    if version == 1:
        most = str(2**63 - 4096) if most == "max" else most
        stat = "".join(f"total_{line}\n" for line in stat.splitlines())
    names = (
        ("memory.limit_in_bytes", "memory.usage_in_bytes")
        if version == 1
        else ("memory.max", "memory.current")
    )
    for name, text in zip((*names, "memory.stat"), (f"{most}\n", f"{taken}\n", stat), strict=True):
        (folder / name).write_text(text)


def own(root: Path, version: int, path: str) -> Path:
    """What /proc/self/cgroup says."""
    lines = f"3:cpu,cpuacct:/elsewhere\n2:memory:{path}\n" if version == 1 else f"0::{path}\n"
    (root / "own").write_text(lines)
    return root / "own"


def test_the_peak_is_in_bytes_whatever_the_system_counts_in(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = SimpleNamespace(RUSAGE_SELF=0, getrusage=lambda _: SimpleNamespace(ru_maxrss=4096))
    monkeypatch.setattr(memory, "module", lambda name: usage)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert memory.peak_resident() == 4096
    monkeypatch.setattr(sys, "platform", "linux")
    assert memory.peak_resident() == 4096 << 10
    monkeypatch.setattr(memory, "module", lambda name: None)
    monkeypatch.setattr(memory, "kernel32", Kernel32)
    assert memory.peak_resident() == 123 << 20


def test_the_peak_is_what_linux_says() -> None:
    assert memory.peak_resident() == pytest.approx(memory._status("VmHWM"), rel=0.05)


class Kernel32:
    """What of Windows' library is asked, answered as its documentation says, by offsets into the memory."""

    def __init__(self) -> None:
        self.GetCurrentProcess = self.Named(lambda: 2**64 - 1)
        self.K32GetProcessMemoryInfo = self.Named(self._process)
        self.GlobalMemoryStatusEx = self.Named(self._machine)

    class Named:
        """A function that types can be written on, as ctypes' are."""

        def __init__(self, function: Callable[..., int]) -> None:
            self.function = function

        def __call__(self, *given: object) -> int:
            return self.function(*given)

    def _process(self, process: int, found: Any, size: int) -> int:  # noqa: ANN401
        assert process == 2**64 - 1 and size == 72 == struct.unpack_from("<I", found._obj)[0]
        struct.pack_into("<QQ", found._obj, 8, 123 << 20, 100 << 20)
        return 1

    def _machine(self, found: Any) -> int:  # noqa: ANN401
        assert struct.unpack_from("<I", found._obj)[0] == 64
        struct.pack_into("<QQ", found._obj, 8, 16 << 30, 5 << 30)
        return 1


@pytest.mark.skipif(sys.maxsize < 2**32, reason="the offsets are those of 64 bits")
def test_windows_is_asked_through_its_structures() -> None:
    assert peak_working_set(Kernel32()) == 123 << 20 and available_physical(Kernel32()) == 5 << 30
    assert peak_working_set(None) is None and available_physical(None) is None
