"""Machine code of the tree's kernel, and of what builds on it."""

from __future__ import annotations

import inspect
import os
from functools import partial
from typing import Any

import numba
import numpy as np
import pytest

from abw.core.jit.checkedcache import CheckedCache
from abw.core.jit.inlined import part
from abw.core.jit.loops import OPTIONS
from abw.pqtree import PQTree, compiled, kernel
from abw.pqtree.layouts import broadcast, ties

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"), reason="numba compiles nothing"
)


@pytest.mark.parametrize(("file", "has_a_part"), [("table", True), ("rebuild", False)])
def test_machine_code_is_believed_while_no_file_of_it_has_changed(
    file: str, has_a_part: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert PQTree(compiled.PLAIN_BELOW).code()  # loads machine code, or compiles it
    kept = partial(CheckedCache, kernel.encode, partial(compiled.state, kernel.encode))
    assert kept().filled
    written = inspect.getsource
    monkeypatch.setattr(inspect, "getsource", lambda of: written(of) + "#" * of.__name__.endswith(file))
    compiled.state.cache_clear()
    try:
        assert kept().filled is not has_a_part
    finally:
        compiled.state.cache_clear()


def test_machine_code_is_made_of_the_files_of_all_that_it_calls() -> None:
    files = {inspect.getsource(module) for module in (broadcast, ties, kernel)}
    assert files < set(compiled.state(broadcast.agree))


@part
def _more(x: int, twice: bool) -> int:
    return x + (2 if twice else 1)


@part
def _most(x: int) -> int:
    return max(_more(x, True), _more(3, False))  # type: ignore[no-any-return] # a dispatcher's


def test_parts_are_compiled_once_whatever_integers_they_are_given() -> None:
    compiler: Any = numba.njit(**OPTIONS)
    caller = compiler(lambda narrow, wide: (_most(narrow[0]), _most(wide)))
    for _ in range(2):  # before and after it was compiled
        with pytest.raises(TypeError, match="_most can be called by compiled functions alone"):
            _most(1)
        assert caller(np.array([-1, 7], np.int32), 2**40) == (4, 2**40 + 2)
    for each in (_most, _more):
        (code,) = each.overloads.values()
        assert code.library.get_pointer_to_function(code.fndesc.llvm_func_name) == 0
