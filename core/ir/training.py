"""How a model is trained: what its section `train` says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from abw.core.base.errors import Span
from abw.core.ir.growth import Decision
from abw.core.ir.schema import Hops, Kinds

LossKind = Literal["cross-entropy", "binary", "squared", "log-error", "q-error"]
LOSSES: tuple[LossKind, ...] = get_args(LossKind)
# Of these an output is the logarithm of what is told, and the target that itself.
OF_LOGARITHMS: tuple[LossKind, ...] = ("log-error", "q-error")

OptimizerName = Literal["sgd", "momentum", "adam", "adamw", "adagrad"]
_ADAM = {"rate": 1e-3, "decay": 0.0, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}
# Each with its numbers and what they are unless told otherwise: the defaults of PyTorch's `torch.optim`.
#
# PyTorch has no default for `momentum`: there it is an SGD that is told one.
OPTIMIZERS: Mapping[OptimizerName, Mapping[str, float]] = {
    "sgd": {"rate": 1e-3, "decay": 0.0},
    "momentum": {"rate": 1e-3, "decay": 0.0, "momentum": 0.9},
    "adam": _ADAM,
    "adamw": {**_ADAM, "decay": 1e-2},
    "adagrad": {"rate": 1e-2, "decay": 0.0, "epsilon": 1e-10},
}

ScheduleName = Literal["constant", "linear", "cosine", "inverse-root", "exponential"]
SCHEDULES: tuple[ScheduleName, ...] = get_args(ScheduleName)

MetricName = Literal[
    "accuracy", "span-f1", "perplexity", "squared-error", "median-q-error", "p90-q-error", "p99-q-error",
    "loss",
]  # fmt: skip
# The quantiles of q-errors that are metrics.
QUANTILES: Mapping[MetricName, float] = {"median-q-error": 0.5, "p90-q-error": 0.9, "p99-q-error": 0.99}
# Each with whether more of it is better.
METRICS: Mapping[MetricName, bool] = {
    "accuracy": True, "span-f1": True, "perplexity": False, "squared-error": False,
    **dict.fromkeys(QUANTILES, False), "loss": False,
}  # fmt: skip

# Initialisations, each with the numbers that it takes.
INITS: Mapping[str, int] = {
    "zeros": 0, "ones": 0, "constant": 1, "uniform": 1, "normal": 1, "linear": 0, "glorot-uniform": 0,
    "glorot-normal": 0, "he-uniform": 0, "he-normal": 0, "orthogonal": 0,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Target:
    """What a vertex should give: `field` of the vertex that `hops` lead to, or its row of table `table`."""

    field: str
    hops: Hops = ()
    table: int | None = None


@dataclass(frozen=True, slots=True)
class Among:
    """The vertices that count: of some kinds, or those that a link of the instance leads to."""

    text: str
    kinds: Kinds = frozenset()
    link: str = ""


@dataclass(frozen=True, slots=True)
class Loss:
    """What is made small: the sum over the values of output number `output` whose vertex has a target.

    `weight` multiplies it; `classes` are weights of the classes (cross-entropy), empty where all weigh 1.
    Where it is of a `decision` the values are that one's scores, and the target is what it should be: the
    outputs of decisions that have scores are numbered behind the model's others (`abw.core.train.teacher`).
    """

    output: int
    kind: LossKind
    target: Target
    over: Among | None
    weight: float
    classes: tuple[float, ...]
    where: Span
    decision: Decision | None = None


@dataclass(frozen=True, slots=True)
class Metric:
    """What tells how good the model is: of the values of loss number `loss`, over some of their vertices."""

    name: MetricName
    loss: int
    over: Among | None = None

    @property
    def more_is_better(self) -> bool:
        """Whether it grows as the model gets better."""
        return METRICS[self.name]


@dataclass(frozen=True, slots=True)
class Optimizer:
    """PyTorch's formulas. `decay` applies to all parameters, and to the rows of tables that a step reads."""

    name: OptimizerName = "adam"
    rate: float = 1e-3
    decay: float = 0.0
    momentum: float = 0.9
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8


@dataclass(frozen=True, slots=True)
class RateSchedule:
    """How the learning rate changes; before it, it grows from 0 over `warmup` steps."""

    name: ScheduleName = "constant"
    warmup: int = 0
    factor: float = 0.95


@dataclass(frozen=True, slots=True)
class Init:
    """How the parameters and tables begin whose name fits a pattern."""

    pattern: str
    name: str
    numbers: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Training:
    """All that a model's section `train` says.

    A step's loss is the sum over its values, divided by its number of instances, or of values where
    `per_value`. `clip` is the most that the gradient's norm may be, 0 for anything. `word_dropout` has for
    tables (by number) the probability that a word is read as unknown; `dropout` for inputs of cells (by the
    numbers of type and input) that of each number to be 0. `patience`: so many epochs without a better metric
    end it, 0: none does. `vocabulary`: words of the training data that are there less often have no row of
    their own. `asked`: where the spec asks for metrics, if it does.
    """

    losses: tuple[Loss, ...]
    metrics: tuple[Metric, ...]
    optimizer: Optimizer = Optimizer()
    schedule: RateSchedule = RateSchedule()
    per_value: bool = False
    clip: float = 0.0
    word_dropout: Mapping[int, float] = field(default_factory=dict)
    dropout: Mapping[tuple[int, int], float] = field(default_factory=dict)
    inits: tuple[Init, ...] = ()
    epochs: int = 10
    batch: int = 32
    patience: int = 0
    vocabulary: int = 1
    dev: Path | None = None
    asked: Span | None = None
