"""The JSON Schema of model and cell files as one document."""

from __future__ import annotations

from abw.core.spec.jsonschema.cell import cell
from abw.core.spec.jsonschema.forms import Schema, object_of
from abw.core.spec.jsonschema.growing import clause, growing
from abw.core.spec.jsonschema.model import model, node_type

_SOURCE_DOC = (
    "TYPE.OUTPUT or OUTPUT on the same vertex, LINK.TYPE.OUTPUT along links (children[0] "
    "picks one), TABLE[FIELD], a field of floats, a parameter, or zeros; alternatives "
    "with 'or'."
)


def model_schema() -> Schema:
    """The schema of a spec: a model where the file has `model`, a cell where it has `cell`."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "abw spec",
        "description": "A model (types of nodes over the vertices of an instance) or a cell (equations).",
        "type": "object",
        "oneOf": [{"$ref": "#/$defs/model"}, {"$ref": "#/$defs/cell"}],
        "$defs": {
            "size": {
                "description": "An integer, a dim, or an expression over dims: 2 * hidden.",
                "anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "minLength": 1}],
            },
            "shape": {
                "description": "A vector's size, or a matrix's [rows, columns].",
                "anyOf": [
                    {"$ref": "#/$defs/size"},
                    {"type": "array", "items": {"$ref": "#/$defs/size"}, "minItems": 1, "maxItems": 2},
                ],
            },
            "param": {
                "description": "A shape; `init` sets the initial value of all its numbers.",
                "anyOf": [
                    {"$ref": "#/$defs/shape"},
                    object_of(
                        "A parameter and its initial value.",
                        {
                            "shape": {"$ref": "#/$defs/shape"},
                            "init": {
                                "type": "number",
                                "description": "Initial value; random by default.",
                            },
                        },
                        ("shape",),
                    ),
                ],
            },
            "constant": {
                "description": "A number, a list of numbers, a list of rows, or one number in a shape.",
                "anyOf": [
                    {"type": "number"},
                    {"type": "array", "items": {"type": "number"}, "minItems": 1},
                    {"type": "array", "items": {"type": "array", "items": {"type": "number"}}, "minItems": 1},
                    object_of(
                        "A shape filled with a number.",
                        {
                            "shape": {"$ref": "#/$defs/shape"},
                            "value": {"type": "number", "description": "The value of all its numbers."},
                        },
                        ("shape", "value"),
                    ),
                ],
            },
            "source": {"description": _SOURCE_DOC, "type": "string", "minLength": 1},
            "model": model(),
            "type": node_type(),
            "growing": growing(),
            "clause": clause(),
            "cell": cell(),
            "own-cell": cell(own=True),
        },
    }
