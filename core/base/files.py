"""Files written whole or not at all, by one process at a time; documents; hashes."""

from __future__ import annotations

import errno
import hashlib
import importlib
import json
import os
import select
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import xxhash

from abw.core.base.errors import AbwError

# How a file system says that it has none, as some that are shared by many machines.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
# Seconds between two tries to get a lock of Windows, whose own waiting gives up.
_POLL = 0.05
# The byte of a file that Windows locks: where none is, since nobody else may read what is locked.
_LOCKED_AT = 1 << 40


_FLAGS = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


def module(name: str) -> Any:  # noqa: ANN401
    """A module of the standard library; None where this system has none."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


_FCNTL = module("fcntl")
# Whether folders can be opened, and open files renamed and removed: everywhere but on Windows.
UNIX = _FCNTL is not None


def lock(file: int, *, wait: bool) -> bool:
    """Lock an open file or folder until it is closed; False where another process has it and none is waited
    for. Errors: OSError, also where the file system has no locks.
    """
    if not UNIX:
        return _lock_windows(file, wait)
    try:
        _FCNTL.flock(file, _FCNTL.LOCK_EX | (0 if wait else _FCNTL.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def _lock_windows(file: int, wait: bool) -> bool:
    msvcrt = importlib.import_module("msvcrt")
    at = os.lseek(file, 0, os.SEEK_CUR)
    try:
        while True:
            os.lseek(file, _LOCKED_AT, os.SEEK_SET)
            try:
                msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EDEADLK, errno.EAGAIN):
                    raise
                if not wait:
                    return False
                time.sleep(_POLL)
            else:
                return True
    finally:
        os.lseek(file, at, os.SEEK_SET)


@contextmanager
def opened(folder: Path) -> Iterator[int]:
    """Open what of a folder can be locked: itself; on Windows `.lock-NAME` beside it. Errors: OSError."""
    whole = folder.absolute()
    beside = None if UNIX else whole.with_name(f".lock-{whole.name}")
    file = os.open(beside or folder, os.O_RDWR | os.O_CREAT if beside else os.O_RDONLY)
    try:
        yield file
    finally:
        os.close(file)
        if beside:
            with suppress(OSError):  # another process has it open
                beside.unlink()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Wait until no other process has a folder, and keep it to the block's end. Errors: OSError.

    A file system without locks has none to wait for.
    """
    with opened(folder) as file:
        _if_possible(file, wait=True)
        yield


def open_alone(path: Path, *, wait: bool, named: Path) -> int:
    """Open a file to write, made if need be and as it was, that no other process has opened so.

    One that has it is waited for, or without `wait` an error. Errors: OSError; AbwError, which calls the file
    `named`.
    """
    while True:
        file = os.open(path, _FLAGS, 0o666)
        try:
            if not _if_possible(file, wait=wait):
                hint = "wait for it, or name another file"
                raise AbwError(f"{named} is being written by another process", hint=hint)
            if _lies_at(file, path):
                return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)  # it was renamed before it was ours


def _if_possible(file: int, *, wait: bool) -> bool:
    try:
        return lock(file, wait=wait)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return True
        raise


def _lies_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


# The names of what is not whole yet begin like this.
DRAFT = ".draft-"
# A larger document is not read: none that abw writes comes near.
MAX_BYTES = 100_000_000


def home() -> Path:
    """The workbench's folder: `.abw` here, or what the environment variable ABW_HOME names."""
    return Path(os.environ.get("ABW_HOME") or ".abw")


