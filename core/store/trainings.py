"""Trainings on disk: what `abw runs` lists of them, beside runs.

A training's folder `NNNN-model/` under `.abw/training/` is described in `abw.core.train.session`. To tell it
from run 3, training 3 is called `t3`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from abw.core.base.errors import AbwError
from abw.core.base.files import home, read_json
from abw.core.store.folders import number_of, numbered
from abw.core.store.runs import read_note

# Files of a training's folder: what it was begun with, a row an epoch, and the weights of the best epoch.
ABOUT, CURVE, BEST = "training.json", "curve.json", "best.safetensors"
SCHEMA_VERSION = 1
# What each row of a curve has; all else are metrics, of which the first says which epoch is best.
NO_METRICS = ("epoch", "steps", "loss", "rate", "instances_per_second")


@dataclass(frozen=True, slots=True)
class StoredTraining:
    """A training on disk: what it was begun with, and its epochs; `damage` says what cannot be read.

    `best_epoch` is from 1; 0 where there is none yet.
    """

    path: Path
    about: Mapping[str, Any]
    rows: tuple[Mapping[str, Any], ...] = ()
    best_epoch: int = 0
    damage: str = ""
    note: str = ""
    tags: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its name among runs: t3."""
        return f"t{number_of(self.path)}"

    @property
    def date(self) -> datetime:
        """When it was begun, in local time."""
        return datetime.fromtimestamp((self.path / ABOUT).stat().st_mtime).astimezone()

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of its metrics."""
        return tuple(name for name in (self.rows[0] if self.rows else {}) if name not in NO_METRICS)

    @property
    def best(self) -> tuple[str, float | None] | None:
        """The first metric, or the loss, and its value at the best epoch; None before there is one."""
        if not self.best_epoch:
            return None
        name = next(iter(self.metrics), "loss")
        return name, self.rows[self.best_epoch - 1][name]


def training_folder() -> Path:
    """Where trainings lie."""
    return home() / "training"


def training_folders() -> list[Path]:
    """The folders of all trainings, the latest last."""
    return [folder for folder in numbered(training_folder()) if (folder / ABOUT).is_file()]


def is_training(name: str | None) -> bool:
    """Whether a name is that of a training and no run's: t3, or its folder."""
    if name is None:
        return False
    numbered_so = name[:1] == "t" and name[1:].isascii() and name[1:].isdigit()
    return numbered_so or (Path(name) / ABOUT).is_file()


def list_trainings(last: int | None = None) -> list[StoredTraining]:
    """All trainings, or the `last` ones, oldest first. Cost: reading three files of each."""
    return [_read(folder) for folder in training_folders()[-last if last else 0 :]]


def find_training(name: str | None) -> Path:
    """A training's folder by its number (3 or t3), name or path; the latest for None. Errors: AbwError."""
    folders = training_folders()
    for folder in reversed(folders):
        number = str(number_of(folder))
        if name in (None, folder.name, str(folder), number, f"t{number}"):
            return folder
    if not folders:
        raise AbwError(f"there are no trainings in {training_folder()}", hint="begin one: `abw train SPEC`")
    known = ", ".join(str(number_of(folder)) for folder in folders)
    raise AbwError(f"there is no training '{name}'", hint=f"numbers here: {known}")


def weights_of(path: Path) -> Path:
    """The file of weights that a path means; of a training, its name (t3) or folder, the best epoch's.

    A file of that name goes first. Errors: AbwError for a training that is not there or has no epoch yet.
    """
    if path.is_file() or not is_training(str(path)):
        return path
    folder = find_training(str(path))
    if not (folder / BEST).is_file():
        hint = f"`abw train --resume {number_of(folder)}` continues it"
        raise AbwError(f"training t{number_of(folder)} has no epoch yet, so no weights", hint=hint)
    return folder / BEST


def stored_training(name: str | None) -> StoredTraining:
    """A training as it is kept. Errors: AbwError where there is none, or it is damaged."""
    found = _read(find_training(name))
    if found.damage:
        raise AbwError(f"training {found.name} is damaged: {found.damage}")
    return found


def _read(folder: Path) -> StoredTraining:
    note, tags = read_note(folder)
    try:
        about = read_json(folder / ABOUT, "training")
        curve = read_json(folder / CURVE, "curve") if (folder / CURVE).is_file() else {}
        if {about.get("schema_version"), curve.get("schema_version", SCHEMA_VERSION)} != {SCHEMA_VERSION}:
            raise AbwError("it was written by another version of abw")
        rows, best = tuple(curve.get("rows", ())), int(curve.get("best_epoch", 0))
        if not 0 <= best <= len(rows) or not {"model", "command", "options", "overrides"} <= about.keys():
            raise AbwError(f"{folder / CURVE} and {folder / ABOUT} are not as abw wrote them")
        for row in rows:
            float(row["loss"]), [row[name] for name in rows[0]]
    except (AbwError, AttributeError, KeyError, TypeError, ValueError) as error:
        said = error.message if isinstance(error, AbwError) else f"{folder / CURVE} is not as abw wrote it"
        return StoredTraining(folder, {}, damage=said, note=note, tags=tags)
    return StoredTraining(folder, about, rows, best, "", note, tags)
