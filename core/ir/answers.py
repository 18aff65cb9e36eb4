"""What an output is given back as, where that is not its values as they were computed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

Form = Literal["values", "probabilities", "label"]
# Those that a spec writes, in `as`.
FORMS: tuple[Form, ...] = get_args(Form)[1:]


# Beside values: the number of their vertex in its instance, unless the data have a field of this name.
VERTEX = "vertex"


@dataclass(frozen=True, slots=True)
class Answer:
    """`values` as they are; their `probabilities` (softmax); or the `label`, the number of the largest.

    Of labels the `top` most probable ones, with probabilities; 0: the first alone, without. `names[i]` is
    what label i is called, None where it has none but its number. `fields` are those of the vertices that
    stand beside the values: fields, links that lead to one vertex, and `VERTEX`. `path` is the file that the
    names come from.
    """

    form: Form = "values"
    top: int = 0
    names: tuple[str, ...] | None = None
    fields: tuple[str, ...] = ()
    path: Path | None = None


AS_IT_IS = Answer()
