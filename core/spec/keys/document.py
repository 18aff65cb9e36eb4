"""The JSON Schema of model and cell files as one document, for editors; `abw schema` prints it."""

from __future__ import annotations

from abw.core.spec.keys.model import (
    CELL,
    CLAUSE_SCHEMA,
    CONSTANT,
    GROWING,
    MODEL,
    MODEL_CELL,
    OF_CELLS,
    PARAM,
    REDUCTIONS,
    TYPE,
)
from abw.core.spec.keys.section import Schema, either, listed, number, refer

_SOURCE = (
    "TYPE.OUTPUT or OUTPUT on the same vertex, LINK.TYPE.OUTPUT along links (children[0] picks one), "
    "TABLE[FIELD], a field of floats, a parameter, or zeros; alternatives with 'or'."
)


def model_schema() -> Schema:
    """The schema of a spec: a model where the file has `model`, a cell where it has `cell`."""
    any_number = number(least=None)
    written: Schema = {"type": "string", "minLength": 1}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "abw spec",
        "description": "A model (types of nodes over the vertices of an instance) or a cell (equations).",
        "type": "object",
        "oneOf": [refer("model"), refer("cell")],
        "$defs": {
            "size": either(
                "An integer, a dim, or an expression over dims: 2 * hidden.",
                {"type": "integer", "minimum": 1},
                written,
            ),
            "shape": either(
                "A vector's size, or a matrix's [rows, columns].",
                refer("size"),
                {**listed(refer("size")), "maxItems": 2},
            ),
            "param": either(
                "A shape; `init` sets the initial value of all its numbers.", refer("shape"), PARAM.schema
            ),
            "constant": either(
                "A number, a list of numbers, a list of rows, or one number in a shape.",
                any_number,
                listed(any_number),
                listed(listed(any_number, least=0)),
                CONSTANT.schema,
            ),
            "source": {"description": _SOURCE, **written},
            "model": MODEL.schema,
            "type": {**TYPE.schema, "oneOf": [_only("cell", REDUCTIONS), *_reductions()]},
            "growing": GROWING.schema,
            "clause": CLAUSE_SCHEMA,
            "cell": CELL.schema,
            "own-cell": MODEL_CELL.schema,
        },
    }


def _reductions() -> list[Schema]:
    return [_only(name, OF_CELLS) for name in REDUCTIONS]


def _only(name: str, others: tuple[str, ...]) -> Schema:
    """With this key, and none of some others."""
    return {"required": [name], "not": {"anyOf": [{"required": [other]} for other in others]}}
