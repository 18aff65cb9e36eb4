"""A hundred runs that threads share; `python -m tests.faults threads` has the long run."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from abw.core.exec.cpu.launch import Launcher
from abw.core.jit.pointers import address
from abw.core.plan.plan import Plan
from tests.faults.threads import INPUTS, ROOT, SPOILT, THREADS, WORKS, compare, shared, spoilt

pytestmark = pytest.mark.skipif(os.name == "nt", reason="NumPy's memory is not that of this process there")
ROUNDS = 3


def test_threads_give_the_bytes_of_one(tmp_path: Path) -> None:
    tally = compare(tmp_path, ROUNDS * len(WORKS) * len(THREADS))
    assert tally.wrong == []
    assert list(tally.ends.values()) == [ROUNDS] * len(WORKS) * len(THREADS)


@pytest.mark.parametrize("name", WORKS)
def test_inputs_have_outputs_of_their_own(name: str, tmp_path: Path) -> None:
    with shared():
        run = WORKS[name](1, tmp_path)
        found = [run(number) for number in range(INPUTS)]
    # else what an earlier run left in memory would pass for a right result
    assert all(one != other for one, other in pairwise(found))


def test_what_is_given_back_is_spoilt_on_every_thread() -> None:
    found = []

    def look() -> None:
        array = np.arange(8)
        at = address(array)
        del array
        found.append(bytes((ctypes.c_char * 64).from_address(at))[32:])  # the system's notes lie before

    other = threading.Thread(target=look)
    with spoilt():
        look()
        other.start()
        other.join()
    assert found == [bytes([SPOILT] * 32)] * 2


def dangling(self: Launcher, plan: Plan, first: int, last: int, flops: int) -> Callable[[int], None] | None:
    """`Launcher._shared` as it was once: nobody holds the array that `sections` is the address of."""
    if plan.schedule.split is None:
        return None
    split, bounds = plan.schedule.split, np.array([first, last], np.int32)
    sections, taken, done = address(bounds), np.zeros(1, np.int64), np.zeros(1, np.int64)

    def apart(thread: int) -> None:
        scratch, (_, walk) = self.scratch[thread].at, self.walks[thread]
        shares = split.shape[1] - 1
        walk(self.table.at, scratch, sections, 1, shares, address(split), address(taken), address(done))

    return apart


def dangle(folder: str) -> int:
    """Compare with that defect brought in again; how much was wrong, if it comes to an end."""
    with patch.object(Launcher, "_shared", dangling):
        return len(compare(Path(folder), len(THREADS)).wrong)


def test_an_address_that_nobody_holds_is_found(tmp_path: Path) -> None:
    text = "import sys, tests.faults.test_threads as t; sys.exit(t.dangle(sys.argv[1]) > 0)"
    ended = subprocess.run([sys.executable, "-c", text, str(tmp_path)], cwd=ROOT, capture_output=True)
    assert ended.returncode != 0
    assert b"WRONG" in ended.stderr or ended.returncode < 0, ended.stderr.decode()
