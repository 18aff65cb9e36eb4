"""Arrays that grow on disk and become one .npz or .safetensors file at the end."""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self
from zipfile import ZipFile

import numpy as np
from numpy.lib import format as npy
from numpy.typing import DTypeLike, NDArray

from abw.core.base.files import replacing, writing
from abw.core.data.tensors import write_header


class Growing:
    """An array (rows, *shape) whose elements lie in a file.

    `ends`: what is appended are counts, and their sums are kept, behind where the first begins.
    """

    def __init__(self, file: IO[bytes], dtype: DTypeLike, shape: tuple[int, ...], ends: bool) -> None:
        """An array without rows in an empty file."""
        self.file, self.dtype, self.shape, self.ends = file, np.dtype(dtype), shape, ends
        self.rows = self.last = 0
        if ends:
            file.write(np.zeros(1, dtype).tobytes())
            self.rows = 1

    def append(self, values: NDArray[Any]) -> None:
        """Add rows."""
        if self.ends:
            values = self.last + np.cumsum(values)
            self.last = int(values[-1]) if len(values) else self.last
        self.file.write(np.ascontiguousarray(values, self.dtype).tobytes())
        self.rows += len(values)


Arrays = Mapping[str, Growing]


class HeldArrays:
    """Arrays that grow in memory."""

    def __init__(self) -> None:
        self._arrays: dict[str, Growing] = {}

    def _file(self) -> IO[bytes]:
        return io.BytesIO()

    def add(self, name: str, dtype: DTypeLike, shape: tuple[int, ...] = (), *, ends: bool = False) -> None:
        """An array without rows; with `ends`, counts are appended, and it holds where they begin and end."""
        self._arrays[name] = Growing(self._file(), dtype, shape, ends)

    def append(self, name: str, values: NDArray[Any]) -> None:
        """Add rows to an array."""
        self._arrays[name].append(values)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All of them as they are."""
        found = {}
        for name, held in self._arrays.items():
            held.file.seek(0)
            found[name] = np.frombuffer(held.file.read(), held.dtype).reshape(held.rows, *held.shape)
        return found


class ArrayFile(HeldArrays):
    """A file of arrays, written when the block that it is used in ends well. Errors: AbwError."""

    def __init__(self, path: Path, write: Callable[[IO[bytes], Arrays], None]) -> None:
        super().__init__()
        self._path, self._write = path, write
        self._open = ExitStack()

    def _file(self) -> IO[bytes]:
        with writing(self._path):
            return self._open.enter_context(tempfile.TemporaryFile(dir=self._path.parent))

    def append(self, name: str, values: NDArray[Any]) -> None:
        """Add rows to an array. Errors: AbwError."""
        with writing(self._path):
            super().append(name, values)

    def __enter__(self) -> Self:
        with writing(self._path):
            self._target = self._open.enter_context(replacing(self._path, wait=False))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            with writing(self._path), self._open:
                self._write(self._target, self._arrays)
            return
        with writing(self._path):  # what is left to write of files that are given up may fail, too
            self._open.__exit__(kind, error, trace)


def write_npz(file: IO[bytes], arrays: Arrays) -> None:
    """Write arrays as numpy.savez does."""
    with ZipFile(file, "w", allowZip64=True) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                shape = (array.rows, *array.shape)
                header = {"descr": npy.dtype_to_descr(array.dtype), "fortran_order": False, "shape": shape}
                npy.write_array_header_1_0(member, header)
                _copy(array, member)


def write_safetensors(file: IO[bytes], arrays: Arrays) -> None:
    """Write arrays as safetensors."""
    for name in write_header(file, {n: (a.dtype, (a.rows, *a.shape)) for n, a in arrays.items()}):
        _copy(arrays[name], file)


def _copy(array: Growing, target: IO[bytes]) -> None:
    array.file.seek(0)
    shutil.copyfileobj(array.file, target, 1 << 20)
