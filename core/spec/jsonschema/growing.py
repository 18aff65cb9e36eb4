"""Growth in the JSON Schema of specs."""

from __future__ import annotations

from abw.core.spec.jsonschema.forms import Schema, integer, name_of, object_of, text


def growing() -> Schema:
    """A kind of vertices of the section `grow`."""
    return object_of(
        "A kind of vertices created while the model runs, by decisions on values just computed.",
        {
            "links": {
                "description": "Links of its vertices, to a KIND or 'KIND or none'.",
                "type": "object",
                "propertyNames": name_of(),
                "additionalProperties": text("KIND, or KIND or none."),
            },
            "fields": {
                "description": "Fields of its vertices: 'number', or a table whose row it is.",
                "type": "object",
                "propertyNames": name_of(),
                "additionalProperties": text("number, or a table."),
            },
            "most": integer("Maximum number in an instance."),
            "start": {
                "description": "Links and fields of the vertex that each instance begins with.",
                "type": "object",
                "additionalProperties": {"type": ["string", "integer"], "minLength": 1, "minimum": 0},
            },
            "choose": {
                "description": "Decisions at each vertex, once it is computed.",
                "type": "object",
                "propertyNames": name_of(),
                "additionalProperties": {
                    "anyOf": [
                        text(
                            "argmax TYPE.OUTPUT, sample TYPE.OUTPUT, best 4 of TYPE.OUTPUT, "
                            "TYPE.OUTPUT > 0.5, or chance 0.5."
                        ),
                        object_of(
                            "A choice among allowed scores.",
                            {
                                "argmax": text("TYPE.OUTPUT: pick the highest score."),
                                "sample": text("TYPE.OUTPUT: draw by the softmax."),
                                "best": text("4 of TYPE.OUTPUT: a beam of 4."),
                                "allow": {
                                    "description": "A name for each score, and the condition that allows it.",
                                    "type": "object",
                                    "additionalProperties": text("A condition: top.below and front"),
                                },
                            },
                        ),
                    ]
                },
            },
            "then": {
                "description": "Clauses that create vertices, in order.",
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
            "as": text("Its name in later clauses."),
            "when": text("A condition for it: action == shift and depth < 7"),
            "unless": text("A condition against it."),
            "each": text(
                "NAME in LINK: create one for each vertex of a list; or the decision `best`: one for "
                "each pick."
            ),
        },
        "additionalProperties": {"type": ["string", "integer"], "minLength": 1, "minimum": 0},
    }
