"""Machine code of the tree's kernel, and of what builds on it."""

from __future__ import annotations

import inspect

import pytest

from abw.pqtree import PQTree, compiled, kernel
from abw.pqtree.checkedcache import CheckedCache


@pytest.mark.skipif(not compiled.wanted(compiled.PLAIN_BELOW), reason="numba is off")
def test_machine_code_is_believed_while_no_file_of_the_kernel_has_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert PQTree(compiled.PLAIN_BELOW).reduce([3, 5])  # loads machine code, or compiles it
    assert CheckedCache(kernel.reduce_row, compiled.state).filled
    written = inspect.getsource
    monkeypatch.setattr(inspect, "getsource", lambda of: written(of) + "#" * of.__name__.endswith("survey"))
    compiled.state.cache_clear()
    try:
        assert not CheckedCache(kernel.reduce_row, compiled.state).filled
    finally:
        compiled.state.cache_clear()
