"""How much memory a process may still take."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from abw.core.base.memory import available_memory


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
