"""Files and folders that one process at a time has: locks that end with the process, however it ends."""

from __future__ import annotations

import errno
import importlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

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
