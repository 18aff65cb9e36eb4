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
        "Which cell runs on which vertices of an instance, and the sources of its inputs.",
        {
            "model": {"description": "The model's name.", "type": "string", **name_of()},
            "dims": named("Sizes by name: numbers or expressions.", "size", hyphens=False),
            "data": _data(),
            "links": {
                "description": "Links derived from those of the data.",
                "type": "object",
                "propertyNames": name_of(),
                "additionalProperties": {
                    **object_of(
                        "How the link is derived.",
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
                            "description": "Rows (256, or the vocabulary's); numbers are taken modulo it.",
                            "$ref": "#/$defs/size",
                        },
                        "vocab": text(
                            "A file relative to the spec: one word on each line, or JSON, a list or rows by "
                            "word."
                        ),
                        "unknown": {
                            "description": "The word or row for unknown words.",
                            "type": ["string", "integer"],
                            "minLength": 1,
                            "minimum": 0,
                        },
                    },
                    ("dim",),
                ),
            },
            "params": named("Parameters used as values, such as initial states.", "param"),
            "cells": named("Cells of this file; types name them like cell files.", "own-cell"),
            "grow": named(
                "Kinds of vertices created while the model runs, and kinds of the data that decide.",
                "growing",
                least=1,
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
        "An output returned as probabilities or labels, or with fields.",
        {
            "of": {
                "description": "TYPE.OUTPUT, or a list of them.",
                "anyOf": [
                    text("TYPE.OUTPUT"),
                    {"type": "array", "items": text("TYPE.OUTPUT"), "minItems": 1},
                ],
            },
            "as": {"description": "Return the softmax, or the most probable label.", "enum": list(FORMS)},
            "top": integer("Number of labels to return with probabilities, the most probable first."),
            "names": {
                "description": "Names of the labels: a list, a file, or a table with a vocabulary.",
                "anyOf": [text("A file, as of a vocabulary, or a table."), texts],
            },
            "fields": {
                "description": "Fields to return with values: fields of the vertices, links to one vertex, "
                "`vertex`; for grown vertices also `parent` and `clause`.",
                **texts,
            },
        },
        ("of",),
    )


def _data() -> Schema:
    return object_of(
        "The instances.",
        {
            "format": {"description": "Format of the data file.", "enum": list(FORMATS)},
            "path": text("The data file, relative to the spec."),
            "batch": integer("Instances in a mini-batch.", default=64),
            "limit": integer("Maximum number of instances to read."),
            "seed": integer("Seed of the field `coin`.", least=0, default=0),
            "frequency": integer(
                "Format tags: words that occur less often are spelt in characters.", least=0, default=0
            ),
            "beside": {
                "description": "Format json: fields are arrays KIND.FIELD in a file of that name with this "
                "extension.",
                "enum": list(BESIDE),
            },
            "tokens": text("Format words: a regular expression for tokens; by default blanks separate them."),
        },
        ("format", "path"),
    )


def _weights() -> Schema:
    value = text("TENSOR, TENSOR[0:hidden], transpose(A), concat(A, B), A + B, zeros.")
    keys: Schema = {
        "file": text("A file relative to the spec: .safetensors, .npz, or PyTorch's .pt."),
        "map": {
            "description": "The tensors of each TABLE, PARAMETER, TYPE.PARAMETER or TYPE.",
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
            "description": "Tensors of the file to ignore: names, or patterns such as decoder.*",
            "type": "array",
            "items": text("A name or pattern."),
        },
    }
    doc = "Trained weights; without a file, parameters are drawn from the seed."
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
            "query": {"$ref": "#/$defs/source", "description": "This vertex's query, any source."},
            "keys": {"$ref": "#/$defs/source", "description": "The keys along a link: LINK.OUTPUT."},
            "values": {
                "$ref": "#/$defs/source",
                "description": "The values along the same link: LINK.OUTPUT or DEFAULT.",
            },
            "heads": {"$ref": "#/$defs/size", "description": "Number of heads (1)."},
            "score": {
                "description": "Query times key, or the sum of leaky_relu(query + key).",
                "enum": ["product", "added"],
                "default": "product",
            },
            "scaled": {
                "description": "Divide products by the square root of a head's size.",
                "type": "boolean",
                "default": True,
            },
        },
        ("query", "keys", "values"),
    )
    keys: Schema = {
        "per": text("The kind or group of vertices that it runs on."),
        "where": text("A condition on the vertex: coin == 0 and index > 3."),
        "repeat": {
            "description": "Number of layers, each with its own parameters; NAME[below] is the layer below.",
            "$ref": "#/$defs/size",
        },
        "cell": text("A cell of the section `cells`, or a file relative to the spec."),
        "dims": named("The cell's dims that have other names in the model.", "size", hyphens=False),
        "inputs": named("The source of each input.", "source", hyphens=False),
        "params": {
            "description": "Shared parameters: a type's name for all, or TYPE.PARAMETER for single ones.",
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
