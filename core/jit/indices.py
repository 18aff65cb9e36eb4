"""A pass for numba's compiler: indices of arrays count from the front."""

from __future__ import annotations

from typing import Any

from numba.core import ir, types
from numba.core.compiler_machinery import FunctionPass, register_pass


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
