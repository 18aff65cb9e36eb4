"""Where weights lie."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from abw.core.exec.memory import HUGE, LINE, on_huge_pages
from abw.core.jit.pointers import address


@pytest.mark.parametrize("size", [0, 1, HUGE // 4 - 1, HUGE // 4, 5 * HUGE // 8 + 3])
def test_any_size_can_be_written(size: int) -> None:
    memory = on_huge_pages(size)
    assert memory.shape == (size,)
    assert memory.dtype == np.float32
    assert address(memory) % LINE == 0
    memory[:] = np.arange(size)
    assert memory.sum(dtype=np.float64) == size * (size - 1) / 2


@pytest.mark.skipif(
    sys.platform != "linux" or not Path("/sys/kernel/mm/transparent_hugepage").exists(),
    reason="no huge pages",
)
def test_huge_pages_are_asked_for_whole_ones_alone() -> None:
    memory = on_huge_pages(5 * HUGE // 8)
    begin = address(memory)
    assert begin % HUGE == 0
    asked = []
    for area in re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text("ascii"))[1:]:
        first, last = (int(end, 16) for end in area.split()[0].split("-"))
        if re.search(r"VmFlags:.*\bhg\b", area) and first <= begin < last:
            asked.append((first, last))
    assert asked == [(begin, begin + 2 * HUGE)]