def write_json(path: Path, document: dict[str, Any]) -> None:
    """Write a document, whole or not at all. Errors: AbwError where that is not possible."""
    write_text(path, json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text, whole or not at all. Errors: AbwError where that is not possible.

    Bytes of a file's name that are no UTF-8 become escapes, which JSON reads as what they were.
    """
    write_bytes(path, text.encode(errors="backslashreplace"))


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file, whole or not at all. Errors: AbwError where that is not possible."""
    with writing(path), replacing(path) as file:
        file.write(content)


@contextmanager
def writing(path: Path | str) -> Iterator[None]:
    """Name the file that the block writes where that fails.

    Errors: AbwError for the block's OSErrors; BrokenPipeError as it is.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise AbwError(f"cannot write {path}: {error.strerror or error}") from error


@contextmanager
def replacing(path: Path, *, wait: bool = True) -> Iterator[IO[bytes]]:
    """Write `.draft-NAME`, which replaces `path` when the block ends without error.

    Of several processes that write to a path each waits for the others, or without `wait` is refused. What a
    killed one left is written over. Links are followed; what is no file, as a pipe or a device, is written to
    directly. Errors: OSError; AbwError where it is refused.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        with target.open("wb") as file:
            yield file
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f"{DRAFT}{target.name}")
    with os.fdopen(open_alone(draft, wait=wait, named=path), "wb") as file:
        try:
            file.truncate(0)
            yield file
            file.flush()
            _let_go(file)
            draft.replace(target)
        except BaseException:
            _let_go(file)
            draft.unlink(missing_ok=True)
            raise


def _let_go(file: IO[bytes]) -> None:
    """On Windows, which neither renames nor removes an open file, close it; elsewhere its lock is kept."""
    if not UNIX:
        file.close()


def refuse_overwrite(target: Path, *read: Path | None) -> None:
    """Refuse to write over a file that the same command reads, by whatever name or link. Errors: AbwError."""
    if any(path and _same(target, path) for path in read):
        hint = "name another file to write"
        message = f"{target} would be overwritten, and this command reads it"
        raise AbwError(message, hint=hint, exit_code=2)


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except (OSError, ValueError):  # one of them is not there
        return False


def why_no_file(path: Path) -> str:
    """Name what a path leads to that is no regular file; '' where it is one, or not there.

    Errors: OSError, ValueError where that cannot be told.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return ""
    if stat.S_ISREG(mode):
        return ""
    return "a folder" if stat.S_ISDIR(mode) else "a pipe" if stat.S_ISFIFO(mode) else "a device or socket"


def read_json(path: Path, what: str) -> dict[str, Any]:
    """Read a document. Errors: AbwError where the file is missing, too large, or is no JSON object."""
    try:
        if found := why_no_file(path):
            raise AbwError(f"{what} {path} is {found}, not a file")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise AbwError(f"{what} {path} does not exist") from None
    except (OSError, ValueError) as error:  # no text with a NUL names a file
        raise AbwError(f"cannot read {what} {path}: {getattr(error, 'strerror', error)}") from error
    if len(content) > MAX_BYTES:
        raise AbwError(f"{what} {path} is too large: more than {MAX_BYTES:,} bytes")
    try:
        document = json.loads(content)
    except RecursionError:
        raise AbwError(f"{what} {path} is damaged: nested too deep") from None
    except ValueError as error:  # no JSON, no UTF-8, a number of too many digits
        raise AbwError(f"{what} {path} is damaged: {error}") from error
    if not isinstance(document, dict):
        raise AbwError(f"{what} {path} is damaged: it holds no JSON object")
    return document


def file_digest(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal. Cost: some 2 ns a byte. Errors: OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def file_hash(path: Path) -> str:
    """The XXH64 of a file's bytes, 16 hexadecimal digits. Cost: some 0.1 ns a byte, and reading it.

    Two files that differ by chance have the same with probability 2^-64; by intent that is easily had.
    Errors: OSError.
    """
    with path.open("rb", buffering=0) as file:
        return hashlib.file_digest(file, xxhash.xxh64).hexdigest()


def ready(file: int, seconds: float) -> bool:
    """Whether a pipe has something to read, or has ended, within that time.

    On Windows, which cannot wait for pipes, it is said to be ready: reading it waits as long as it takes.
    """
    return os.name == "nt" or bool(select.select([file], [], [], seconds)[0])
