"""What `abw train` keeps and reads again: checkpoints, curves, what a training was begun with."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np

from abw.core.base.errors import AbwError
from abw.core.base.files import home
from abw.core.data.tensors import read_tensors
from abw.core.spec.load import Overrides
from abw.core.store.trainings import list_trainings, stored_training
from abw.core.tools.diff import diff_trainings
from abw.core.train.checkpoint import load_checkpoint
from abw.core.train.session import TrainOptions, resume, train
from tests.fuzz.target import ROOT, put, target

NUMBERS = (b"Infinity", b"NaN", b"-1", b"2000000000", b"1e400", b"true", b"null", b"[]", b"{}", b'"x"')
NAMES = (b'"loss"', b'"rows"', b'"best_epoch"', b'"options"', b'"overrides"', b'"path"', b'"/dev/zero"')


@cache
def _training() -> Mapping[str, bytes]:
    """The folder of a training of one epoch."""
    os.environ["ABW_HOME"] = tempfile.mkdtemp()
    small = Overrides(limit=2, dims={"hidden": 2})
    train(ROOT / "specs" / "sst.yaml", small, TrainOptions(epochs=1, executor="reference"))
    (folder,) = (home() / "training").iterdir()
    return {path.name: path.read_bytes() for path in folder.iterdir()}


class _EnoughError(AbwError):
    """Training would go on from here."""


def _enough(folder: Path) -> None:
    raise _EnoughError(f"{folder} can be gone on from")


@target("trainings", lambda: [_training()], words=(*NUMBERS, *NAMES), share=0.1)
def trainings(case: Mapping[str, bytes], folder: Path) -> None:
    os.environ["ABW_HOME"] = str(folder)
    put(folder / "training" / "0001-sst", case)
    (listed,) = list_trainings()
    assert bool(listed.about) != bool(listed.damage)
    if listed.about:
        found = stored_training("t1")
        assert not diff_trainings(found, found)["options"]
    with suppress(_EnoughError):
        resume("1", started=_enough)


@target("checkpoints", lambda: [_training()["checkpoint.safetensors"]])
def checkpoints(case: bytes, folder: Path) -> None:
    path = folder / "checkpoint.safetensors"
    path.write_bytes(_training()["checkpoint.safetensors"])
    whole = {name: tensor.read() for name, tensor in read_tensors(path).tensors.items()}
    weights = {name: np.zeros_like(a) for name, a in whole.items() if a.dtype == np.float32}
    state = weights.pop("train/state")
    path.write_bytes(case)
    position = load_checkpoint(path, weights, state)
    assert position.epoch >= 0
