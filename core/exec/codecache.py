"""Machine code kept on disk: whole or not at all, and known by what it was made of."""

from __future__ import annotations

import hashlib
import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from abw.core.base.files import DRAFT, replacing

# Begins every file of machine code; a digest of the rest follows.
MAGIC = b"abw1"

# Bytes that a folder of machine code may take: some thousand models. What was used least recently goes.
LIMIT = 256 * 2**20
# Seconds after which a draft is one that its process never finished.
ABANDONED = 3600.0

_NAME = re.compile(rf"[0-9a-f]{{32}}\.|{re.escape(DRAFT)}")


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
    with suppress(OSError):
        os.utime(path)  # it is of use now
    return code


def write_cache(path: Path, code: bytes) -> None:
    """Keep code where `read_cache` finds it, and the folder below its limit.

    Where the folder cannot be written nothing is kept: the code is no less good.
    """
    with suppress(OSError):
        with replacing(path) as file:
            file.write(MAGIC + hashlib.sha256(code).digest() + code)
        evict(path.parent)


class CacheEntry(NamedTuple):
    """A file of machine code, or a draft of one: when it was last used, and its bytes."""

    last: float
    size: int
    path: Path


def contents(folder: Path) -> list[CacheEntry]:
    """What a folder keeps, the least recently used first. Files of others are left out."""
    entries: list[CacheEntry] = []
    with suppress(OSError):
        for path in folder.iterdir():
            # another process may have deleted it by now
            with suppress(OSError):
                if _NAME.match(path.name):
                    about = path.stat()
                    entries.append(CacheEntry(about.st_mtime, about.st_size, path))
    return sorted(entries)


def evict(folder: Path, limit: int | None = None) -> None:
    """Delete what was used least recently until at most `limit` bytes (LIMIT) are left, and lost drafts.

    Other processes may read, write and evict meanwhile: who does not find a file compiles anew. Cost: some 10
    us a file.
    """
    everything = contents(folder)
    over = sum(kept.size for kept in everything) - (LIMIT if limit is None else limit)
    now = time.time()
    for kept in everything:
        if now - kept.last > ABANDONED if kept.path.name.startswith(DRAFT) else over > 0:
            over -= kept.size
            with suppress(OSError):
                kept.path.unlink(missing_ok=True)
