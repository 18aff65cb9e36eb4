"""Both recorders write the same tapes, refuse the same calls, and hold nothing that is gone."""

from __future__ import annotations

import gc
import inspect
import sys
import weakref
from copy import copy, deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

import abw
from abw import AbwError, Net
from abw.core.program.recording.machine import MachineRecorder, is_cell
from abw.core.program.recording.machine_code import available
from abw.core.program.recording.recorder import Recorder
from abw.core.program.recording.values import BITS, SHAPES
from tests.core.program.cells import Programs, small
from tests.core.program.test_random import bits, instances, program

pytestmark = pytest.mark.skipif(not available(), reason="calls are recorded by Python here")


def by_python(folder: Path) -> Net:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ABW_RECORDER", "python")
        return small(folder)


@pytest.fixture(scope="module")
def nets(tmp_path_factory: pytest.TempPathFactory) -> tuple[Net, Net]:
    """By machine code, and by Python."""
    folder = tmp_path_factory.mktemp("recorder")
    machine, python = small(folder), by_python(folder)
    assert (
        isinstance(machine._session.recorder, MachineRecorder) and type(python._session.recorder) is Recorder
    )
    return machine, python


def tapes(net: Net) -> list[tuple[object, ...]]:
    """What was recorded in the last run: of words all but what tells nets apart."""
    engine = net._session.engine()
    pieces = [piece for held in engine._recorded if not hasattr(held, "made") for piece in held]
    words = [(p.nodes, (p.words >> BITS).tolist(), (p.words % SHAPES).tolist()) for p in pieces]
    arrays = [(s.type.tolist(), s.instance.tolist(), s.operand.tolist()) for s in engine.segments]
    return [*words, *arrays]


@given(instances)
@settings(max_examples=25)
def test_both_write_the_same_tape(
    nets: tuple[Net, Net], drawn: list[tuple[int, list[tuple[str, int, int]]]]
) -> None:
    one, other = [(bits(net.run(partial(program, net, abw.each), drawn)), tapes(net)) for net in nets]
    assert one == other


@pytest.mark.parametrize("made", [small, by_python])
def test_what_is_no_right_call_is_refused_alike(tmp_path: Path, made: Any) -> None:  # noqa: ANN401
    net, other = made(tmp_path), made(tmp_path)
    zero = net.zeros("hidden")
    with net.batching():
        assert net.step(h=zero, x=zero).shape == net.step(zero, h=zero).shape == (6,)
        for arguments in ((zero,), (zero, zero, zero)):
            with pytest.raises(TypeError, match=r"step\(\)"):
                net.step(*arguments)
        with pytest.raises(TypeError, match="step"):
            net.step(zero, y=zero)
        with pytest.raises(TypeError, match="input 'h' of step needs a value"):
            net.step(zero, "three")
        with pytest.raises(AbwError, match="this is a value of another net"):
            net.step(zero, other.zeros("hidden"))
        with pytest.raises(AbwError, match=r"input 'x' of step wants \[6\], this is \[3\]"):
            net.step(net.score(zero, zero), zero)
    with pytest.raises(AbwError, match="cells can be called only in a running program"):
        net.step(zero, zero)
    assert [*inspect.signature(net.score).parameters] == ["x", "y"]
    assert is_cell(net.score) and not is_cell(net.run) and not is_cell(len)


def test_the_tape_grows(tmp_path: Path) -> None:
    def many(net: Any, count: int) -> Any:  # noqa: ANN401
        value = net.start
        for _ in range(count):
            value = net.step(value, net.start)
        return value

    nets = small(tmp_path), by_python(tmp_path)
    found = [net.run(partial(many, net), [6000, 3]) for net in nets]
    assert nets[0]._session.engine().nodes == 6003
    for got, wanted in zip(*found, strict=True):
        assert got.tobytes() == wanted.tobytes()


def test_values_and_nets_are_freed(tmp_path: Path) -> None:
    net = small(tmp_path)
    net.run(Programs(net).parse, [[1, 2, 3], [4]])
    kind = type(net.start)
    with net.batching():
        first, second = net.two(net.start)
        before = sys.getrefcount(kind)
        assert copy(first) is first and deepcopy([first]) == [first]
        held = [net.two(first) for _ in range(1000)]
        assert sys.getrefcount(kind) == before + 2000
        del held
        assert sys.getrefcount(kind) == before
    step, gone, value = net.step, weakref.ref(net), second
    del net, first, second
    gc.collect()
    assert gone() is not None  # a cell is as good as its net
    with pytest.raises(AbwError, match="called only in a running program"):
        step(value, value)
    del step
    gc.collect()
    assert gone() is None
    with pytest.raises(AbwError, match="the value's net is gone"):
        value.value()
    assert repr(value) == "Value [6]"
