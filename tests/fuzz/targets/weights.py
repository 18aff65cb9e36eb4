"""Files of weights, read and matched with a model's parameters."""

from __future__ import annotations

import io
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from abw.core.base.errors import AbwError
from abw.core.data.tensors import read_tensors
from abw.core.exec.trained import load_weights
from abw.core.ir.model import Model
from abw.core.run.workload import open_model
from abw.core.spec.load import Overrides
from tests.fuzz.target import ROOT, target

TRAINED = ROOT / "tests/golden/torch/torch-lstm.safetensors"
SIZES = {"hidden": 5, "embed": 6}
NPY = (
    b"\x93NUMPY\x01\x00",
    b"'descr': '<f4'",
    b"'|O'",
    b"'fortran_order': True",
    b"(1000000000, 4)",
    b"PK\x03\x04",
)


@cache
def _model() -> Model:
    return open_model(ROOT / "specs/torch-lstm.yaml", Overrides(dims=SIZES))


def _attempt(case: bytes, folder: Path, name: str) -> None:
    path = folder / name
    path.write_bytes(case)
    model = _model()
    load_weights(replace(model, weights=replace(model.weights, file=path)))


def _npz() -> list[bytes]:
    tensors = {name: stored.read() for name, stored in read_tensors(TRAINED).tensors.items()}
    found = []
    for save in (np.savez, np.savez_compressed):
        file = io.BytesIO()
        save(file, **tensors)  # type: ignore[arg-type]
        found.append(file.getvalue())
    return found


HEADER = (
    b'"F32"',
    b'"BF16"',
    b'"F4"',
    b'"shape":[2147483647,2147483647]',
    b'"data_offsets":[0,-1]',
    b"__metadata__",
)


@target("weights-safetensors", lambda: [TRAINED.read_bytes()], words=HEADER)
def safetensors(case: bytes, folder: Path) -> None:
    _attempt(case, folder, "w.safetensors")


@target("weights-npz", _npz, words=NPY)
def npz(case: bytes, folder: Path) -> None:
    _attempt(case, folder, "w.npz")


@target("weights-pt", _npz, words=NPY, share=0.1)
def pt(case: bytes, folder: Path) -> None:
    try:
        _attempt(case, folder, "w.pt")
    except AbwError as error:
        if "PyTorch" not in error.message:  # the corpus is none: where PyTorch is, it says so
            raise
