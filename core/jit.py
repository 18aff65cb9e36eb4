"""The one way this project compiles hot loops with numba."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

import numba
from numba.core.caching import NullCache
from numba.core.dispatcher import Dispatcher

F = TypeVar("F", bound=Callable[..., Any])


def njit(function: F) -> F:
    """Compile on first call, keep the machine code on disk, release the interpreter's lock.

    Division follows NumPy (no ZeroDivisionError). Arrays are made by the caller: what is compiled without
    numba's memory management compiles in less time, and cannot make any (numba refuses it).
    The machine code is compiled anew when the function's file changes or that of a compiled function which
    it calls by a global name, also in another module.
    """
    return _compiled(function, {})


def allocating(function: F) -> F:
    """As `njit`, for the rare function that has to make arrays itself."""
    return _compiled(function, {"_nrt": True})


def inner(function: F) -> F:
    """As `njit`, for what compiled functions alone call: without an entry for Python, it compiles faster.

    Python's calls raise TypeError.
    """
    compiled: Any = _compiled(function, {"no_cpython_wrapper": True})

    def refuse(*_: object, **__: object) -> None:
        raise TypeError(f"{function.__name__} can be called by compiled functions alone")

    if isinstance(compiled, Dispatcher):
        vars(compiled).update(_insert=lambda *_, **__: None, _compile_for_args=refuse)  # else a crash
    return cast(F, compiled)


def is_compiled(function: Callable[..., Any]) -> bool:
    """Whether a function of `njit` has machine code on disk, or can have none. Cost: some 50 us."""
    return not _cached(function) or bool(function._cache._cache_file._load_index())  # type: ignore[attr-defined]


def _compiled(function: F, options: dict[str, Any]) -> F:
    options = {"_nrt": False, "no_cfunc_wrapper": True, **options}
    compiler = numba.njit(nogil=True, error_model="numpy", **options)
    compiled = compiler(function)
    if isinstance(compiled, Dispatcher):  # not so under NUMBA_DISABLE_JIT
        # numba finds no place where neither the program's folder nor the user's caches can be written:
        # then nothing is kept
        with suppress(RuntimeError):
            compiled.enable_caching()
            _guard_cache(compiled, function)
    return cast(F, compiled)


def _cached(function: object) -> bool:
    """Whether machine code of a function is kept on disk."""
    return isinstance(function, Dispatcher) and not isinstance(function._cache, NullCache)  # type: ignore[attr-defined]


def _guard_cache(compiled: Any, function: Callable[..., Any]) -> None:  # noqa: ANN401 (private parts)
    """Let the cache see changes of the callees: numba itself compares the caller's own file alone.

    And take an index for stale, not for an error, that names a class which is no longer there.
    """
    named = [function.__globals__.get(name) for name in function.__code__.co_names]
    callees: list[Any] = [value for value in named if _cached(value)]
    own = compiled._cache._cache_file
    own._source_stamp = (own._source_stamp, tuple(c._cache._cache_file._source_stamp for c in callees))
    load = own._load_index

    def load_index() -> Any:  # noqa: ANN401
        try:
            return load()
        except (AttributeError, ImportError):
            return {}

    own._load_index = load_index
