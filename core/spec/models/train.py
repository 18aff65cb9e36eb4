"""The section `train` of a model: losses, optimiser, schedule, metrics, and what a run of training takes."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

from abw.core.ir.training import INITS, OPTIMIZERS, SCHEDULES, Init, Optimizer, RateSchedule, Training
from abw.core.spec.keys.model import LIBRARY_TRAIN, OPTIMIZER, SCHEDULE, TRAIN
from abw.core.spec.keys.section import Entries
from abw.core.spec.models.losses import Losses, Outputs
from abw.core.spec.models.resolve import Resolver
from abw.core.spec.models.tables import Tables
from abw.core.spec.text import fields
from abw.core.spec.text.document import Mapping as Keys
from abw.core.spec.text.document import Node
from abw.core.spec.text.fields import Reach
from abw.core.spec.text.report import note, report, suggest

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
    before = len(report())
    reader = Losses(resolver, outputs)
    entries = TRAIN.entries(section, "train", waived=("loss",))
    losses = reader.losses(entries.get("loss"), section)
    if len(report()) == before:
        reader.undecided(losses, section)
    metrics = reader.metrics(entries.get("metric"), losses)
    vocabulary = entries.integer("vocabulary")
    made = replace(
        _made(entries, names, reach),
        losses=tuple(losses),
        metrics=tuple(metrics),
        word_dropout=_word_dropout(entries, resolver.tables),
        dropout=_dropout(entries, inputs),
        asked=metric.where if (metric := section.key("metric")) else None,
        vocabulary=1 if vocabulary is None else vocabulary,
    )
    return None if len(report()) > before else made


def library_training(section: Keys | None, names: Collection[str], reach: Reach) -> Training | None:
    """What the section of a library says, whose programs say the losses; None where there is none.

    `names` are those of parameters and tables.
    """
    if section is None:
        return None
    return _made(LIBRARY_TRAIN.entries(section, "train"), names, reach)


def _made(entries: Entries, names: Collection[str], reach: Reach) -> Training:
    """What sections of models and libraries have alike."""
    usual = Training((), ())
    per = entries.word("per", hint="a step's loss is divided: instance or value")
    dev = entries.text("dev")
    epochs, batch, patience = (entries.integer(name) for name in ("epochs", "batch", "patience"))
    return Training(
        (),
        (),
        _optimizer(entries.get("optimizer")),
        _schedule(entries.get("schedule")),
        per is not None and per.text == "value",
        entries.amount("clip") or 0.0,
        inits=tuple(_inits(entries, names)),
        epochs=usual.epochs if epochs is None else epochs,
        batch=usual.batch if batch is None else batch,
        patience=usual.patience if patience is None else patience,
        dev=reach.file(dev, "the dev data") if dev else None,
    )


def _optimizer(node: Node | None) -> Optimizer:
    entries = OPTIMIZER.entries(node, "optimizer")
    name = entries.name(node, "optimizer", tuple(OPTIMIZERS))
    if name is None:
        return Optimizer()
    settings = dict(OPTIMIZERS[name])
    for option in OPTIMIZER.without("name").keys:
        key = entries.node.key(option) if entries.node else None
        if key is None:
            continue
        if option not in settings:
            owners = ", ".join(other for other, numbers in OPTIMIZERS.items() if option in numbers)
            note(f"{name} has no {option}", key.where, f"{option} is of {owners}")
        most = 1.0 if option in ("momentum", "beta1", "beta2") else None
        value = entries.amount(option, below=most)
        if value is not None:
            settings[option] = value
    return Optimizer(name, **settings)


def _schedule(node: Node | None) -> RateSchedule:
    entries = SCHEDULE.entries(node, "schedule")
    name = entries.name(node, "schedule", SCHEDULES)
    warmup, factor = entries.integer("warmup"), entries.amount("factor")
    if entries.node and entries.get("factor") and name not in (None, "exponential"):
        note(f"schedule {name} has no factor", entries.node.where, "it is of schedule exponential")
    usual = RateSchedule()
    return RateSchedule(name or "constant", warmup or 0, usual.factor if factor is None else factor)


def _word_dropout(entries: Entries, tables: Tables) -> dict[int, float]:
    found = {}
    for key, value in entries.items("word-dropout"):
        chance = fields.amount(value, f"word-dropout of '{key.text}'", below=1.0)
        number, table = tables.get(key.text, (-1, None))
        if number < 0:
            hint = suggest(key.text, tables)
            note(f"no table is called '{key.text}'", key.where, hint)
        elif table and table.vocab and table.unknown is None:
            hint = "unknown: WORD, or its row"
            note(f"table '{key.text}' has no row for unknown words", key.where, hint)
        elif chance is not None:
            found[number] = chance
    return found


def _dropout(entries: Entries, inputs: Mapping[str, tuple[int, int]]) -> dict[tuple[int, int], float]:
    found = {}
    for key, value in entries.items("dropout"):
        chance = fields.amount(value, f"dropout of '{key.text}'", below=1.0)
        fitting = [slot for name, slot in inputs.items() if fnmatchcase(name, key.text)]
        if not fitting:
            hint = suggest(key.text, inputs) or "TYPE.INPUT, of a type with a cell"
            note(f"dropout '{key.text}' fits no input of a cell", key.where, hint)
        elif chance is not None:
            found.update(dict.fromkeys(fitting, chance))
    return found


def _inits(entries: Entries, names: Collection[str]) -> list[Init]:
    found = []
    for key, value in entries.items("init"):
        text = fields.text(value, f"init of '{key.text}'")
        if text is None:
            continue
        shown = [f"{n}(NUMBER)" if count else n for n, count in INITS.items()]
        match = _INIT.fullmatch(text.text)
        if not match or match["name"] not in INITS:
            hint = suggest(match["name"], INITS) if match else f"one of: {', '.join(shown)}"
            note(f"'{text.text}' is no initialisation", text.where, hint)
            continue
        try:
            numbers = tuple(float(part) for part in (match["numbers"] or "").split(",") if part.strip())
        except ValueError:
            numbers = ()
        if len(numbers) != INITS[match["name"]] or not all(map(math.isfinite, numbers)):
            hint = f"one of: {', '.join(shown)}"
            note(f"'{text.text}' has not the numbers that it takes", text.where, hint)
            continue
        if not any(fnmatchcase(name, key.text) for name in names):
            message = f"init '{key.text}' fits no parameter and no table"
            note(message, key.where, suggest(key.text, names))
        found.append(Init(key.text, match["name"], numbers))
    return found
