"""numba's compiler for loops over arrays: what these need of it, and no more."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, ClassVar

from numba.core import ir, typed_passes, types, untyped_passes
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, PassManager, register_pass
from numba.core.typing.context import Context


@register_pass(mutates_CFG=False, analysis_only=False)  # type: ignore[no-untyped-call]
class IndicesFromTheFront(FunctionPass):
    """Take computed indices as unsigned: numba adds the array's length to each that is below 0 otherwise.

    Asking whether it is takes up to a third of a loop's time. An index that is written as a number, such as
    -1, still counts from the end. NUMBA_BOUNDSCHECK=1 finds what is below 0, as all that is out of bounds.
    """

    _name = "indices_from_the_front"

    def __init__(self) -> None:
        FunctionPass.__init__(self)  # type: ignore[no-untyped-call]

    def run_pass(self, state: Any) -> bool:  # noqa: ANN401 (numba's)
        """Change the types by which indices are looked up; the values stay what they are."""
        for block in state.func_ir.blocks.values():
            for statement in block.body:
                what = statement.value if isinstance(statement, ir.Assign) else statement
                if isinstance(what, ir.SetItem) or (isinstance(what, ir.Expr) and what.op == "getitem"):
                    given = state.calltypes.pop(what)
                    array, index, *value = given.args
                    if isinstance(array, types.Array):
                        given = given.replace(args=(array, _unsigned(index), *value))
                    state.calltypes[what] = given
        return True


def _unsigned(index: Any) -> Any:  # noqa: ANN401
    """The type of an index, or of several as a tuple, without its sign."""
    if isinstance(index, types.Integer):
        return types.uintp
    if isinstance(index, types.BaseTuple):
        several: Any = index
        return types.Tuple([_unsigned(each) for each in several])  # type: ignore[no-untyped-call]
    return index


class OptimisedOnce(JITCodeLibrary):
    """LLVM's code of a function, which is optimised together with all that it calls.

    numba optimises before each function alone, and then all of them for what counts references: a tenth of
    the time that compiling takes.
    """

    def _optimize_functions(self, ll_module: Any) -> None:  # noqa: ANN401 (llvmlite's)
        """Not alone."""
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        passes, builder = self._codegen._module_pass_manager()  # type: ignore[no-untyped-call]
        passes.run(self._final_module, builder)


@register_pass(mutates_CFG=True, analysis_only=False)  # type: ignore[no-untyped-call]
class Lowering(typed_passes.NativeLowering):
    """numba's lowering to code that is optimised once."""

    _name = "lowering"
    library: ClassVar[type[JITCodeLibrary]] = OptimisedOnce

    def run_pass(self, state: Any) -> bool:  # noqa: ANN401 (numba's)
        """Make the code, which can be kept on disk."""
        state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return bool(super().run_pass(state))  # type: ignore[no-untyped-call]


# numba's passes that loops over arrays need: those left out are for closures, expressions that make arrays,
# arguments that may be None, and each takes its time even where it finds nothing.
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
    Lowering,
    typed_passes.NoPythonBackend,
)


class Remembered(Context):
    """numba's typing of calls, each looked up once for all functions.

    For every `a[i]` and `a + b` numba tries what these can mean, one after the other, some thirty of them;
    of 5,000 calls in what a first run compiles, 370 differ.
    """

    known: ClassVar[dict[object, object]] = {}

    def __init__(self, context: Context) -> None:
        self.__dict__ = context.__dict__  # its tables, which grow

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:  # noqa: ANN401 (numba's)
        """The signature of a call."""
        if kws or (isinstance(func, types.Type) and not isinstance(func, types.Function)):
            # a compiled function, say, which knows for itself
            return super().resolve_function_type(func, args, kws)  # type: ignore[no-untyped-call]
        key = (func, *args)
        try:
            found = self.known.get(key)
        except TypeError:  # a slice that is written out, as in `a[:] = 0`, is no key
            return super().resolve_function_type(func, args, kws)  # type: ignore[no-untyped-call]
        if found is None:
            found = super().resolve_function_type(func, args, kws)  # type: ignore[no-untyped-call]
        if found is not None:
            self.known[key] = found
        return found


remembered = cache(Remembered)


class Loops(CompilerBase):
    """numba's compiler by PASSES alone; where these cannot, by all of its own."""

    def __init__(self, context: Context, *others: Any) -> None:  # noqa: ANN401 (numba's)
        super().__init__(remembered(context), *others)  # type: ignore[no-untyped-call]

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


# Loops release the interpreter's lock, divide as NumPy does, make no arrays, and are no callbacks of C.
OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "_nrt": False,
    "no_cfunc_wrapper": True,
    "pipeline_class": Loops,
}


@contextmanager
def no_garbage_looked_for() -> Iterator[None]:
    """Pause Python's collector, which would visit the many objects that numba keeps again and again."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def for_compiled_alone(made: Any) -> None:  # noqa: ANN401 (numba's)
    """Let Python's calls of a compiled function raise TypeError: without an entry they would crash."""

    def refuse(*_: object, **__: object) -> None:
        raise TypeError(f"{made.__name__} can be called by compiled functions alone")

    vars(made).update(_insert=lambda *_, **__: None, _compile_for_args=refuse)
