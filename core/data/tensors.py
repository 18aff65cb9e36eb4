"""Files of named tensors: safetensors, NumPy's npz, and what PyTorch saves. No file's code is ever run."""

from __future__ import annotations

import json
import math
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from zipfile import ZipFile, ZipInfo

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from abw.core.base.errors import AbwError, missing_file
from abw.core.base.files import file_digest
from abw.core.base.memory import resident

Array = NDArray[Any]

# Formats by how a file's name ends.
FORMATS: Mapping[str, str] = {
    ".safetensors": "safetensors",
    ".npz": "npz",
    ".pt": "torch",
    ".pth": "torch",
    ".bin": "torch",
}

_CONVERT = """\
convert it where PyTorch is installed:
    import torch, safetensors.torch
    state = torch.load({name!r}, map_location="cpu", weights_only=True)
    safetensors.torch.save_file({{k: v.contiguous().clone() for k, v in state.items()}}, {target!r})"""

_SAVE = "save only its weights: torch.save(model.state_dict(), FILE)"
# Where PyTorch's refusal names what it would have to import.
_OBJECT = re.compile(r"\b(?:GLOBAL|class|global) ([A-Za-z_][\w.]*\.\w+)")

# NumPy's types by safetensors' names; bfloat16 comes as its bits.
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


# Begins the name of a tensor that holds the words of a table's rows, of bytes, one a line.
VOCABULARY = "vocabulary/"
# Begins the names of what training keeps beside the weights.
TRAINING = "train/"
_LONGEST_HEADER = 100_000_000

# NumPy's readers of an array's header, by its version; the third one is for arrays of records.
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor of a file: its shape, and the name of the type it is stored in.

    `read` gives its values, which for an archive (npz) are only then read: what they take is known before.
    NumPy has no bfloat16: such values come as float32, which holds them exactly. Errors of `read`: AbwError.
    """

    shape: tuple[int, ...]
    dtype: str
    read: Callable[[], Array]


@dataclass(frozen=True, slots=True)
class TensorFile:
    """A file's tensors by name, in its order."""

    path: Path
    format: str
    sha256: str
    tensors: Mapping[str, Stored]


def write_tensors(file: IO[bytes], tensors: Mapping[str, Array]) -> None:
    """Write arrays as safetensors."""
    for name in write_header(file, {n: (array.dtype, array.shape) for n, array in tensors.items()}):
        file.write(np.ascontiguousarray(tensors[name]).tobytes())


