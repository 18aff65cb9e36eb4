"""Files and folders that one process at a time has: locks that end with the process, however it ends."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from abw.core.base.errors import AbwError

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""How a file system says that it has none, as some that are shared by many machines."""


def lock(file: int, *, wait: bool) -> bool:
    """Lock an open file or folder until it is closed; False where another process has it and none is waited
    for. Errors: OSError, also where the file system has no locks.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Wait until no other process has a folder, and keep it to the block's end. Errors: OSError.

    A file system without locks has none to wait for.
    """
    file = os.open(folder, os.O_RDONLY)
    try:
        _if_possible(file, wait=True)
        yield
    finally:
        os.close(file)


def open_alone(path: Path, *, wait: bool, named: Path) -> int:
    """Open a file to write, made if need be and as it was, that no other process has opened so.

    One that has it is waited for, or without `wait` an error. Errors: OSError; AbwError, which calls the file
    `named`.
    """
    while True:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o666)
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
