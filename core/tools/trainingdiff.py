"""How two trainings differ: what `abw runs diff` says of t1 and t2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from abw.core.store.trainings import StoredTraining


def diff_trainings(one: StoredTraining, other: StoredTraining) -> dict[str, Any]:
    """What differs between two trainings, one document; options that are the same are left out.

    `files`: those of the spec and its data that are not the same in both, or not of both. `curves`: the rows
    of both.
    """
    files = [training.about.get("files", {}) for training in (one, other)]
    names = sorted({*files[0], *files[1]})
    asked = [_asked(training) for training in (one, other)]
    return {
        "schema_version": 1,
        "a": {"name": one.name, "path": str(one.path)},
        "b": {"name": other.name, "path": str(other.path)},
        "files": [name for name in names if files[0].get(name) != files[1].get(name)],
        "options": {
            key: [side.get(key) for side in asked]
            for key in dict.fromkeys((*asked[0], *asked[1]))
            if asked[0].get(key) != asked[1].get(key)
        },
        "epochs": [len(one.rows), len(other.rows)],
        "best": [one.best, other.best],
        "best_epoch": [one.best_epoch, other.best_epoch],
        "curves": [list(one.rows), list(other.rows)],
    }


def _asked(training: StoredTraining) -> Mapping[str, Any]:
    """What a training was begun with, option by option."""
    about = training.about
    return {"model": about["model"], **about["overrides"], **about["options"]}
