"""Cells in the JSON Schema of specs."""

from __future__ import annotations

from abw.core.ir.operations import FUNCTIONS, SIGNS
from abw.core.spec.jsonschema.forms import Schema, named, object_of, text


def cell(own: bool = False) -> Schema:
    """A cell's file; or with `own` one in a model's section `cells`, which has its name there."""
    name = {} if own else {"cell": text("The cell's name.")}
    return object_of(
        "Equations over vectors and matrices.",
        {
            **name,
            "dims": {
                "description": "The names of its sizes.",
                "type": "array",
                "items": text("A dim."),
                "uniqueItems": True,
            },
            "inputs": named("Inputs with shapes.", "shape", hyphens=False),
            "params": named("Parameters with shapes.", "param", hyphens=False),
            "constants": named("Named numbers.", "constant", hyphens=False),
            "equations": text(
                f"name = expression, one a line: {' '.join(SIGNS)} {' '.join(FUNCTIONS)}, slices x[0:hidden]"
            ),
            "outputs": {
                "description": "For each output the name of a value that an equation defines.",
                "type": "object",
                "minProperties": 1,
                "additionalProperties": text("A name."),
            },
        },
        (*name, "equations", "outputs"),
    )
