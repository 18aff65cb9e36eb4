"""Models in the JSON Schema of specs: types, data, outputs, weights."""

from __future__ import annotations

from abw.core.ir.answers import FORMS
from abw.core.ir.formats import BESIDE, FORMATS
from abw.core.ir.schema import DERIVED
from abw.core.spec.jsonschema.forms import Schema, integer, name_of, named, object_of, text
from abw.core.spec.jsonschema.training import training
from abw.core.spec.models.drafts import REDUCTIONS, SIMPLE


def model() -> Schema:
    """A model file."""
    return object_of(
        "A model: which cell runs on which vertices of an instance, and where its inputs come from.",
        {
            "model": {"description": "The model's name.", "type": "string", **name_of()},
            "dims": named("Sizes by name: numbers, or expressions over each other.", "size", hyphens=False),
            "data": _data(),
            "links": {
                "description": "Links that the data do not have, made of what they have.",
                "type": "object",
                "propertyNames": name_of(),
                "additionalProperties": {
                    **object_of(
                        "What it is made of.",
                        {how: text(f"{doc[0].upper()}{doc[1:]}.") for how, doc in DERIVED.items()},
                    ),
                    "minProperties": 1,
                    "maxProperties": 1,
                },
            },
            "tables": {
                **named("Embedding tables by name; a source reads a row as TABLE[FIELD].", "size"),
                "additionalProperties": object_of(
                    "A table of rows, each a vector or matrix.",
                    {
                        "dim": {"$ref": "#/$defs/shape"},
                        "rows": {
                            "description": "How many; numbers count modulo it. 256, or the vocabulary's.",
                            "$ref": "#/$defs/size",
                        },
                        "vocab": text(
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
            "params": named(
                "Parameters of the model that are used as values, such as first states.", "param"
            ),
            "cells": named("The model's own cells: a type names them as it does files.", "own-cell"),
            "grow": named(
                "Kinds of vertices that come to be, and given kinds that decide.", "growing", least=1
            ),
            "types": named("The types of nodes.", "type", least=1),
            "weights": _weights(),
            "train": training(),
            "outputs": {
                "description": "The model's results by name: TYPE.OUTPUT, or a list of them.",
                "type": "object",
                "propertyNames": name_of(),
                "minProperties": 1,
                "additionalProperties": {
                    "anyOf": [
                        text("TYPE.OUTPUT"),
                        {"type": "array", "items": text("TYPE.OUTPUT"), "minItems": 1},
                        _answer(),
                    ]
                },
            },
        },
        ("model", "data", "types", "outputs"),
    )


def _answer() -> Schema:
    texts: Schema = {"type": "array", "items": text("A name."), "minItems": 1}
    return object_of(
        "An output that is given back as an answer.",
        {
            "of": {
                "description": "TYPE.OUTPUT, or a list of them.",
                "anyOf": [
                    text("TYPE.OUTPUT"),
                    {"type": "array", "items": text("TYPE.OUTPUT"), "minItems": 1},
                ],
            },
            "as": {"description": "The most probable label, or the softmax.", "enum": list(FORMS)},
            "top": integer("So many labels, the most probable first, with their probabilities."),
            "names": {
                "description": "What labels are called: a list, a file, or a table with a vocabulary.",
                "anyOf": [text("A file, as of a vocabulary, or a table."), texts],
            },
            "fields": {"description": "Fields of the vertices beside them in JSON lines.", **texts},
        },
        ("of",),
    )


def _data() -> Schema:
    return object_of(
        "Where the instances come from.",
        {
            "format": {"description": "How the data is written.", "enum": list(FORMATS)},
            "path": text("The data file, beside the spec."),
            "batch": integer("Instances in a mini-batch.", default=64),
            "limit": integer("Read so many instances and no more."),
            "seed": integer("The seed of the field `coin`.", least=0, default=0),
            "frequency": integer("Format tags: words rarer than that are spelt out.", least=0, default=0),
            "beside": {
                "description": "Format json: fields are arrays KIND.FIELD in the file beside it, so ending.",
                "enum": list(BESIDE),
            },
            "tokens": text(
                "Format words: a regular expression that finds the tokens; else blanks part them."
            ),
        },
        ("format", "path"),
    )


def _weights() -> Schema:
    value = text("TENSOR, TENSOR[0:hidden], transpose(A), concat(A, B), A + B, zeros.")
    keys: Schema = {
        "file": text("A file beside the spec: .safetensors, .npz, or PyTorch's .pt."),
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
            "items": text("A name or pattern."),
        },
    }
    doc = "Trained weights; parameters are drawn from the seed where there is no file."
    return {"anyOf": [text("A file of weights beside the spec."), object_of(doc, keys)]}


def node_type() -> Schema:
    """A type of the section `types`."""
    reductions: Schema = {
        name: named(f"The {name} over what a link leads to, by output: LINK.OUTPUT or DEFAULT.", "source")
        for name in SIMPLE
    }
    attend = object_of(
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
        "per": text("The kind or group of vertices that have such a node."),
        "where": text("A condition on the vertex: coin == 0 and index > 3."),
        "repeat": {
            "description": "So many layers, each with parameters of its own: NAME[below] is the layer below.",
            "$ref": "#/$defs/size",
        },
        "cell": text("The cell: one of the section cells, or a file beside the spec."),
        "dims": named("The cell's dims where they are named otherwise in the model.", "size", hyphens=False),
        "inputs": named("Where each input of the cell comes from.", "source", hyphens=False),
        "params": {
            "description": "Parameters of others to use: a type's name for all, or TYPE.PARAMETER by name.",
            "anyOf": [
                text("A type that has the same parameters."),
                {"type": "object", "additionalProperties": text("TYPE.PARAMETER, or one of the model's.")},
            ],
        },
        **reductions,
        "attend": attend,
    }
    of_cells = ("dims", "inputs", "params")
    return {
        **object_of(
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
