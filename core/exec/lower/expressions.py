"""Element-wise operations as text, for kernels that are written in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain, count

from abw.core.ir.operations import spell

# What is one expression; `assign` makes the other operations of these.
EXPRESSIONS: Mapping[str, str] = {
    "add": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "div": "{} / {}",
    "neg": "-{}",
    "less": "{} < {}",
    "less_equal": "{} <= {}",
    "equal": "{} == {}",
    "select": "{1} if {0} else {2}",
    "sigmoid": "sigmoid({})",
    "tanh": "tanh({})",
    "exp": "exp({})",
    "log": "log({})",
    "sqrt": "sqrt({})",
    "abs": "abs({})",
    "floor": "floor({})",
    "gelu": "gelu({})",
    "identity": "{}",
}


def assign(
    emit: Callable[[str], None], result: str, name: str, args: Sequence[str], number: Callable[[float], str]
) -> str:
    """Emit the lines of an operation of the table; gives the name that holds it, `result` if one line does.

    `number` is how the text has a constant.
    """
    names = chain([result], (f"{result}_{line}" for line in count(2)))

    def line(step: str, values: Sequence[str]) -> str:
        emit(f"{(made := next(names))} = {EXPRESSIONS[step].format(*values)}")
        return made

    return spell(name, args, EXPRESSIONS, line, number)
