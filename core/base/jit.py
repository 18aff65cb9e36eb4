"""The one way this project compiles hot loops with numba."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from types import ModuleType
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core import typed_passes, untyped_passes
from numba.core.compiler import Compiler, CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager
from numba.core.dispatcher import Dispatcher

from abw.core.base.indices import IndicesFromTheFront
from abw.core.base.interrupts import finished_before_interrupt
from abw.pqtree.checkedcache import CheckedCache

F = TypeVar("F", bound=Callable[..., Any])

PASSES = (
    untyped_passes.TranslateByteCode,
    untyped_passes.FixupArgs,
    untyped_passes.IRProcessing,
    untyped_passes.GenericRewrites,
    untyped_passes.ReconstructSSA,
    typed_passes.NopythonTypeInference,
    IndicesFromTheFront,
    typed_passes.PreLowerStripPhis,
    typed_passes.IRLegalization,
    typed_passes.NativeLowering,
    typed_passes.NoPythonBackend,
)
"""numba's passes that loops over arrays need: those left out are for closures, expressions that make arrays,
arguments that may be None, and each takes its time even where it finds nothing."""


class Loops(CompilerBase):
    """numba's compiler by PASSES alone; where these cannot, by all of its own."""

    def define_pipelines(self) -> list[PassManager]:
        """The passes, and numba's own."""
        few, every = PassManager("loops"), _Afresh("nopython")  # type: ignore[no-untyped-call]
        for each in PASSES:
            few.add_pass(each, "")  # type: ignore[no-untyped-call]
        own = DefaultPassBuilder.define_nopython_pipeline(self.state)  # type: ignore[no-untyped-call]
        every.passes.extend(own.passes)
        for some in (few, every):
            some.finalize()  # type: ignore[no-untyped-call]
        return [few, every]


class _Afresh(PassManager):
    """Passes after others have failed, which counts no more."""

    def run(self, state: Any) -> None:  # noqa: ANN401 (numba's)
        state.status.fail_reason = None
        super().run(state)  # type: ignore[no-untyped-call]


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
    """As `njit`, for the rare function that has to make arrays itself."""
    return _compiled(function, {"_nrt": True, "pipeline_class": Compiler})


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
    """Whether a function of `njit` has machine code on disk, or can have none. Cost: some 100 us."""
    cache = _cache_of(function)
    return cache is None or cache.filled


def _compiled(function: F, options: dict[str, Any]) -> F:
    options = {"_nrt": False, "no_cfunc_wrapper": True, "pipeline_class": Loops, **options}
    compiler = numba.njit(nogil=True, error_model="numpy", **options)
    compiled: Any = compiler(function)
    if isinstance(compiled, Dispatcher):  # not so under NUMBA_DISABLE_JIT
        # numba finds no place where neither the program's folder nor the user's caches can be written:
        # then nothing is kept
        with suppress(RuntimeError):
            kept = CheckedCache(function, partial(_made_of, compiled), allocates=options["_nrt"])
            vars(compiled).update(_cache=kept)
        vars(compiled).update(compile=partial(_whole, compiled.compile))
    return cast(F, compiled)


def _whole(compile: Callable[[Any], object], signature: object) -> object:
    """Compile or load a function before Ctrl-C is seen: else LLVM's objects may be freed twice."""
    with finished_before_interrupt():
        return compile(signature)


def _cache_of(function: object) -> CheckedCache | None:
    """Where machine code of a function is kept on disk, if it is."""
    cache = getattr(function, "_cache", None)
    return cache if isinstance(cache, CheckedCache) else None


def _made_of(compiled: Any) -> list[object]:  # noqa: ANN401 (numba's)
    """What a function's machine code holds of other files: of all functions below it the files, and the
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
    """The compiled functions and the constants that a function names, also by their modules."""
    code, known = compiled.py_func.__code__, compiled.py_func.__globals__
    values = {name: known[name] for name in code.co_names if name in known}
    for module in [value for value in values.values() if isinstance(value, ModuleType)]:
        values |= {f"{module.__name__}.{n}": getattr(module, n, None) for n in code.co_names}
    constants = [f"{name} {_text(value)}" for name, value in values.items() if _text(value)]
    return [value for value in values.values() if _cache_of(value)], constants


def _text(value: object) -> str:
    """A constant as compiled functions take it, or a named tuple's fields; '' for what is neither."""
    if isinstance(value, type):
        return str(getattr(value, "_fields", ""))
    if isinstance(value, tuple):
        return repr(value) if all(map(_text, value)) else ""
    return repr(value) if isinstance(value, int | float | str | np.generic) else ""
