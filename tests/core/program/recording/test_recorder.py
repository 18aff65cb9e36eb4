"""The recorder refuses wrong calls, grows, and holds nothing that is gone."""

from __future__ import annotations

import gc
import inspect
import sys
import weakref
from copy import copy, deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from abw import AbwError
from abw.core.program.recording.machine_code import available, is_machine_function
from tests.core.program.cells import Programs, small

pytestmark = pytest.mark.skipif(not available(), reason="calls are recorded by Python here")


def test_what_is_no_right_call_is_refused(tmp_path: Path) -> None:
    net, other = small(tmp_path), small(tmp_path)
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
    assert is_machine_function(net.score) and not is_machine_function(net.run)


def test_the_tape_grows(tmp_path: Path) -> None:
    def many(net: Any, count: int) -> Any:  # noqa: ANN401
        value = net.start
        for _ in range(count):
            value = net.step(value, net.start)
        return value

    net = small(tmp_path)
    found = net.run(partial(many, net), [6000, 3])
    assert net._session.engine().nodes == 6003
    for got, wanted in zip(found, net.run(partial(many, net), [6000, 3], eager=True), strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-5)


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
