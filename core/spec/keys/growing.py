"""The keys of the section `grow`."""

from __future__ import annotations

from abw.core.spec.keys.section import Schema, Section, either, integer, listed, named, refer, text

# A link's or field's value: a path, a number or a word.
_VALUE: Schema = {"type": ["string", "integer"], "minLength": 1, "minimum": 0}

CHOICE = Section(
    "A choice among allowed scores.",
    {
        "argmax": text("TYPE.OUTPUT: pick the highest score."),
        "sample": text("TYPE.OUTPUT: draw by the softmax."),
        "best": text("4 of TYPE.OUTPUT: a beam of 4."),
        "allow": named(
            "A name for each score, and the condition that allows it.",
            text("A condition: top.below and front"),
            pattern=None,
        ),
    },
)
GROWING = Section(
    "A kind of vertices created while the model runs, by decisions on values just computed.",
    {
        "links": named("Links of its vertices, to a KIND or 'KIND or none'.", text("KIND, or KIND or none.")),
        "fields": named(
            "Fields of its vertices: 'number', or a table whose row it is.", text("number, or a table.")
        ),
        "most": integer("Maximum number in an instance."),
        "start": named(
            "Links and fields of the vertex that each instance begins with.", _VALUE, pattern=None
        ),
        "choose": named(
            "Decisions at each vertex, once it is computed.",
            either(
                "",
                text(
                    "argmax TYPE.OUTPUT, sample TYPE.OUTPUT, best 4 of TYPE.OUTPUT, TYPE.OUTPUT > 0.5, or "
                    "chance 0.5."
                ),
                CHOICE.schema,
            ),
        ),
        "then": listed(refer("clause"), "Clauses that create vertices, in order.", least=0),
    },
)
CLAUSE = Section(
    "A new vertex: its links and fields (this, LINK.LINK, FIELD + 1, a number, a word).",
    {
        "add": text("The kind of the new vertex."),
        "as": text("Its name in later clauses."),
        "when": text("A condition for it: action == shift and depth < 7"),
        "unless": text("A condition against it."),
        "each": text(
            "NAME in LINK: create one for each vertex of a list; or the decision `best`: one for each pick."
        ),
    },
    ("add",),
)
# In a clause every other key is a link or a field of the new vertex.
CLAUSE_SCHEMA = {**CLAUSE.schema, "additionalProperties": _VALUE}
