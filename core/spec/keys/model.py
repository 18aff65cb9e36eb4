"""The keys of models and cells, and the JSON Schema of both as one document, for editors."""

from __future__ import annotations

from abw.core.ir.formats import BESIDE, FORMATS
from abw.core.ir.model import FORMS, SIMPLE
from abw.core.ir.operations import FUNCTIONS, SIGNS
from abw.core.ir.schema import DERIVED
from abw.core.ir.training import INITS, LOSSES, METRICS, OPTIMIZERS, SCHEDULES
from abw.core.spec.keys.section import (
    Schema,
    Section,
    either,
    integer,
    listed,
    name_of,
    named,
    number,
    refer,
    some,
    text,
    truth,
    word,
    words,
)

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


_OVER = text("Restrict it to a kind or group of vertices, or to those that a link of the instance leads to.")

LOSS = Section(
    "A loss between an output and its target.",
    {
        "of": text("The output."),
        "target": text("FIELD, LINK.FIELD, or the row TABLE[LINK.FIELD], as for next.word."),
        "kind": word("Kind of loss.", LOSSES, LOSSES[0]),
        "over": _OVER,
        "weight": number("Factor of this loss."),
        "classes": {**listed(number(), "The weight of each class.", least=0)},
    },
    ("of", "target"),
)
METRIC = Section(
    "A metric of one of the losses' outputs.",
    {"name": word("Its name.", METRICS), "of": text("The output."), "over": _OVER},
    ("name",),
)
OPTIMIZER = Section(
    "An optimizer and its settings, as in PyTorch.",
    {
        "name": word("Its name.", OPTIMIZERS),
        "rate": number("The learning rate."),
        "decay": number("Weight decay of all parameters."),
        **{name: number("As in torch.optim.") for name in ("momentum", "beta1", "beta2", "epsilon")},
    },
    ("name",),
)
SCHEDULE = Section(
    "How the learning rate changes.",
    {
        "name": word("Its name.", SCHEDULES),
        "warmup": integer("Number of steps over which the rate grows from 0.", least=0),
        "factor": number("exponential: factor of the rate for each epoch."),
    },
    ("name",),
)
_METRICS = ({"enum": list(METRICS)}, METRIC.schema)
TRAIN = Section(
    "Settings of `abw train`.",
    {
        "loss": some("A loss, or a list of losses to add.", LOSS.schema),
        "metric": either(
            "Metrics; the first decides which epoch is best.", *_METRICS, listed(either("", *_METRICS))
        ),
        "optimizer": either(
            "A name, or a mapping with settings.", {"enum": list(OPTIMIZERS)}, OPTIMIZER.schema
        ),
        "schedule": either("Schedule of the learning rate.", {"enum": list(SCHEDULES)}, SCHEDULE.schema),
        "per": word("Unit over which a step's loss is averaged.", ("instance", "value")),
        "clip": number("Maximum norm of the gradient."),
        "word-dropout": named(
            "Probability of reading a word as unknown, by table.", number(below=1), pattern=None
        ),
        "dropout": named(
            "Probability of setting a number to 0, by patterns of TYPE.INPUT.", number(below=1), pattern=None
        ),
        "init": named(
            "Initial values, by patterns of names of parameters and tables.",
            text(f"One of: {', '.join(INITS)}; uniform(0.1), normal(0.02)."),
            pattern=None,
        ),
        "epochs": integer("Number of passes over the training data.", default=10),
        "batch": integer("Instances in a step.", default=32),
        "patience": integer(
            "Epochs without a better metric that end the training; 0: never.", least=0, default=0
        ),
        "vocabulary": integer("Words that occur less often have no row of their own.", default=1),
        "dev": text("The dev data, relative to the spec."),
    },
    ("loss",),
)
# Of a library: its programs say the losses.
LIBRARY_TRAIN = TRAIN.without("loss", "metric", "word-dropout", "dropout", "vocabulary")


