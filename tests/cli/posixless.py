"""The command line as on a system without POSIX's modules: several commands of abw, one after the other.

`python -X warn_default_encoding -m tests.cli.posixless COMMANDS`: a JSON list of lists of words; prints their
exit codes as JSON on standard error's last line.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any

MODULES = ("resource", "fcntl", "termios", "pwd", "grp", "tty", "pty", "curses", "readline", "uvloop")
OS = (
    *("fork", "forkpty", "sched_getaffinity", "sched_setaffinity", "sysconf", "O_NOFOLLOW", "O_DIRECTORY"),
    *("getuid", "geteuid", "getloadavg", "pread", "pwrite", "mkfifo", "killpg", "setsid", "nice", "fchmod"),
)
SIGNALS = ("SIGHUP", "SIGPIPE", "SIGALRM", "SIGUSR1", "SIGQUIT")


class Absent(MetaPathFinder):
    """Finds none of MODULES, and nobody else may."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name in MODULES:
            raise ModuleNotFoundError(f"no module {name} here", name=name)


def windows_locks() -> ModuleType:
    """`msvcrt` with its locks, made of POSIX's: so many bytes from where the file stands."""
    import fcntl

    module = ModuleType("msvcrt")
    made: Any = module
    made.LK_NBLCK = 2
    made.locking = lambda file, mode, size: fcntl.lockf(
        file, fcntl.LOCK_EX | fcntl.LOCK_NB, size, 0, os.SEEK_CUR
    )
    return module


def forget_posix() -> None:
    """Hide the modules and the names that Windows does not have."""
    sys.modules["msvcrt"] = windows_locks()
    for name in MODULES:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, Absent())
    for module, names in ((os, OS), (signal, SIGNALS)):
        for name in names:
            if hasattr(module, name):
                delattr(module, name)


def main() -> None:
    import subprocess  # its own use of these modules is Python's business

    assert subprocess
    forget_posix()
    # a file read or written in whatever encoding the system has is an error where abw does it
    warnings.filterwarnings("error", category=EncodingWarning, module=r"abw(\.|$)")
    from abw.cli.main import main as abw

    codes = []
    for words in json.loads(sys.argv[1]):
        sys.argv = ["abw", *words]
        try:
            abw()
            codes.append(0)
        except SystemExit as end:
            codes.append(int(end.code or 0))
    print(json.dumps(codes), file=sys.stderr)


if __name__ == "__main__":
    main()
