"""The section `train` of a model: losses, optimiser, schedule, metrics, and what a run of training takes."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

from abw.core.ir.model import Table
from abw.core.ir.training import INITS, OPTIMIZERS, SCHEDULES, Init, Optimizer, RateSchedule, Training
from abw.core.spec.keys.section import Entries
from abw.core.spec.keys.training import LIBRARY_TRAIN, OPTIMIZER, SCHEDULE, TRAIN
from abw.core.spec.models.losses import Losses, Outputs
from abw.core.spec.models.resolve import Resolver
from abw.core.spec.text import fields
from abw.core.spec.text.document import Mapping as Keys
from abw.core.spec.text.document import Node
from abw.core.spec.text.reach import Reach
from abw.core.spec.text.report import Report, suggest

_INIT = re.compile(r"(?P<name>[a-z][a-z-]*)(\((?P<numbers>[^()]*)\))?")


def read_training(
    section: Keys | None,
    resolver: Resolver,
    names: Collection[str],
    inputs: Mapping[str, tuple[int, int]],
    outputs: Outputs,
    reach: Reach,
) -> Training | None:
    """What the section says; None where there is none, or it has mistakes.

    `names` are those of parameters and tables, `inputs` of cells' inputs (`leaf.x`) with type and number.
    """
    if section is None:
        return None
    report = resolver.report
    before = len(report)
    reader = Losses(resolver, outputs)
    TRAIN.check(section, "train", report, waived=("loss",))
    losses = reader.losses(section.get("loss"), section)
    if len(report) == before:
        reader.undecided(losses, section)
    metrics = reader.metrics(section.get("metric"), losses)
    entries = TRAIN.entries(section, report)
    vocabulary = entries.integer("vocabulary")
    made = replace(
        _made(section, entries, names, reach, report),
        losses=tuple(losses),
        metrics=tuple(metrics),
        word_dropout=_word_dropout(entries.mapping("word-dropout"), resolver.tables, report),
        dropout=_dropout(entries.mapping("dropout"), inputs, report),
        asked=metric.where if (metric := section.key("metric")) else None,
        vocabulary=1 if vocabulary is None else vocabulary,
    )
    return None if len(report) > before else made


def library_training(
    section: Keys | None, names: Collection[str], reach: Reach, report: Report
) -> Training | None:
    """What the section of a library says, whose programs say the losses; None where there is none.

    `names` are those of parameters and tables.
    """
    if section is None:
        return None
    LIBRARY_TRAIN.check(section, "train", report)
    entries = LIBRARY_TRAIN.entries(section, report)
    return _made(section, entries, names, reach, report)


def _made(section: Keys, entries: Entries, names: Collection[str], reach: Reach, report: Report) -> Training:
    """What sections of models and libraries have alike."""
    usual = Training((), ())
    per = entries.word("per", hint="a step's loss is divided: instance or value")
    dev = entries.text("dev")
    epochs, batch, patience = (entries.integer(name) for name in ("epochs", "batch", "patience"))
    return Training(
        (),
        (),
        _optimizer(section.get("optimizer"), report),
        _schedule(section.get("schedule"), report),
        per is not None and per.text == "value",
        entries.amount("clip") or 0.0,
        inits=tuple(_inits(entries.mapping("init"), names, report)),
        epochs=usual.epochs if epochs is None else epochs,
        batch=usual.batch if batch is None else batch,
        patience=usual.patience if patience is None else patience,
        dev=reach.file(dev, "the dev data", report) if dev else None,
    )


def _optimizer(node: Node | None, report: Report) -> Optimizer:
    if node is None:
        return Optimizer()
    keys = node if isinstance(node, Keys) else None
    if keys:
        OPTIMIZER.check(keys, "optimizer", report)
    name = fields.choice(keys.get("name") if keys else node, "optimizer", tuple(OPTIMIZERS), report)
    if name is None:
        return Optimizer()
    settings = dict(OPTIMIZERS[name])
    entries = OPTIMIZER.entries(keys, report)
    for option in OPTIMIZER.without("name").keys:
        key = keys.key(option) if keys else None
        if key is None:
            continue
        if option not in settings:
            owners = ", ".join(other for other, numbers in OPTIMIZERS.items() if option in numbers)
            report.add(f"{name} has no {option}", key.where, f"{option} is of {owners}")
        most = 1.0 if option in ("momentum", "beta1", "beta2") else None
        value = entries.amount(option, below=most)
        if value is not None:
            settings[option] = value
    return Optimizer(name, **settings)


def _schedule(node: Node | None, report: Report) -> RateSchedule:
    if node is None:
        return RateSchedule()
    keys = node if isinstance(node, Keys) else None
    if keys:
        SCHEDULE.check(keys, "schedule", report)
    name = fields.choice(keys.get("name") if keys else node, "schedule", SCHEDULES, report)
    entries = SCHEDULE.entries(keys, report)
    warmup, factor = entries.integer("warmup"), entries.amount("factor")
    if keys and keys.get("factor") and name not in (None, "exponential"):
        report.add(f"schedule {name} has no factor", keys.where, "it is of schedule exponential")
    usual = RateSchedule()
    return RateSchedule(name or "constant", warmup or 0, usual.factor if factor is None else factor)


def _word_dropout(
    keys: Keys | None, tables: Mapping[str, tuple[int, Table | None]], report: Report
) -> dict[int, float]:
    found = {}
    for key, value in keys.items if keys else ():
        chance = fields.amount(value, f"word-dropout of '{key.text}'", report, below=1.0)
        number, table = tables.get(key.text, (-1, None))
        if number < 0:
            hint = suggest(key.text, tables)
            report.add(f"no table is called '{key.text}'", key.where, hint)
        elif table and table.vocab and table.unknown is None:
            hint = "unknown: WORD, or its row"
            report.add(f"table '{key.text}' has no row for unknown words", key.where, hint)
        elif chance is not None:
            found[number] = chance
    return found


def _dropout(
    keys: Keys | None, inputs: Mapping[str, tuple[int, int]], report: Report
) -> dict[tuple[int, int], float]:
    found = {}
    for key, value in keys.items if keys else ():
        chance = fields.amount(value, f"dropout of '{key.text}'", report, below=1.0)
        fitting = [slot for name, slot in inputs.items() if fnmatchcase(name, key.text)]
        if not fitting:
            hint = suggest(key.text, inputs) or "TYPE.INPUT, of a type with a cell"
            report.add(f"dropout '{key.text}' fits no input of a cell", key.where, hint)
        elif chance is not None:
            found.update(dict.fromkeys(fitting, chance))
    return found


def _inits(keys: Keys | None, names: Collection[str], report: Report) -> list[Init]:
    found = []
    for key, value in keys.items if keys else ():
        text = fields.text(value, f"init of '{key.text}'", report)
        if text is None:
            continue
        shown = [f"{n}(NUMBER)" if count else n for n, count in INITS.items()]
        match = _INIT.fullmatch(text.text)
        if not match or match["name"] not in INITS:
            hint = suggest(match["name"], INITS) if match else f"one of: {', '.join(shown)}"
            report.add(f"'{text.text}' is no initialisation", text.where, hint)
            continue
        try:
            numbers = tuple(float(part) for part in (match["numbers"] or "").split(",") if part.strip())
        except ValueError:
            numbers = ()
        if len(numbers) != INITS[match["name"]] or not all(map(math.isfinite, numbers)):
            hint = f"one of: {', '.join(shown)}"
            report.add(f"'{text.text}' has not the numbers that it takes", text.where, hint)
            continue
        if not any(fnmatchcase(name, key.text) for name in names):
            message = f"init '{key.text}' fits no parameter and no table"
            report.add(message, key.where, suggest(key.text, names))
        found.append(Init(key.text, match["name"], numbers))
    return found
