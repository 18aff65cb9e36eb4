"""How much memory a process may still take."""

from __future__ import annotations

from pathlib import Path

import pytest

from abw.core.memory import available_memory


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
def test_a_control_group_limits_it_but_not_by_the_files_it_read(
    tmp_path: Path, most: str, taken: str, stat: str, free: int
) -> None:
    for name, text in (("memory.max", most), ("memory.current", taken), ("memory.stat", stat)):
        (tmp_path / name).write_text(f"{text}\n")
    assert available_memory(tmp_path) == free


def test_without_a_limit_it_is_the_machines(tmp_path: Path) -> None:
    assert available_memory(tmp_path) > 1_000_000
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("900000\n")
    assert available_memory(tmp_path) > 1_000_000
