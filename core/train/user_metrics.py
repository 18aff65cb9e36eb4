"""Metrics of one's own, by where they are: `module:function` or `file.py:function`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from abw.core.base.errors import AbwError, did_you_mean
from abw.core.base.modules import module_at, placed
from abw.core.ir.training import Training
from abw.core.store.trainings import NO_METRICS
from abw.core.train.evaluate import OwnMetric, Parts

HINT = "a metric of your own is named module:function or file.py:function"


def own_metrics(names: Iterable[str]) -> dict[str, OwnMetric]:
    """Metrics of one's own, by the functions' names. Their code is run.

    What they raise becomes an AbwError with the place in its file. Errors: AbwError where there is no such
    file, module or function, and for two of one name.
    """
    found: dict[str, OwnMetric] = {}
    for name in names:
        where, _, function = name.rpartition(":")
        if not where or not function:
            raise AbwError(f"'{name}' is no metric", hint=HINT)
        module = module_at(where, HINT)
        called = getattr(module, function, None)
        if not callable(called):
            known = [n for n, value in vars(module).items() if callable(value)]
            raise AbwError(f"{where} has no function '{function}'", hint=did_you_mean(function, known))
        if function in found:
            raise AbwError(f"two metrics are called '{function}'", hint="another name")
        found[function] = _placed(name, called)
    return found


def _placed(name: str, metric: OwnMetric) -> OwnMetric:
    def told(outputs: Parts, targets: Parts) -> float:
        with placed(name, __file__):
            return metric(outputs, targets)

    return told


def refuse_own(own: Mapping[str, OwnMetric], training: Training, *, dev: bool) -> None:
    """Refuse metrics of names that are taken, and without dev data to tell them by. Errors: AbwError."""
    taken = {*NO_METRICS, *(metric.name for metric in training.metrics)} & own.keys()
    if taken:
        raise AbwError(f"a metric cannot be called '{min(taken)}': that is another", hint="another name")
    if own and not dev:
        raise AbwError(
            "metrics are told by dev data, and there are none", hint="--dev FILE, fit(instances, dev, …)"
        )
