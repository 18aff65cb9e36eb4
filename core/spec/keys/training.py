"""The keys of the section `train`."""

from __future__ import annotations

from abw.core.ir.training import INITS, LOSSES, METRICS, OPTIMIZERS, SCHEDULES
from abw.core.spec.keys.section import Section, either, integer, listed, named, number, some, text, word

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
