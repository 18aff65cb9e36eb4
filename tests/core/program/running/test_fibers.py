"""Fibers that are kept: what looks for callers in one ends where it began; they end with their net."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from pathlib import Path

import pytest

import abw
from tests.core.program.cells import LIBRARY

# A greenlet is made under many frames, and gone on with when they are gone and others lie there.
PROGRAM = """
import ctypes, sys
from abw.core.program.running.fibers import Fibers

sys.setrecursionlimit(10_000)
backtrace = ctypes.CDLL(None).backtrace
fibers = Fibers()
fibers.begin()
found = []

def deep(n, function):
    return [function(), *map(int, ())] if n == 0 else sorted([n], key=lambda n: bool(deep(n - 1, function)))

def look(_):
    found.append(backtrace((ctypes.c_void_p * 500)(), 500))

def run():
    fiber = fibers.make(look, None, None)
    fiber.resume(None)
    fiber.ended()

deep(50, run)
run()
deep(20, run)
print(*found)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs glibc's backtrace")
def test_a_backtrace_in_a_fiber_ends_where_that_began() -> None:
    pytest.importorskip("greenlet")
    made = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    deep, shallow, again = map(int, made.stdout.split())
    assert deep == shallow == again < 60  # of 500: the frames under the fiber are not among them


def decided(library: Path) -> weakref.ref[abw.Net]:
    """A net of which nothing is left but what a run has kept."""
    net = abw.cells(library)

    def decide(word: int) -> abw.Value:
        value = net.step(net.words[word], net.start)
        return value if net.score(value, value).argmax() else net.start

    net.run(decide, [1, 2, 3])
    return weakref.ref(net)


def test_a_net_that_is_no_longer_used_is_freed(tmp_path: Path) -> None:
    pytest.importorskip("greenlet")
    (tmp_path / "library.yaml").write_text(LIBRARY)
    known = decided(tmp_path / "library.yaml")
    gc.collect()
    assert known() is None
