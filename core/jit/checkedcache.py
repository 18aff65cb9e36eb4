"""numba's machine code on disk, believed only where it is whole and made of what is there now.

numba itself unpickles and executes whatever its files hold: a damaged one ends every process that reads it
in an exception from anywhere, or in a crash, until somebody deletes it.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import pickle
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.runtime.nrt import rtsys
from numba.core.serialize import dumps

DIGEST = hashlib.sha256().digest_size


class CheckedCache(FunctionCache):
    """The cache of a function's machine code: a file for each signature.

    `made_of` says what the code depends on beside the function's own file; it is asked when code is first
    wanted. `allocates`: whether the code may call numba's memory management. Where nothing can be written,
    or numba finds no folder, nothing is kept.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        made_of: Callable[[], object] | None = None,
        *,
        allocates: bool = True,
    ) -> None:
        self._function = function
        self._made_of = made_of
        self._allocates = allocates

    @functools.cached_property
    def kept(self) -> bool:
        """Whether there is a folder. It is looked for when first asked: numba tries to write there."""
        try:
            super().__init__(self._function)  # type: ignore[no-untyped-call]
        except RuntimeError:
            return False
        made_of = self._made_of
        self._cache_file: Any = _CodeFiles(self._cache_file, lambda: (self.source, made_of and made_of()))
        return True

    def load_overload(self, sig: object, target_context: object) -> object:
        """The machine code of a signature, else None.

        numba would first fill its tables of all that it can compile, which takes longer than loading. What
        makes arrays calls numba's memory management, which is then there at least.
        """
        if not self.kept:
            return None
        if self._allocates:
            rtsys.initialize(target_context)
        return self._load_overload(sig, target_context)  # type: ignore[no-untyped-call]

    def save_overload(self, sig: object, data: object) -> None:
        """Write the machine code of a signature, if that is possible."""
        with suppress(OSError):
            if self.kept:
                super().save_overload(sig, data)  # type: ignore[no-untyped-call]

    @property
    def source(self) -> object:
        """The state of the function's own file; for numba that may be its time."""
        path = Path(inspect.getfile(self._function))
        try:
            about = path.stat()
            return _digest_of(path, about.st_mtime_ns, about.st_size)
        except OSError:  # a file inside an archive, or none
            return self.kept and self._cache_file._source_stamp

    @property
    def filled(self) -> bool:
        """Whether there is machine code of any signature, or none can be kept."""
        return not self.kept or bool(self._cache_file.filled())


@functools.cache
def _digest_of(path: Path, changed: int, size: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


class _CodeFiles(IndexDataCacheFile):
    """Files that begin with a digest: of numba's version, what the code is made of, and all that follows.

    A file is named by its signature. One that is damaged or out of date counts as missing, and is written
    over.
    """

    def __init__(self, index: Any, made_of: Callable[[], object]) -> None:  # noqa: ANN401
        vars(self).update(vars(index))
        self._made_of = made_of
        self._begun: Any = None

    def load(self, key: object) -> Any:  # noqa: ANN401
        """Load what was saved for a key (signature, machine, bytecode); None if nothing."""
        content = self._read(self._path(key))
        if content is None:
            return None
        try:
            saved, data = pickle.loads(content)
        except (AttributeError, ImportError):  # it names a class that is no longer there
            return None
        return data if saved == key else None

    def save(self, key: object, data: object) -> None:
        """Write beside the file's place, then rename. Errors: OSError."""
        content = dumps((key, data))  # type: ignore[no-untyped-call]
        with self._open_for_write(str(self._path(key))) as file:
            file.write(self._digest(content))
            file.write(content)

    def flush(self) -> None:
        """Delete all files of the function."""
        for path in self._files():
            path.unlink(missing_ok=True)

    def filled(self) -> bool:
        """Whether a file is there that could be loaded."""
        return any(self._read(path) is not None for path in self._files())

    def _path(self, key: object) -> Path:
        named = hashlib.sha256(str(key).encode()).hexdigest()[:16]
        return Path(self._cache_path, self._index_name).with_suffix(f".{named}.nbc")

    def _files(self) -> list[Path]:
        stem = self._index_name.removesuffix(".nbi")
        return [p for p in Path(self._cache_path).glob("*.nbc") if p.name.startswith(f"{stem}.")]

    def _read(self, path: Path) -> memoryview | None:
        try:
            content = memoryview(path.read_bytes())
        except OSError:
            return None
        return content[DIGEST:] if content[:DIGEST] == self._digest(content[DIGEST:]) else None

    def _digest(self, content: bytes | memoryview) -> bytes:
        if self._begun is None:
            self._begun = hashlib.sha256(repr((numba.__version__, self._made_of())).encode())
        digest = self._begun.copy()
        digest.update(content)
        return bytes(digest.digest())
