"""What is compiled makes no arrays, and what is inside has no entry for Python."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba.core.caching import CacheImpl
from numba.core.errors import TypingError

from abw.core.jit import allocating, inner, is_compiled, njit

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"), reason="numba compiles nothing"
)


@inner
def _doubled(x: int) -> int:
    return 2 * x


@njit
def _double_all(values: Any) -> None:  # noqa: ANN401
    for i in range(len(values)):
        values[i] = _doubled(values[i])


@njit
def _refused(n: int) -> Any:  # noqa: ANN401
    return np.zeros(n)


@allocating
def _allowed(n: int) -> Any:  # noqa: ANN401
    return np.zeros(n)


def test_inner_functions_are_called_by_compiled_ones_alone() -> None:
    values = np.arange(3)
    for _ in range(2):  # before and after it was compiled
        with pytest.raises(TypeError, match="_doubled can be called by compiled functions alone"):
            _doubled(1)
        _double_all(values)
    assert values.tolist() == [0, 4, 8]
    assert is_compiled(_double_all)


def test_arrays_are_made_by_the_caller() -> None:
    with pytest.raises(TypingError):
        _refused(3)
    assert _allowed(3).tolist() == [0, 0, 0]


def test_what_was_never_called_is_not_compiled() -> None:
    def anew() -> int:
        return 1

    function: Callable[[], int] = anew
    assert is_compiled(function)  # needs none
    assert not is_compiled(njit(function))


def test_where_no_machine_code_can_be_kept_it_is_compiled_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(CacheImpl, "_locator_classes", [])

    @njit
    def third(x: int) -> int:
        return x // 3

    assert third(7) == 2
    assert is_compiled(third)  # no other process could compile it for this one
