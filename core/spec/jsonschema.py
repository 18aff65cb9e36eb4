"""The JSON Schema of model and cell files, for editors; `abw schema` prints it.

It knows a file's keys and the form of their values. Names, links and shapes are checked by
`abw.core.spec.load` alone.
"""

from __future__ import annotations

import re
from typing import Any

from abw.core.ir.answers import FORMS
from abw.core.ir.formats import BESIDE, FORMATS
from abw.core.ir.operations import FUNCTIONS, SIGNS
from abw.core.ir.schema import DERIVED
from abw.core.ir.training import INITS, LOSSES, METRICS, OPTIMIZERS, SCHEDULES
from abw.core.spec.models.drafts import REDUCTIONS, SIMPLE
from abw.core.spec.text.fields import LONGEST, MOST, NAME, WORD

Schema = dict[str, Any]

_SOURCE_DOC = (
    "Where it comes from: TYPE.OUTPUT or OUTPUT on the same vertex, LINK.TYPE.OUTPUT behind links "
    "(children[0] picks one), TABLE[FIELD], a field of floats, a parameter, zeros; alternatives with 'or'."
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
                "description": "A whole number, a dim, or an expression over dims: 2 * hidden.",
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
                "description": "A shape; with `init` every number of it begins with that value.",
                "anyOf": [
                    {"$ref": "#/$defs/shape"},
                    _object(
                        "A parameter and its initial value.",
                        {
                            "shape": {"$ref": "#/$defs/shape"},
                            "init": {
                                "type": "number",
                                "description": "Its initial value; drawn if left out.",
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
                    _object(
                        "A shape filled with a number.",
                        {
                            "shape": {"$ref": "#/$defs/shape"},
                            "value": {"type": "number", "description": "What each of its numbers is."},
                        },
                        ("shape", "value"),
                    ),
                ],
            },
            "source": {"description": _SOURCE_DOC, "type": "string", "minLength": 1},
            "model": _model(),
            "type": _type(),
            "growing": _growing(),
            "clause": _clause(),
            "cell": _cell(),
            "own-cell": _cell(own=True),
        },
    }


def _text(doc: str) -> Schema:
    return {"description": doc, "type": "string", "minLength": 1}


def _integer(doc: str, least: int = 1, default: int | None = None) -> Schema:
    schema: Schema = {"description": doc, "type": "integer", "minimum": least, "maximum": MOST}
    return schema if default is None else {**schema, "default": default}


def _object(doc: str, keys: Schema, required: tuple[str, ...] = ()) -> Schema:
    return {
        "description": doc,
        "type": "object",
        "properties": keys,
        "required": list(required),
        "additionalProperties": False,
    }


def _named(doc: str, value: str, hyphens: bool = True, least: int = 0) -> Schema:
    """A mapping from names to values of a definition."""
    return {
        "description": doc,
        "type": "object",
        "propertyNames": _name(NAME if hyphens else WORD),
        "additionalProperties": {"$ref": f"#/$defs/{value}"},
        "minProperties": least,
    }


def _name(pattern: re.Pattern[str] = NAME) -> Schema:
    return {"pattern": f"^{_portable(pattern.pattern)}$", "maxLength": LONGEST}


def _portable(pattern: str) -> str:
    """A name's pattern for editors, whose \\w knows ASCII alone: no blanks and no signs instead."""
    signs = r"\s!-,./:-@\[-^`{-~"
    return (
        pattern.replace(r"[^\W\d]", rf"[^-0-9{signs}]")
        .replace(r"[\w-]", f"[^{signs}]")
        .replace(r"\w", f"[^-{signs}]")
    )


def _model() -> Schema:
    return _object(
        "A model: which cell runs on which vertices of an instance, and where its inputs come from.",
        {
            "model": {"description": "The model's name.", "type": "string", **_name()},
            "dims": _named("Sizes by name: numbers, or expressions over each other.", "size", hyphens=False),
            "data": _data(),
            "links": {
                "description": "Links that the data do not have, made of what they have.",
                "type": "object",
                "propertyNames": _name(),
                "additionalProperties": {
                    **_object(
                        "What it is made of.",
                        {how: _text(f"{doc[0].upper()}{doc[1:]}.") for how, doc in DERIVED.items()},
                    ),
                    "minProperties": 1,
                    "maxProperties": 1,
                },
            },
            "tables": {
                **_named("Embedding tables by name; a source reads a row as TABLE[FIELD].", "size"),
                "additionalProperties": _object(
                    "A table of rows, each a vector or matrix.",
                    {
                        "dim": {"$ref": "#/$defs/shape"},
                        "rows": {
                            "description": "How many; numbers count modulo it. 256, or the vocabulary's.",
                            "$ref": "#/$defs/size",
                        },
                        "vocab": _text(
                            "A file beside the spec: one word a line, or JSON, a list or rows by word."
                        ),
                        "unknown": {
                            "description": "The word of the vocabulary that stands for all others, or a row.",
                            "type": ["string", "integer"],
                            "minLength": 1,
                            "minimum": 0,
                        },
                    },
                    ("dim",),
                ),
            },
            "params": _named(
                "Parameters of the model that are used as values, such as first states.", "param"
            ),
            "cells": _named("The model's own cells: a type names them as it does files.", "own-cell"),
            "grow": _named(
                "Kinds of vertices that come to be, and given kinds that decide.", "growing", least=1
            ),
            "types": _named("The types of nodes.", "type", least=1),
            "weights": _weights(),
            "train": _train(),
            "outputs": {
                "description": "The model's results by name: TYPE.OUTPUT, or a list of them.",
                "type": "object",
                "propertyNames": _name(),
                "minProperties": 1,
                "additionalProperties": {
                    "anyOf": [
                        _text("TYPE.OUTPUT"),
                        {"type": "array", "items": _text("TYPE.OUTPUT"), "minItems": 1},
                        _answer(),
                    ]
                },
            },
        },
        ("model", "data", "types", "outputs"),
    )


def _answer() -> Schema:
    texts: Schema = {"type": "array", "items": _text("A name."), "minItems": 1}
    return _object(
        "An output that is given back as an answer.",
        {
            "of": {
                "description": "TYPE.OUTPUT, or a list of them.",
                "anyOf": [
                    _text("TYPE.OUTPUT"),
                    {"type": "array", "items": _text("TYPE.OUTPUT"), "minItems": 1},
                ],
            },
            "as": {"description": "The most probable label, or the softmax.", "enum": list(FORMS)},
            "top": _integer("So many labels, the most probable first, with their probabilities."),
            "names": {
                "description": "What labels are called: a list, a file, or a table with a vocabulary.",
                "anyOf": [_text("A file, as of a vocabulary, or a table."), texts],
            },
            "fields": {"description": "Fields of the vertices beside them in JSON lines.", **texts},
        },
        ("of",),
    )


def _data() -> Schema:
    return _object(
        "Where the instances come from.",
        {
            "format": {"description": "How the data is written.", "enum": list(FORMATS)},
            "path": _text("The data file, beside the spec."),
            "batch": _integer("Instances in a mini-batch.", default=64),
            "limit": _integer("Read so many instances and no more."),
            "seed": _integer("The seed of the field `coin`.", least=0, default=0),
            "frequency": _integer("Format tags: words rarer than that are spelt out.", least=0, default=0),
            "beside": {
                "description": "Format json: fields are arrays KIND.FIELD in the file beside it, so ending.",
                "enum": list(BESIDE),
            },
            "tokens": _text(
                "Format words: a regular expression that finds the tokens; else blanks part them."
            ),
        },
        ("format", "path"),
    )


def _weights() -> Schema:
    value = _text("TENSOR, TENSOR[0:hidden], transpose(A), concat(A, B), A + B, zeros.")
    keys: Schema = {
        "file": _text("A file beside the spec: .safetensors, .npz, or PyTorch's .pt."),
        "map": {
            "description": "What each TABLE, PARAMETER, TYPE.PARAMETER or TYPE is made of.",
            "type": "object",
            "additionalProperties": {
                "anyOf": [
                    value,
                    {
                        "description": "Of a type: its parameters by name.",
                        "type": "object",
                        "additionalProperties": value,
                    },
                ]
            },
        },
        "ignore": {
            "description": "Tensors of the file that need not be used: names, or patterns such as decoder.*",
            "type": "array",
            "items": _text("A name or pattern."),
        },
    }
    doc = "Trained weights; parameters are drawn from the seed where there is no file."
    return {"anyOf": [_text("A file of weights beside the spec."), _object(doc, keys)]}


def _train() -> Schema:
    number: Schema = {"type": "number", "minimum": 0}
    over = _text("A kind or group of its vertices, or a link of the instance that leads to them.")
    loss = _object(
        "What an output costs beside its target.",
        {
            "of": _text("The output."),
            "target": _text("FIELD, LINK.FIELD, or the row TABLE[LINK.FIELD]: next.word's."),
            "kind": {"enum": list(LOSSES), "default": LOSSES[0], "description": "Of vectors of scores."},
            "over": over,
            "weight": {**number, "description": "What the loss is multiplied with."},
            "classes": {"type": "array", "items": number, "description": "The weight of each class."},
        },
        ("of", "target"),
    )
    metric: Schema = {
        "anyOf": [
            {"enum": list(METRICS)},
            _object(
                "A metric of one of the losses' outputs.",
                {
                    "name": {"enum": list(METRICS), "description": "Which."},
                    "of": _text("The output."),
                    "over": over,
                },
                ("name",),
            ),
        ]
    }
    optimizer = _object(
        "An optimiser and its numbers, as PyTorch has them.",
        {
            "name": {"enum": list(OPTIMIZERS), "description": "Which."},
            "rate": {**number, "description": "The learning rate."},
            "decay": {**number, "description": "Of matrices: weight decay."},
            **{
                name: {**number, "description": f"PyTorch's {name}."}
                for name in ("momentum", "beta1", "beta2", "epsilon")
            },
        },
        ("name",),
    )
    schedule = _object(
        "How the learning rate changes.",
        {
            "name": {"enum": list(SCHEDULES), "description": "Which."},
            "warmup": _integer("It grows from 0 over so many steps.", least=0),
            "factor": {**number, "description": "exponential: what an epoch multiplies it with."},
        },
        ("name",),
    )
    return _object(
        "How the model is trained: `abw train`.",
        {
            "loss": {
                "description": "What is made small: one, or a list that is added.",
                "anyOf": [loss, {"type": "array", "items": loss, "minItems": 1}],
            },
            "metric": {
                "description": "How good it is; the first says which epoch is best.",
                "anyOf": [*metric["anyOf"], {"type": "array", "items": metric, "minItems": 1}],
            },
            "optimizer": {
                "description": "A name, or with its numbers.",
                "anyOf": [{"enum": list(OPTIMIZERS)}, optimizer],
            },
            "schedule": {
                "description": "Of the learning rate.",
                "anyOf": [{"enum": list(SCHEDULES)}, schedule],
            },
            "per": {"enum": ["instance", "value"], "description": "What a step's loss is divided by."},
            "clip": {**number, "description": "The most that the gradient's norm may be."},
            "word-dropout": {
                "description": "By table: how probably a word is read as unknown.",
                "type": "object",
                "additionalProperties": {**number, "exclusiveMaximum": 1},
            },
            "dropout": {
                "description": "By patterns of TYPE.INPUT, inputs of cells: how probably a number is 0.",
                "type": "object",
                "additionalProperties": {**number, "exclusiveMaximum": 1},
            },
            "init": {
                "description": "How parameters and tables begin, by patterns of their names.",
                "type": "object",
                "additionalProperties": _text(f"One of: {', '.join(INITS)}; uniform(0.1), normal(0.02)."),
            },
            "epochs": _integer("So often all instances are seen.", default=10),
            "batch": _integer("Instances in a step.", default=32),
            "patience": _integer("So many epochs without a better metric end it.", least=0, default=0),
            "vocabulary": _integer("Words seen less often have no row of their own.", default=1),
            "dev": _text("The dev data, beside the spec."),
        },
        ("loss",),
    )


def _type() -> Schema:
    reductions: Schema = {
        name: _named(f"The {name} over what a link leads to, by output: LINK.OUTPUT or DEFAULT.", "source")
        for name in SIMPLE
    }
    attend = _object(
        "The mean of the values, weighted by the softmax of the keys' scores; output y.",
        {
            "query": {"$ref": "#/$defs/source", "description": "What this vertex asks with: any source."},
            "keys": {"$ref": "#/$defs/source", "description": "What a link leads to: LINK.OUTPUT."},
            "values": {
                "$ref": "#/$defs/source",
                "description": "Along the same link: LINK.OUTPUT or DEFAULT.",
            },
            "heads": {"$ref": "#/$defs/size", "description": "So many parts attend each on its own; 1."},
            "score": {
                "description": "What is compared: query times key, or leaky_relu(query + key), summed.",
                "enum": ["product", "added"],
                "default": "product",
            },
            "scaled": {
                "description": "Divide the products by the root of a head's size.",
                "type": "boolean",
                "default": True,
            },
        },
        ("query", "keys", "values"),
    )
    keys: Schema = {
        "per": _text("The kind or group of vertices that have such a node."),
        "where": _text("A condition on the vertex: coin == 0 and index > 3."),
        "repeat": {
            "description": "So many layers, each with parameters of its own: NAME[below] is the layer below.",
            "$ref": "#/$defs/size",
        },
        "cell": _text("The cell: one of the section cells, or a file beside the spec."),
        "dims": _named("The cell's dims where they are named otherwise in the model.", "size", hyphens=False),
        "inputs": _named("Where each input of the cell comes from.", "source", hyphens=False),
        "params": {
            "description": "Parameters of others to use: a type's name for all, or TYPE.PARAMETER by name.",
            "anyOf": [
                _text("A type that has the same parameters."),
                {"type": "object", "additionalProperties": _text("TYPE.PARAMETER, or one of the model's.")},
            ],
        },
        **reductions,
        "attend": attend,
    }
    of_cells = ("dims", "inputs", "params")
    return {
        **_object(
            "A type: a cell, or a sum, mean, max or attention, on every vertex of a kind.", keys, ("per",)
        ),
        "oneOf": [
            {"required": ["cell"], "not": {"anyOf": [{"required": [name]} for name in REDUCTIONS]}},
            *(
                {"required": [name], "not": {"anyOf": [{"required": [key]} for key in of_cells]}}
                for name in REDUCTIONS
            ),
        ],
    }


def _growing() -> Schema:
    return _object(
        "A kind of vertices that come to be while the model runs, by decisions on values just computed.",
        {
            "links": {
                "description": "Where its vertices lead: a kind, or 'KIND or none'.",
                "type": "object",
                "propertyNames": _name(),
                "additionalProperties": _text("KIND, or KIND or none."),
            },
            "fields": {
                "description": "Numbers of its vertices: 'number', or a table, whose rows they are.",
                "type": "object",
                "propertyNames": _name(),
                "additionalProperties": _text("number, or a table."),
            },
            "most": _integer("So many of them an instance may have."),
            "start": {
                "description": "Every instance begins with one of them, which has these links and fields.",
                "type": "object",
                "additionalProperties": {"type": ["string", "integer"], "minLength": 1, "minimum": 0},
            },
            "choose": {
                "description": "What is decided at each of its vertices, once that is computed.",
                "type": "object",
                "propertyNames": _name(),
                "additionalProperties": {
                    "anyOf": [
                        _text(
                            "argmax TYPE.OUTPUT, sample TYPE.OUTPUT, best 4 of TYPE.OUTPUT, "
                            "TYPE.OUTPUT > 0.5, or chance 0.5."
                        ),
                        _object(
                            "A choice among what is allowed.",
                            {
                                "argmax": _text("TYPE.OUTPUT: the best."),
                                "sample": _text("TYPE.OUTPUT: drawn by the softmax."),
                                "best": _text("4 of TYPE.OUTPUT: a beam."),
                                "allow": {
                                    "description": "For each score a name, and the condition that allows it.",
                                    "type": "object",
                                    "additionalProperties": _text("A condition: top.below and front"),
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


def _clause() -> Schema:
    return {
        "description": "A new vertex: its links and fields (this, LINK.LINK, FIELD + 1, a number, a word).",
        "type": "object",
        "required": ["add"],
        "properties": {
            "add": _text("The kind of the new vertex."),
            "as": _text("What later clauses call it."),
            "when": _text("A condition: action == shift and depth < 7"),
            "unless": _text("A condition under which it does not come to be."),
            "each": _text(
                "NAME in LINK: it is done for each vertex of a list. Or the decision `best`: for each pick."
            ),
        },
        "additionalProperties": {"type": ["string", "integer"], "minLength": 1, "minimum": 0},
    }


def _cell(own: bool = False) -> Schema:
    """A cell's file; or with `own` one in a model's section `cells`, which has its name there."""
    name = {} if own else {"cell": _text("The cell's name.")}
    return _object(
        "A cell: equations over vectors and matrices.",
        {
            **name,
            "dims": {
                "description": "The names of its sizes.",
                "type": "array",
                "items": _text("A dim."),
                "uniqueItems": True,
            },
            "inputs": _named("What flows in, with shapes.", "shape", hyphens=False),
            "params": _named("Its parameters, with shapes.", "param", hyphens=False),
            "constants": _named("Numbers that equations name.", "constant", hyphens=False),
            "equations": _text(
                f"name = expression, one a line: {' '.join(SIGNS)} {' '.join(FUNCTIONS)}, slices x[0:hidden]"
            ),
            "outputs": {
                "description": "What flows out: by output, the name of what an equation defines.",
                "type": "object",
                "minProperties": 1,
                "additionalProperties": _text("A name."),
            },
        },
        (*name, "equations", "outputs"),
    )
