"""What each batch of a run took, as `--profile` notes it: `times/NNNN.npz` in the run's folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import numpy as np

from abw.core.exec.interface import Executed
from abw.core.policy.schedule import Schedule
from abw.core.store.checked import arrays_file, damaged, read_arrays, write_arrays

# Seconds: no clock gives more.
LATEST = 1e12
_NAMES = tuple(field.name for field in fields(Executed))


def save_times(folder: Path, runs: Sequence[Executed]) -> None:
    """Write the times of the first mini-batches, a file each. Errors: AbwError."""
    for number, found in enumerate(runs):
        write_arrays(folder, "times", number, {name: getattr(found, name) for name in _NAMES})


def load_times(folder: Path, number: int, schedule: Schedule) -> Executed | None:
    """The times of a mini-batch with this schedule; None where none were noted, or of other batches: those of
    a schedule of groups are of types.

    Errors: AbwError where the file is damaged.
    """
    path = arrays_file(folder, "times", number)
    if not path.is_file():
        return None
    found = read_arrays(path, _NAMES)
    with damaged(path):
        if len({array.shape for array in found.values()}) > 1 or found["batch"].ndim != 1:
            raise ValueError("its arrays are not of one length")
        for name, array in found.items():
            if array.dtype.kind != ("f" if name in ("start", "end", "share_of_peak") else "i"):
                raise ValueError(f"'{name}' is of {array.dtype}")
        batch, thread = found["batch"], found["thread"]
        if len(thread) and not 0 <= thread.min() <= thread.max() < 4096:
            raise ValueError(f"there is no thread {thread.max()}")
        start, end = found["start"], found["end"]
        if not ((np.abs(start) < LATEST) & (np.abs(end) < LATEST) & (start <= end)).all():
            raise ValueError("its times are none")
    known = bool((batch >= 0).all() and (batch < len(schedule)).all())
    if not known or (schedule.type[batch] != found["type"]).any():
        return None
    return Executed(**found)
