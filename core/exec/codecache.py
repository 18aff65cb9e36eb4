"""Machine code kept on disk: whole or not at all, and known by what it was made of."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from abw.core.base.files import DRAFT, replacing

# Begins every file of machine code; a digest of the rest follows.
MAGIC = b"abw1"

# Bytes that a folder of machine code may take: some thousand models. What was used least recently goes.
LIMIT = 256 * 2**20
# Seconds after which a draft is one that its process never finished.
ABANDONED = 3600.0

_NAME = re.compile(rf"((abw_njit_)?[0-9a-f]{{32}})\.|{re.escape(DRAFT)}")


def kernels_folder() -> Path:
    """Where machine code is kept: under ABW_HOME if that is set, else with the user's caches.

    Not in the `.abw` of a project: the code is the machine's, and every project's. But there for a user who
    has no home.
    """
    if home := os.environ.get("ABW_HOME"):
        return Path(home) / "kernels"
    try:
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:  # a user without a home, as in some containers
        return Path(".abw") / "kernels"
    return Path(cache) / "abw" / "kernels"


def cache_path(key: str, suffix: str, folder: Path | None = None) -> Path:
    """The file for code made of `key`, in `folder` (default: `kernels_folder()`)."""
    return (folder or kernels_folder()) / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}{suffix}"


def read_cache(path: Path) -> bytes | None:
    """What was kept there; None where nothing is, or a damaged file."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    code = content[len(MAGIC) + 32 :]
    if content != MAGIC + hashlib.sha256(code).digest() + code:
        return None
    used(path)
    return code


def used(path: Path) -> None:
    """Note that a file is of use now."""
    with suppress(OSError):
        os.utime(path)


def write_cache(path: Path, code: bytes) -> None:
    """Keep code where `read_cache` finds it, and the folder below its limit.

    Where the folder cannot be written nothing is kept: the code is no less good.
    """
    with suppress(OSError):
        with replacing(path) as file:
            file.write(MAGIC + hashlib.sha256(code).digest() + code)
        evict(path.parent)


@dataclass(slots=True)
class CacheEntry:
    """The files of one piece of code: when one of them was last used, and their bytes."""

    last: float = 0.0
    size: int = 0
    files: list[Path] = field(default_factory=list)


def contents(folder: Path) -> list[CacheEntry]:
    """What a folder keeps, the least recently used first. Files of others are left out."""
    entries: dict[str, CacheEntry] = {}
    for path, size, last in _files(folder):
        if name := _NAME.match(path.name):
            kept = entries.setdefault(name[1] or path.name, CacheEntry())
            kept.last = max(kept.last, last)
            kept.size += size
            kept.files.append(path)
    return sorted(entries.values(), key=lambda kept: kept.last)


def evict(folder: Path, limit: int | None = None) -> None:
    """Delete what was used least recently until at most `limit` bytes (LIMIT) are left, and lost drafts.

    Other processes may read, write and evict meanwhile: who does not find a file compiles anew. Cost: some 10
    us a file.
    """
    everything = contents(folder)
    over = sum(kept.size for kept in everything) - (LIMIT if limit is None else limit)
    now = time.time()
    for kept in everything:
        draft = kept.files[0].name.startswith(DRAFT)
        if now - kept.last > ABANDONED if draft else over > 0:
            over -= kept.size
            for path in kept.files:
                with suppress(OSError):
                    path.unlink(missing_ok=True)


def _files(folder: Path) -> Iterator[tuple[Path, int, float]]:
    """The files with their bytes and their time: ours lie in the folder, numba's in one below."""
    for place in (folder, folder / "__pycache__"):
        with suppress(OSError):
            for path in place.iterdir():
                # another process may have deleted it by now
                with suppress(OSError):
                    about = path.stat()
                    yield path, about.st_size, about.st_mtime
