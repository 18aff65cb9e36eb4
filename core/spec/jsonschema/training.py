"""Training in the JSON Schema of specs."""

from __future__ import annotations

from abw.core.ir.training import INITS, LOSSES, METRICS, OPTIMIZERS, SCHEDULES
from abw.core.spec.jsonschema.forms import Schema, integer, object_of, text


def training() -> Schema:
    """The section `train`."""
    number: Schema = {"type": "number", "minimum": 0}
    over = text(
        "Restrict it to a kind or group of vertices, or to those that a link of the instance leads to."
    )
    loss = object_of(
        "A loss between an output and its target.",
        {
            "of": text("The output."),
            "target": text("FIELD, LINK.FIELD, or the row TABLE[LINK.FIELD], as for next.word."),
            "kind": {"enum": list(LOSSES), "default": LOSSES[0], "description": "Kind of loss."},
            "over": over,
            "weight": {**number, "description": "Factor of this loss."},
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
                    "name": {"enum": list(METRICS), "description": "Its name."},
                    "of": text("The output."),
                    "over": over,
                },
                ("name",),
            ),
        ]
    }
    optimizer = object_of(
        "An optimizer and its settings, as in PyTorch.",
        {
            "name": {"enum": list(OPTIMIZERS), "description": "Its name."},
            "rate": {**number, "description": "The learning rate."},
            "decay": {**number, "description": "Weight decay of matrices."},
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
            "name": {"enum": list(SCHEDULES), "description": "Its name."},
            "warmup": integer("Number of steps over which the rate grows from 0.", least=0),
            "factor": {**number, "description": "exponential: factor of the rate for each epoch."},
        },
        ("name",),
    )
    return object_of(
        "Settings of `abw train`.",
        {
            "loss": {
                "description": "A loss, or a list of losses to add.",
                "anyOf": [loss, {"type": "array", "items": loss, "minItems": 1}],
            },
            "metric": {
                "description": "Metrics; the first decides which epoch is best.",
                "anyOf": [*metric["anyOf"], {"type": "array", "items": metric, "minItems": 1}],
            },
            "optimizer": {
                "description": "A name, or a mapping with settings.",
                "anyOf": [{"enum": list(OPTIMIZERS)}, optimizer],
            },
            "schedule": {
                "description": "Schedule of the learning rate.",
                "anyOf": [{"enum": list(SCHEDULES)}, schedule],
            },
            "per": {
                "enum": ["instance", "value"],
                "description": "Unit over which a step's loss is averaged.",
            },
            "clip": {**number, "description": "Maximum norm of the gradient."},
            "word-dropout": {
                "description": "Probability of reading a word as unknown, by table.",
                "type": "object",
                "additionalProperties": {**number, "exclusiveMaximum": 1},
            },
            "dropout": {
                "description": "Probability of setting a number to 0, by patterns of TYPE.INPUT.",
                "type": "object",
                "additionalProperties": {**number, "exclusiveMaximum": 1},
            },
            "init": {
                "description": "Initial values, by patterns of names of parameters and tables.",
                "type": "object",
                "additionalProperties": text(f"One of: {', '.join(INITS)}; uniform(0.1), normal(0.02)."),
            },
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
