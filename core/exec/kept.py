"""Machine code kept on disk: whole or not at all, and known by what it was made of."""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path

MAGIC = b"abw1"
"""Begins every file of machine code; a digest of the rest follows."""


def kernels_folder() -> Path:
    """Where machine code is kept: under ABW_HOME if that is set, else with the user's caches.

    Not in the `.abw` of a project: the code is the machine's, and every project's.
    """
    if home := os.environ.get("ABW_HOME"):
        return Path(home) / "kernels"
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "abw" / "kernels"


def kept_path(key: str, suffix: str, folder: Path | None = None) -> Path:
    """The file for code made of `key`, in `folder` (default: `kernels_folder()`)."""
    return (folder or kernels_folder()) / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}{suffix}"


def read_kept(path: Path) -> bytes | None:
    """What was kept there; None where nothing is, or a damaged file."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    code = content[len(MAGIC) + 32 :]
    return code if content == MAGIC + hashlib.sha256(code).digest() + code else None


def keep(path: Path, code: bytes) -> None:
    """Keep code where `read_kept` finds it.

    Where the folder cannot be written nothing is kept: the code is no less good.
    """
    with suppress(OSError):
        write_whole(path, MAGIC + hashlib.sha256(code).digest() + code)


def write_whole(path: Path, content: bytes) -> None:
    """Write beside the file's place, then rename: another process sees the whole file or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".draft-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
