"""Signals are held back where they would leave something half done, and are not lost."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from abw.core.base.interrupts import (
    TERMINATING,
    Terminated,
    end_in_order,
    finished_before_interrupt,
    often_held,
)

ENDS = {signal.SIGINT: KeyboardInterrupt, signal.SIGTERM: Terminated, signal.SIGHUP: Terminated}


@pytest.fixture(autouse=True)
def as_in_a_command() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in TERMINATING}
    hook = sys.unraisablehook
    for number in TERMINATING:
        signal.signal(number, signal.SIG_DFL)
    end_in_order()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
    sys.unraisablehook = hook


@pytest.mark.parametrize("number", ENDS)
def test_a_block_ends_before_the_signal_does_its_work(number: signal.Signals) -> None:
    done = []
    with pytest.raises(ENDS[number]) as ended, finished_before_interrupt():
        os.kill(os.getpid(), number)
        done.append("half")
        done.append("whole")
    assert done == ["half", "whole"]
    if isinstance(ended.value, Terminated):
        assert ended.value.code == 128 + number


@pytest.mark.parametrize("first", ENDS)
@pytest.mark.parametrize("second", ENDS)
def test_a_second_signal_is_at_once(first: signal.Signals, second: signal.Signals) -> None:
    done = []
    with pytest.raises(ENDS[second]), finished_before_interrupt():
        os.kill(os.getpid(), first)
        os.kill(os.getpid(), second)
        done.append("not reached")
    assert done == []
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("number", ENDS)
def test_handlers_that_are_set_once_hold_signals_in_the_blocks_alone(number: signal.Signals) -> None:
    before, done = signal.getsignal(number), []
    with pytest.raises(ENDS[number]), often_held():
        with finished_before_interrupt():
            done.append("first")
        with finished_before_interrupt(), finished_before_interrupt():
            os.kill(os.getpid(), number)
            done.append("second")
        done.append("not reached")
    with pytest.raises(ENDS[number]), often_held():
        os.kill(os.getpid(), number)
        done.append("not reached")
    assert done == ["first", "second"]
    assert signal.getsignal(number) == before
    with suppress(ENDS[number]), finished_before_interrupt():  # nothing is left of them
        done.append("third")
        os.kill(os.getpid(), number)
        done.append("fourth")
    assert done[2:] == ["third", "fourth"]


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    """As SIGHUP under nohup."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    end_in_order()
    with finished_before_interrupt():
        os.kill(os.getpid(), signal.SIGHUP)
    os.kill(os.getpid(), signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_an_error_of_the_block_comes_first() -> None:
    with suppress(ValueError), finished_before_interrupt():
        raise ValueError
    with pytest.raises(Terminated):
        os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize("number", ENDS)
def test_a_signal_in_a_callback_from_c_is_not_lost(number: signal.Signals) -> None:
    """As in llvmlite's, where Python cannot raise what the handler raises."""

    def compare(a: int, b: int) -> int:
        if not sent:
            sent.append(number)
            os.kill(os.getpid(), number)
        return 0

    form = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    sent: list[int] = []
    array = (ctypes.c_int * 2)(1, 2)
    with pytest.raises(ENDS[number]):
        ctypes.CDLL(None).qsort(array, 2, 4, form(compare))
        time.sleep(20)
    assert sent == [number]
