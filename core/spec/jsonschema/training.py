"""Training in the JSON Schema of specs."""

from __future__ import annotations

from abw.core.ir.training import INITS, LOSSES, METRICS, OPTIMIZERS, SCHEDULES
from abw.core.spec.jsonschema.forms import Schema, integer, object_of, text


def training() -> Schema:
    """The section `train`."""
    number: Schema = {"type": "number", "minimum": 0}
    over = text("A kind or group of its vertices, or a link of the instance that leads to them.")
    loss = object_of(
        "What an output costs beside its target.",
        {
            "of": text("The output."),
            "target": text("FIELD, LINK.FIELD, or the row TABLE[LINK.FIELD]: next.word's."),
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
            object_of(
                "A metric of one of the losses' outputs.",
                {
                    "name": {"enum": list(METRICS), "description": "Which."},
                    "of": text("The output."),
                    "over": over,
                },
                ("name",),
            ),
        ]
    }
    optimizer = object_of(
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
    schedule = object_of(
        "How the learning rate changes.",
        {
            "name": {"enum": list(SCHEDULES), "description": "Which."},
            "warmup": integer("It grows from 0 over so many steps.", least=0),
            "factor": {**number, "description": "exponential: what an epoch multiplies it with."},
        },
        ("name",),
    )
    return object_of(
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
                "additionalProperties": text(f"One of: {', '.join(INITS)}; uniform(0.1), normal(0.02)."),
            },
            "epochs": integer("So often all instances are seen.", default=10),
            "batch": integer("Instances in a step.", default=32),
            "patience": integer("So many epochs without a better metric end it.", least=0, default=0),
            "vocabulary": integer("Words seen less often have no row of their own.", default=1),
            "dev": text("The dev data, beside the spec."),
        },
        ("loss",),
    )
