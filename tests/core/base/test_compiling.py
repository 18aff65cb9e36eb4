"""What is compiled amid work counts as compiling, once."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from abw.core.base import progress as module
from abw.core.base.progress import Clock, SpanClock, compiling, working
from abw.core.data.intern import intern, number_pieces
from abw.core.jit.decorators import njit
from abw.core.run import streaming
from abw.core.run.pipeline import RunOptions, run
from abw.core.run.workload import chunks_of
from abw.core.spec.load import Overrides

compiled_alone = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"), reason="numba compiles nothing"
)


class Hands:
    """A clock that is set by hand, for all that reads one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead, real = 0.0, time.perf_counter
        monkeypatch.setattr(time, "perf_counter", lambda: real() + self.ahead)
        monkeypatch.setattr(module, "_ALL", module._All())


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> Hands:
    return Hands(monkeypatch)


@pytest.mark.parametrize("kind", [Clock, SpanClock])
def test_a_phase_has_no_compiling_in_it(hands: Hands, kind: type[Clock]) -> None:
    clock = (
        kind("read", "compile") if kind is SpanClock else Clock("read", "compile", timer=time.perf_counter)
    )
    begun = working()
    with clock("read"):
        hands.ahead += 1000
        with compiling(), compiling():
            hands.ahead += 10000
    with clock("compile"), compiling():
        hands.ahead += 100
    assert 1000 <= clock.seconds["read"] < 1050
    assert 10100 <= clock.seconds["compile"] < 10150
    assert 1000 <= working() - begun < 1050
    alone = Clock("read", timer=time.perf_counter)
    with alone("read"), compiling():
        hands.ahead += 1000
    assert alone.seconds["read"] < 50


def test_threads_that_compile_together_stop_the_clock_once(hands: Hands) -> None:
    begun, inside, done = working(), threading.Event(), threading.Event()

    def other() -> None:
        with compiling():
            inside.set()
            assert done.wait(60)

    thread = threading.Thread(target=other)
    with compiling():
        thread.start()
        assert inside.wait(60)
        hands.ahead += 1000
    hands.ahead += 1000
    done.set()
    thread.join()
    hands.ahead += 300
    assert 300 <= working() - begun < 350


@compiled_alone
def test_functions_of_numba_and_llvm_are_noticed() -> None:
    clock = Clock("read", "compile")

    def doubled(x: int) -> int:
        return 2 * x

    with clock("read"):
        assert njit(doubled)(4) == 8
    assert clock.seconds["compile"] > 0


def test_instances_a_second_are_without_what_a_reader_compiles(
    hands: Hands, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ABW_HOME", str(tmp_path))

    def slow(*args: object, **options: object) -> object:
        for chunk in chunks_of(*args, **options):  # type: ignore[arg-type]
            with compiling():
                hands.ahead += 1e6
            yield chunk

    monkeypatch.setattr(streaming, "chunks_of", slow)
    report = run(root / "specs/fig1.yaml", Overrides(dims={"hidden": 4}), RunOptions(policy="agenda"))
    assert report["instances_per_second"] > 1e-3
    assert report["seconds"]["read"] < 1e5


@compiled_alone
def test_pieces_of_any_text_are_numbered_by_one_function() -> None:
    for text in (b"", b"a", b"four", b"12345678", b"123456789", b"a longer text than eight"):
        ends = np.array([len(text)], np.int32)
        number, words = intern(text, np.zeros(1, np.int32), ends)
        assert number.tolist() == [-1 if not text else 0] and list(words) == ([text.decode()] if text else [])
    assert len(number_pieces.signatures) == 1  # type: ignore[attr-defined]