PARAM = Section(
    "A parameter and its initial value.",
    {"shape": refer("shape"), "init": number("Initial value; random by default.", least=None)},
    ("shape",),
)
CONSTANT = Section(
    "A shape filled with a number.",
    {"shape": refer("shape"), "value": number("The value of all its numbers.", least=None)},
    ("shape", "value"),
)
CELL = Section(
    "Equations over vectors and matrices.",
    {
        "cell": text("The cell's name."),
        "dims": {**listed(text("A dim."), "The names of its sizes.", least=0), "uniqueItems": True},
        "inputs": words("Inputs with shapes.", refer("shape")),
        "params": words("Parameters with shapes.", refer("param")),
        "constants": words("Named numbers.", refer("constant")),
        "equations": text(
            "name = expression, one a line, with slices such as x[0:hidden]. "
            f"Operations: {' '.join(SIGNS)} {' '.join(FUNCTIONS)}"
        ),
        "outputs": named(
            "For each output the name of a value that an equation defines.", text("A name."), None, least=1
        ),
    },
    ("cell", "equations", "outputs"),
)
# A cell in a model's section `cells`, which has its name there.
MODEL_CELL = CELL.without("cell")
DATA = Section(
    "The instances.",
    {
        "format": word("Format of the data file.", FORMATS),
        "path": text("The data file, relative to the spec."),
        "batch": integer("Instances in a mini-batch.", default=64),
        "limit": integer("Maximum number of instances to read."),
        "seed": integer("Seed of the field `coin`.", least=0, default=0),
        "frequency": integer(
            "Format tags: words that occur less often are spelt in characters.", least=0, default=0
        ),
        "beside": word(
            "Format json: fields are arrays KIND.FIELD in a file of that name with this extension.", BESIDE
        ),
        "tokens": text("Format words: a regular expression for tokens; by default blanks separate them."),
    },
    ("format", "path"),
)
TABLE = Section(
    "A table of rows, each a vector or matrix.",
    {
        "dim": refer("shape"),
        "rows": refer("size", "Rows (256, or the vocabulary's); numbers are taken modulo it."),
        "vocab": text("A file relative to the spec: one word on each line, or JSON, a list or rows by word."),
        "unknown": {
            "description": "The word or row for unknown words.",
            "type": ["string", "integer"],
            "minLength": 1,
            "minimum": 0,
        },
    },
    ("dim",),
)
_TENSORS = text("TENSOR, TENSOR[0:hidden], transpose(A), concat(A, B), A + B, zeros.")
WEIGHTS = Section(
    "Trained weights; without a file, parameters are drawn from the seed.",
    {
        "file": text("A file relative to the spec: .safetensors, .npz, or PyTorch's .pt."),
        "map": named(
            "The tensors of each TABLE, PARAMETER, TYPE.PARAMETER or TYPE.",
            either("", _TENSORS, named("Of a type: its parameters by name.", _TENSORS, None)),
            None,
        ),
        "ignore": listed(
            text("A name or pattern."),
            "Tensors of the file to ignore: names, or patterns such as decoder.*",
            least=0,
        ),
    },
)
_NAMES = listed(text("A name."))
ANSWER = Section(
    "An output returned as probabilities or labels, or with fields.",
    {
        "of": some("TYPE.OUTPUT, or a list of them.", text("TYPE.OUTPUT")),
        "as": word("Return the softmax, or the most probable label.", FORMS),
        "top": integer("Number of labels to return with probabilities, the most probable first."),
        "names": either(
            "Names of the labels: a list, a file, or a table with a vocabulary.",
            text("A file, as of a vocabulary, or a table."),
            _NAMES,
        ),
        "fields": {
            **_NAMES,
            "description": "Fields to return with values: fields of the vertices, links to one vertex, "
            "`vertex`; for grown vertices also `parent` and `clause`.",
        },
    },
    ("of",),
)
ATTEND = Section(
    "The mean of the values, weighted by the softmax of the keys' scores; output y.",
    {
        "query": refer("source", "This vertex's query, any source."),
        "keys": refer("source", "The keys along a link: LINK.OUTPUT."),
        "values": refer("source", "The values along the same link: LINK.OUTPUT or DEFAULT."),
        "heads": refer("size", "Number of heads (1)."),
        "score": word(
            "Query times key, or the sum of leaky_relu(query + key).", ("product", "added"), "product"
        ),
        "scaled": truth("Divide products by the square root of a head's size.", default=True),
    },
    ("query", "keys", "values"),
)
# What a type may be instead of a cell, and the keys that it has none of then.
REDUCTIONS = (*SIMPLE, "attend")
OF_CELLS = ("dims", "inputs", "params")
TYPE = Section(
    "A type: a cell, or a reduction or attention, on every vertex of a kind.",
    {
        "per": text("The kind or group of vertices that it runs on."),
        "where": text("A condition on the vertex: coin == 0 and index > 3."),
        "repeat": refer(
            "size", "Number of layers, each with its own parameters; NAME[below] is the layer below."
        ),
        "cell": text("A cell of the section `cells`, or a file relative to the spec."),
        "dims": words("The cell's dims that have other names in the model.", refer("size")),
        "inputs": words("The source of each input.", refer("source")),
        "params": either(
            "Shared parameters: a type's name for all, or TYPE.PARAMETER for single ones.",
            text("A type that has the same parameters."),
            {"type": "object", "additionalProperties": text("TYPE.PARAMETER, or one of the model's.")},
        ),
        **{
            name: named(
                "For each output, the values along a link to reduce: LINK.OUTPUT or DEFAULT.", refer("source")
            )
            for name in SIMPLE
        },
        "attend": ATTEND.schema,
    },
    ("per",),
)
MODEL = Section(
    "Which cell runs on which vertices of an instance, and the sources of its inputs.",
    {
        "model": {"description": "The model's name.", "type": "string", **name_of()},
        "dims": words("Sizes by name: numbers or expressions.", refer("size")),
        "data": DATA.schema,
        "links": named(
            "Links derived from those of the data.",
            {
                **Section(
                    "How the link is derived.",
                    {how: text(f"{doc[0].upper()}{doc[1:]}.") for how, doc in DERIVED.items()},
                ).schema,
                "minProperties": 1,
                "maxProperties": 1,
            },
        ),
        "tables": named("Embedding tables by name; a source reads a row as TABLE[FIELD].", TABLE.schema),
        "params": named("Parameters used as values, such as initial states.", refer("param")),
        "cells": named("Cells of this file; types name them like cell files.", refer("own-cell")),
        "grow": named(
            "Kinds of vertices created while the model runs, and kinds of the data that decide.",
            refer("growing"),
            least=1,
        ),
        "types": named("The types of nodes.", refer("type"), least=1),
        "weights": either("", text("A file of weights beside the spec."), WEIGHTS.schema),
        "train": TRAIN.schema,
        "outputs": named(
            "The model's results by name: TYPE.OUTPUT, or a list of them.",
            either("", text("TYPE.OUTPUT"), listed(text("TYPE.OUTPUT")), ANSWER.schema),
            least=1,
        ),
    },
    ("model", "data", "types", "outputs"),
)


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
