"""Growth in the JSON Schema of specs."""

from __future__ import annotations

from abw.core.spec.jsonschema.forms import Schema, integer, name_of, object_of, text


def growing() -> Schema:
    """A kind of vertices of the section `grow`."""
    return object_of(
        "A kind of vertices that come to be while the model runs, by decisions on values just computed.",
        {
            "links": {
                "description": "Where its vertices lead: a kind, or 'KIND or none'.",
                "type": "object",
                "propertyNames": name_of(),
                "additionalProperties": text("KIND, or KIND or none."),
            },
            "fields": {
                "description": "Numbers of its vertices: 'number', or a table, whose rows they are.",
                "type": "object",
                "propertyNames": name_of(),
                "additionalProperties": text("number, or a table."),
            },
            "most": integer("So many of them an instance may have."),
            "start": {
                "description": "Every instance begins with one of them, which has these links and fields.",
                "type": "object",
                "additionalProperties": {"type": ["string", "integer"], "minLength": 1, "minimum": 0},
            },
            "choose": {
                "description": "What is decided at each of its vertices, once that is computed.",
                "type": "object",
                "propertyNames": name_of(),
                "additionalProperties": {
                    "anyOf": [
                        text(
                            "argmax TYPE.OUTPUT, sample TYPE.OUTPUT, best 4 of TYPE.OUTPUT, "
                            "TYPE.OUTPUT > 0.5, or chance 0.5."
                        ),
                        object_of(
                            "A choice among what is allowed.",
                            {
                                "argmax": text("TYPE.OUTPUT: the best."),
                                "sample": text("TYPE.OUTPUT: drawn by the softmax."),
                                "best": text("4 of TYPE.OUTPUT: a beam."),
                                "allow": {
                                    "description": "For each score a name, and the condition that allows it.",
                                    "type": "object",
                                    "additionalProperties": text("A condition: top.below and front"),
                                },
                            },
                        ),
                    ]
                },
            },
            "then": {
                "description": "What comes to be, clause after clause.",
                "type": "array",
                "items": {"$ref": "#/$defs/clause"},
            },
        },
    )


def clause() -> Schema:
    """A new vertex of the section `grow`."""
    return {
        "description": "A new vertex: its links and fields (this, LINK.LINK, FIELD + 1, a number, a word).",
        "type": "object",
        "required": ["add"],
        "properties": {
            "add": text("The kind of the new vertex."),
            "as": text("What later clauses call it."),
            "when": text("A condition: action == shift and depth < 7"),
            "unless": text("A condition under which it does not come to be."),
            "each": text(
                "NAME in LINK: it is done for each vertex of a list. Or the decision `best`: for each pick."
            ),
        },
        "additionalProperties": {"type": ["string", "integer"], "minLength": 1, "minimum": 0},
    }
