"""The keys of models and cells: types, data, tables, weights, outputs."""

from __future__ import annotations

from abw.core.ir.formats import BESIDE, FORMATS
from abw.core.ir.model import FORMS, SIMPLE
from abw.core.ir.operations import FUNCTIONS, SIGNS
from abw.core.ir.schema import DERIVED
from abw.core.spec.keys.section import (
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
from abw.core.spec.keys.training import TRAIN

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
