"""Functions that compiled ones alone call: they are optimised and made machine code in their callers.

numba does both for each function, and again with it in each of its callers: in deep calls, that is most of
the time that compiling takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba.core import typed_passes, types
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.dispatcher import Dispatcher

from abw.core.jit.loops import OPTIONS, PASSES, Loops, Lowering, OptimisedOnce, for_compiled_alone


class _Part(OptimisedOnce):
    """LLVM's code of a function and of what it calls, as it was generated."""

    def _optimize_final_module(self) -> None:
        """Left to callers."""

    def _finalize_final_module(self) -> None:
        """No machine code."""
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)  # type: ignore[no-untyped-call]
class LoweringOfParts(Lowering):
    """To LLVM's code, no further."""

    _name = "lowering_of_parts"
    library = _Part

    def run_pass(self, state: Any) -> bool:  # noqa: ANN401 (numba's)
        """Make the code, and known to callers under a name that stands for an address."""
        state.flags.no_compile = True
        super().run_pass(state)
        name = object()
        state.targetctx.insert_user_function(name, state.cr.fndesc, [state.library])
        state.cr = state.cr._replace(cfunc=name)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)  # type: ignore[no-untyped-call]
class TypesOfParts(typed_passes.NopythonTypeInference):
    """Types as numba infers them; what is returned may be an array at an address, which numba refuses."""

    _name = "types_of_parts"

    def run_pass(self, state: Any) -> bool:  # noqa: ANN401 (numba's)
        """Infer them."""
        of = state.typingctx, state.targetctx, state.func_ir, state.args, state.return_type, state.locals
        found = typed_passes.type_inference_stage(*of)  # type: ignore[no-untyped-call]
        state.typemap, state.return_type, state.calltypes, state.typing_errors = found
        return True


# What takes the place of numba's own passes.
INSTEAD: dict[Any, Any] = {
    Lowering: LoweringOfParts,
    typed_passes.NopythonTypeInference: TypesOfParts,
}


class Parts(Loops):
    """The compiler of parts; see `Loops`."""

    def define_pipelines(self) -> list[PassManager]:
        """The passes; numba's own, which would make machine code, do not take their place."""
        passes = PassManager("parts")  # type: ignore[no-untyped-call]
        for each in PASSES:
            passes.add_pass(INSTEAD.get(each, each), "")  # type: ignore[no-untyped-call]
        passes.finalize()  # type: ignore[no-untyped-call]
        return [passes]


def part(function: Callable[..., Any], always: bool = False) -> Any:  # noqa: ANN401
    """The function, for compiled ones to call. Integers come to it as 64 bits: it is compiled once for all.
    `always`: callers never call it, whatever its size.

    Python's calls raise TypeError.
    """
    options = OPTIONS | {"no_cpython_wrapper": True, "pipeline_class": Parts, "forceinline": always}
    made: Any = numba.njit(**options)(function)
    if not isinstance(made, Dispatcher):  # under NUMBA_DISABLE_JIT
        return made
    template = made.get_call_template
    vars(made).update(get_call_template=lambda args, kws: template(tuple(map(_wide, args)), kws))
    for_compiled_alone(made)
    return made


def _wide(given: Any) -> Any:  # noqa: ANN401
    given = types.unliteral(given)  # type: ignore[no-untyped-call]
    return types.intp if isinstance(given, types.Integer) else given
