"""Kernels as machine code: the same functions, compiled by numba when a large tree first needs them."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

from abw.pqtree import kernel, table

# Trees with fewer leaves stay in plain Python: they are done before a compiled kernel is loaded.
PLAIN_BELOW = 64


def wanted(n: int) -> bool:
    """Whether a tree of n leaves should run compiled: it is large, and numba there and not off."""
    if n < PLAIN_BELOW or os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return False
    try:
        import numba  # noqa: F401
    except ImportError:
        return False
    return True


@functools.cache
def compiled(module: ModuleType = kernel) -> SimpleNamespace:
    """The `ENTRIES` of a kernel, the tree's or one that builds on it, compiled on their first call.

    The machine code is kept on disk until a file changes that has a part in it.
    """
    return SimpleNamespace(**{name: _entry(getattr(module, name)) for name in module.ENTRIES})


def _entry(function: FunctionType) -> Any:  # noqa: ANN401
    """A function that Python calls, compiled."""
    import numba
    from numba.core.dispatcher import Dispatcher

    from abw.core.jit.checkedcache import CheckedCache
    from abw.core.jit.loops import OPTIONS, no_garbage_looked_for

    entry: Any = numba.njit(**OPTIONS)(_calling_parts(function))
    if isinstance(entry, Dispatcher):  # not so under NUMBA_DISABLE_JIT
        compiling = no_garbage_looked_for()(entry.compile)
        kept = CheckedCache(function, functools.partial(state, function), allocates=False)
        vars(entry).update(_cache=kept, compile=compiling)
    return entry


@functools.cache
def _part(function: FunctionType) -> Any:  # noqa: ANN401
    """A function that compiled ones call."""
    from abw.core.jit.inlined import part

    return part(_calling_parts(function))


def _calling_parts(function: FunctionType) -> FunctionType:
    """The function once more, in which the names of other functions mean these compiled."""
    named = _named(function)
    known = {name: _part(value) if _is_called(value) else value for name, value in named.items()}
    return FunctionType(function.__code__, known | {"__name__": function.__module__}, function.__name__)


@functools.cache
def state(function: FunctionType) -> tuple[str, ...]:
    """The sources of all modules that a function's machine code is made of."""
    return tuple(inspect.getsource(sys.modules[name]) for name in sorted(_modules(function)))


@functools.cache
def _modules(function: FunctionType) -> frozenset[str]:
    """The modules of a function, of all below it, and of the constants that they share."""
    called = filter(_is_called, _named(function).values())
    return frozenset({function.__module__, table.__name__}).union(*map(_modules, called))


def _named(function: FunctionType) -> dict[str, Any]:
    """The globals that a function names."""
    known = function.__globals__
    return {name: known[name] for name in function.__code__.co_names if name in known}


def _is_called(value: object) -> bool:
    return isinstance(value, FunctionType)
