"""The one way this project compiles hot loops with numba."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba import types
from numba.core.compiler import Compiler
from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic

from abw.core.base.interrupts import finished_before_interrupt
from abw.core.base.progress import compiling
from abw.core.jit.addresses import ask
from abw.core.jit.checkedcache import CheckedCache
from abw.core.jit.inlined import part
from abw.core.jit.loops import OPTIONS, for_compiled_alone, no_garbage_looked_for

F = TypeVar("F", bound=Callable[..., Any])


def njit(function: F) -> F:
    """Compile on first call, keep the machine code on disk, release the interpreter's lock.

    Division follows NumPy (no ZeroDivisionError), indices do not: one that is computed must not be below 0
    (`IndicesFromTheFront`). Arrays are made by the caller: what is compiled without
    numba's memory management compiles in less time, and cannot make any (numba refuses it).
    The machine code is compiled anew where it is damaged, and when the function's file changes, that of a
    compiled function below it, or a constant that one of them takes from another module.
    """
    return _compiled(function, {})


def allocating(function: F) -> F:
    """Compile like `njit` a function that has to make arrays itself, which is rare."""
    return _compiled(function, {"_nrt": True, "pipeline_class": Compiler})


def inner(function: F) -> F:
    """Compile like `njit` what only compiled functions call: without an entry for Python that is faster.

    Python's calls raise TypeError.
    """
    compiled: Any = _compiled(function, {"no_cpython_wrapper": True})
    if isinstance(compiled, Dispatcher):
        for_compiled_alone(compiled)
    return cast(F, compiled)


def holding(function: F) -> F:
    """Compile like `njit` what looks at Python's objects: it holds the interpreter's lock."""
    return _compiled(function, {"nogil": False})


def fragment(function: F, *, always: bool = False) -> F:
    """Compile one of the many functions that a large one is made of, as part of it alone.

    That takes less time than `inner`. Python's calls raise TypeError.
    """
    made: Any = part(function, always)
    if isinstance(made, Dispatcher):
        vars(made).update(_source=CheckedCache(function))
    return cast(F, made)


def within(function: F) -> F:
    """Compile like `fragment`, and never call: each array that a call is given costs it seven words."""
    return fragment(function, always=True)


def entry(function: F) -> F:
    """Compile like `inner` a function of one 64-bit integer, which compiled ones call by its address."""
    return inner(function)


def address_of_code(function: Callable[..., Any]) -> int:
    """Where the machine code of a function of `entry` lies, compiled or loaded now; it stays there."""
    compiled: Any = function
    signature = (types.int64,)
    compiled.compile(signature)
    made = compiled.overloads[signature]
    return int(made.library.get_pointer_to_function(made.fndesc.llvm_func_name))


def is_compiled(function: Callable[..., Any]) -> bool:
    """Whether a function of `njit` has machine code on disk, or can have none. Cost: some 100 us."""
    cache = _cache_of(function)
    return cache is None or cache.filled


def is_on_disk(function: Callable[..., Any]) -> bool:
    """Whether a function of `njit` has machine code on disk."""
    cache = _cache_of(function)
    return cache is not None and cache.kept and is_compiled(function)


def _compiled(function: F, options: dict[str, Any]) -> F:
    options = OPTIONS | options
    compiled: Any = numba.njit(**options)(function)
    if isinstance(compiled, Dispatcher):  # not so under NUMBA_DISABLE_JIT
        kept = CheckedCache(function, partial(made_of, compiled), allocates=options["_nrt"])
        vars(compiled).update(_cache=kept)
        vars(compiled).update(compile=partial(_whole, compiled.compile))
    return cast(F, compiled)


def _whole(compile: Callable[[Any], object], signature: object) -> object:
    """Compile or load a function before Ctrl-C is seen: else LLVM's objects may be freed twice."""
    with finished_before_interrupt(), no_garbage_looked_for(), compiling():
        return compile(signature)


def _cache_of(function: object) -> CheckedCache | None:
    """Where a function's machine code is kept on disk, if it is; of a fragment its file's state."""
    cache = getattr(function, "_source", getattr(function, "_cache", None))
    return cache if isinstance(cache, CheckedCache) else None


def made_of(compiled: Any) -> list[object]:  # noqa: ANN401 (numba's)
    """Say what a function's machine code holds of files: of all functions below it the files, and the
    constants that they name, as texts.

    numba itself compares the function's own file alone.
    """
    found: dict[Any, object] = {}
    waiting = [compiled]
    while waiting:
        function = waiting.pop()
        if function not in found:
            callees, constants = _named(function)
            found[function] = (_cache_of(function).source, constants)  # type: ignore[union-attr]
            waiting += callees
    return list(found.values())


@cache
def _named(compiled: Any) -> tuple[list[Any], list[str]]:  # noqa: ANN401
    """The compiled functions that a function names, and the constants, also by their modules."""
    code, known = compiled.py_func.__code__, compiled.py_func.__globals__
    values = {name: known[name] for name in code.co_names if name in known}
    for module in [value for value in values.values() if isinstance(value, ModuleType)]:
        values |= {f"{module.__name__}.{n}": getattr(module, n, None) for n in code.co_names}
    constants = [f"{name} {_text(value)}" for name, value in values.items() if _text(value)]
    return [value for value in values.values() if _cache_of(value)], constants


def _text(value: object) -> str:
    """A constant as compiled functions take it, a named tuple's fields, the file of an intrinsic; else ''."""
    if isinstance(value, _Intrinsic):
        return Path(inspect.getfile(value._defn)).read_text(encoding="utf-8")
    if isinstance(value, type):
        return str(getattr(value, "_fields", ""))
    if isinstance(value, tuple):
        return repr(value) if all(map(_text, value)) else ""
    return repr(value) if isinstance(value, int | float | str | np.generic) else ""


@njit
def ask_code(function: int, word: int) -> int:
    """Call what `address_of_code` gave."""
    return ask(function, word)  # type: ignore[no-any-return]
