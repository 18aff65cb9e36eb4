"""Files of named tensors: safetensors, NumPy's npz, and what PyTorch saves. No file's code is ever run."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.errors import AbwError, missing_file

Array = NDArray[Any]

FORMATS: Mapping[str, str] = {
    ".safetensors": "safetensors",
    ".npz": "npz",
    ".pt": "torch",
    ".pth": "torch",
    ".bin": "torch",
}
"""Formats by how a file's name ends."""

_CONVERT = """\
convert it where PyTorch is installed:
    import torch, safetensors.torch
    state = torch.load({name!r}, map_location="cpu", weights_only=True)
    safetensors.torch.save_file({{k: v.contiguous().clone() for k, v in state.items()}}, {target!r})"""

_TYPES = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": np.uint16,
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "U64": np.uint64,
    "U32": np.uint32,
    "U16": np.uint16,
    "U8": np.uint8,
    "BOOL": np.bool_,
}
"""NumPy's types by safetensors' names; bfloat16 comes as its bits."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor of a file: its values, and the name of the type it is stored in.

    NumPy has no bfloat16: such values come as float32, which holds them exactly.
    """

    values: Array
    dtype: str


@dataclass(frozen=True, slots=True)
class TensorFile:
    """A file's tensors by name, in its order."""

    path: Path
    format: str
    sha256: str
    tensors: Mapping[str, Stored]


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_tensors(path: Path) -> TensorFile:
    """All tensors of a file; its format is told by how its name ends (`FORMATS`).

    Errors: AbwError where the file is missing, damaged or of another format, where it holds anything but
    tensors, or where the package that reads it is not installed. Cost: memory and time of the file.
    """
    kind = FORMATS.get(path.suffix.lower())
    if kind is None:
        hint = f"the name ends in one of: {', '.join(FORMATS)}"
        raise AbwError(f"{path}: weights of no format known here", hint=hint)
    if not path.is_file():
        if path.exists():
            raise AbwError(f"{path}: {'a folder' if path.is_dir() else 'a pipe or device'}, not a file")
        raise AbwError(f"{path}: no such file", hint=missing_file(path))
    try:
        tensors = _READERS[kind](path)
    except AbwError:
        raise
    except Exception as error:  # readers of three packages, and zlib, on bytes of any kind
        message = f"cannot read {path} as {kind}: {error}"
        raise AbwError(message, hint="is it whole, and of that format?") from None
    return TensorFile(path, kind, file_digest(path), tensors)


def _safetensors(path: Path) -> dict[str, Stored]:
    try:
        import safetensors
    except ImportError:
        raise AbwError(f"{path} needs the package safetensors", hint="pip install safetensors") from None
    deserialize: Any = safetensors.deserialize  # its package's reader for NumPy knows no bfloat16
    tensors = {}
    for name, item in sorted(deserialize(path.read_bytes())):
        kind = _TYPES.get(item["dtype"])
        if kind is None:
            raise ValueError(f"tensor '{name}' is of type {item['dtype']}")
        values = np.frombuffer(item["data"], kind).reshape(item["shape"])
        if item["dtype"] == "BF16":
            tensors[name] = Stored((values.astype(np.uint32) << 16).view(np.float32), "bfloat16")
        else:
            tensors[name] = Stored(values, values.dtype.name)
    return tensors


def _npz(path: Path) -> dict[str, Stored]:
    with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    return {name: Stored(values, values.dtype.name) for name, values in arrays.items()}


def _torch(path: Path) -> dict[str, Stored]:
    try:
        import torch
    except ImportError:
        hint = _CONVERT.format(name=path.name, target=path.with_suffix(".safetensors").name)
        raise AbwError(
            f"{path}: only PyTorch reads its own files, and it is not installed", hint=hint
        ) from None
    from pickle import UnpicklingError

    save = "save what it has learned alone: torch.save(model.state_dict(), FILE)"
    try:
        with warnings.catch_warnings(action="ignore"):
            state = torch.load(path, map_location="cpu", weights_only=True)
    except (UnpicklingError, RuntimeError, AttributeError) as error:
        first = str(error).strip().split("\n")[0]
        raise AbwError(f"{path} holds more than tensors, or is damaged: {first}", hint=save) from None
    if not isinstance(state, Mapping) or not state:
        raise AbwError(f"{path} holds no state_dict but a {type(state).__name__}", hint=save)
    tensors = {}
    for name, value in state.items():
        if not isinstance(value, torch.Tensor) or not isinstance(name, str):
            message = f"{path} is no state_dict: {name!r} is a {type(value).__name__}, not a tensor"
            raise AbwError(message, hint=save)
        if value.layout != torch.strided or value.is_quantized:
            raise AbwError(f"{path}: tensor '{name}' is sparse or quantized", hint="save it dense")
        kind = str(value.dtype).removeprefix("torch.")
        whole = value.float() if kind == "bfloat16" else value
        tensors[name] = Stored(whole.detach().resolve_conj().resolve_neg().numpy(), kind)
    return tensors


_READERS: Mapping[str, Callable[[Path], dict[str, Stored]]] = {
    "safetensors": _safetensors,
    "npz": _npz,
    "torch": _torch,
}