def write_header(
    file: IO[bytes], arrays: Mapping[str, tuple[np.dtype[Any], tuple[int, ...]]]
) -> Iterable[str]:
    """Write how safetensors begin: the header's length, and the types and shapes of arrays as JSON.

    Returns the names in the order in which elements follow: the wider first, so that all of them lie aligned.
    """
    names = {np.dtype(dtype).name: name for name, dtype in _TYPES.items() if name != "BF16"}
    header: dict[str, Any] = {}
    at = 0
    for name in sorted(arrays, key=lambda name: -arrays[name][0].itemsize):
        dtype, shape = arrays[name]
        end = at + dtype.itemsize * math.prod(shape)
        header[name] = {"dtype": names[dtype.name], "shape": list(shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    return header


def words_in(path: Path) -> dict[str, tuple[str, ...]]:
    """The vocabularies that `abw train` keeps with weights, by table; none where the file has no such thing.

    Reads nothing else of it; what is wrong with the file `read_tensors` says.
    """
    found: dict[str, tuple[str, ...]] = {}
    with suppress(OSError, ValueError, KeyError, TypeError):
        if path.suffix == ".safetensors" and path.is_file():
            with path.open("rb") as file:
                begin = 8 + int.from_bytes(file.read(8), "little")
                header = json.loads(file.read(min(begin - 8, _LONGEST_HEADER)))
                for name, item in header.items():
                    if name.startswith(VOCABULARY):
                        first, last = item["data_offsets"]
                        file.seek(begin + first)
                        words = file.read(last - first).decode().split("\n")
                        found[name.removeprefix(VOCABULARY)] = tuple(words)
    return found


def read_tensors(path: Path) -> TensorFile:
    """Read all tensors of a file; its extension sets the format (`FORMATS`).

    Errors: AbwError where the file is missing, damaged or of another format, where it holds anything but
    tensors, or where the package that reads it is not installed. Cost: memory and time of the file, not of
    what an archive (npz) unpacks to.
    """
    kind = FORMATS.get(path.suffix.lower())
    if kind is None:
        hint = f"the name ends in one of: {', '.join(FORMATS)}"
        raise AbwError(f"{path}: weights of no format known here", hint=hint)
    if not path.is_file():
        if path.exists():
            raise AbwError(f"{path}: {'a folder' if path.is_dir() else 'a pipe or device'}, not a file")
        raise AbwError(f"{path}: no such file", hint=missing_file(path))
    with _reading(path, kind):
        tensors = _READERS[kind](path)
    return TensorFile(path, kind, file_digest(path), tensors)


@contextmanager
def _reading(path: Path, kind: str) -> Iterator[None]:
    """What goes wrong in the block as an AbwError."""
    try:
        yield
    except AbwError:
        raise
    except Exception as error:  # readers of three packages, and zlib, on bytes of any kind
        message = f"cannot read {path} as {kind}: {error}"
        raise AbwError(message, hint="is it whole, and of that format?") from None


def _held(values: Array, dtype: str) -> Stored:
    """A tensor whose values are there."""
    return Stored(values.shape, dtype, lambda: values)


def _safetensors(path: Path) -> dict[str, Stored]:
    try:
        import safetensors
    except ImportError:
        raise AbwError(f"{path} needs the package safetensors", hint="pip install safetensors") from None
    with safetensors.safe_open(path, framework="numpy"):
        pass  # the package checks the header; reading it through would hold the file twice, and no bfloat16
    tensors = {}
    with path.open("rb") as file:
        begin = 8 + int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(begin - 8))
        header.pop("__metadata__", None)
        for name, item in sorted(header.items()):
            kind = _TYPES.get(item["dtype"])
            if kind is None:
                raise ValueError(f"tensor '{name}' is of type {item['dtype']}")
            file.seek(begin + item["data_offsets"][0])
            values = np.fromfile(file, kind, math.prod(item["shape"])).reshape(item["shape"])
            if item["dtype"] == "BF16":
                tensors[name] = _held((values.astype(np.uint32) << 16).view(np.float32), "bfloat16")
            else:
                tensors[name] = _held(values, values.dtype.name)
    return tensors


def _npz(path: Path) -> dict[str, Stored]:
    with ZipFile(path) as archive:
        return {
            member.filename.removesuffix(".npy"): _member(path, archive, member)
            for member in archive.infolist()
        }


def read_header(file: IO[bytes], size: int, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """The shape and type of an array in NumPy's format, which has so many bytes. Raises ValueError."""
    version = npy.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"'{name}' is of a version unknown here: {version}")
    shape, _, dtype = _HEADERS[version](file)
    if dtype.hasobject:
        raise ValueError(f"'{name}' holds Python objects")
    if file.tell() + math.prod(shape) * dtype.itemsize != size:
        raise ValueError(f"'{name}' does not have the size that its header says")
    return shape, dtype


def _member(path: Path, archive: ZipFile, member: ZipInfo) -> Stored:
    """An array of an archive, of which the header is read."""
    with archive.open(member) as file:
        shape, dtype = read_header(file, member.file_size, member.filename)

    def read() -> Array:
        with _reading(path, "npz"), ZipFile(path) as archive, archive.open(member) as file:
            return npy.read_array(file, allow_pickle=False)

    return Stored(shape, dtype.name, read)


# What importing PyTorch takes: measured of 2.13 for the CPU. One process may have measured its own.
TORCH_BYTES = 200_000_000
_measured: list[int] = []


def reader_bytes(path: Path | None) -> int:
    """Bytes that reading a file of tensors takes besides these: PyTorch itself, for its files.

    As measured where this process has imported it to read one; else as it is known of one version.
    """
    if path is None or FORMATS.get(path.suffix) != "torch":
        return 0
    return _measured[0] if _measured else TORCH_BYTES


def _torch(path: Path) -> dict[str, Stored]:
    before = None if "torch" in sys.modules else resident()
    try:
        import torch
    except ImportError:
        hint = _CONVERT.format(name=path.name, target=path.with_suffix(".safetensors").name)
        raise AbwError(
            f"{path}: only PyTorch reads its own files, and it is not installed", hint=hint
        ) from None
    if before is not None and (after := resident()) is not None:
        _measured[:] = [max(0, after - before)]

    def is_state(value: object) -> bool:
        """Whether a value is tensors by name, as `state_dict()` gives them."""
        return (
            isinstance(value, Mapping)
            and bool(value)
            and all(isinstance(n, str) and isinstance(v, torch.Tensor) for n, v in value.items())
        )

    try:
        with warnings.catch_warnings(action="ignore"):
            state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # of bytes of any kind, whatever its unpickler meets
        # PyTorch's own text advises to run the file's code
        found = _OBJECT.search(str(error))
        what = f"a Python object ({found[1]}), not only tensors" if found else "nothing that PyTorch reads"
        raise AbwError(f"{path} holds {what}", hint=_SAVE) from None
    if not isinstance(state, Mapping) or not state:
        raise AbwError(f"{path} holds no state_dict but a {type(state).__name__}", hint=_SAVE)
    if not is_state(state):
        raise _no_state(path, state, is_state)
    tensors = {}
    for name, value in state.items():
        if value.layout != torch.strided or value.is_quantized:
            raise AbwError(f"{path}: tensor '{name}' is sparse or quantized", hint="save it dense")
        kind = str(value.dtype).removeprefix("torch.")
        whole = value.float() if kind == "bfloat16" else value
        tensors[name] = _held(whole.detach().resolve_conj().resolve_neg().numpy(), kind)
    return tensors


def _no_state(path: Path, given: Mapping[Any, object], is_state: Callable[[object], bool]) -> AbwError:
    """What to say of a mapping that is no state_dict, but may hold some."""
    if inside := [name for name, value in given.items() if is_state(value)]:
        held = " and ".join(f"[{name!r}]" for name in inside)
        load = f"torch.load({path.name!r}, weights_only=True)[{inside[0]!r}]"
        return AbwError(
            f"{path} is a checkpoint that holds a state_dict in {held}",
            hint=f"save only that: torch.save({load}, {path.stem + '-weights.pt'!r})",
        )
    name, value = next((name, value) for name, value in given.items() if not is_state({name: value}))
    kind = type(value).__name__
    return AbwError(f"{path} is no state_dict: {name!r} is of type {kind}, not a tensor", hint=_SAVE)


_READERS: Mapping[str, Callable[[Path], dict[str, Stored]]] = {
    "safetensors": _safetensors,
    "npz": _npz,
    "torch": _torch,
}
