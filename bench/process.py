"""Work in processes of its own: commands of abw, and objects that may fail, hang or kill their process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from abw.core.base.errors import AbwError

# Seconds that a process may take to end by itself.
LEAVING = 10.0


def abw(words: list[str], environment: Mapping[str, str]) -> str:
    """Return what `abw WORDS` prints, with more in its environment. Errors: AbwError where it fails."""
    command = [sys.executable, "-m", "abw", *words]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    if done.returncode:
        raise AbwError(f"`abw {' '.join(words)}` failed: {done.stderr.strip()}")
    return done.stdout


def report(command: str, spec: Path, options: list[str], home: Path) -> dict[str, Any]:
    """The JSON document of a command for a spec, which keeps its files in `home`. Errors: AbwError."""
    printed = abw([command, str(spec), *options, "-q", "--json"], {"ABW_HOME": str(home)})
    document: dict[str, Any] = json.loads(printed)
    return document


class Apart:
    """An object that is made, and whose methods are called, in another process.

    After a call that fails it is made anew, in a new process, for the next one: a GPU that a kernel failed on
    is lost to its process.
    """

    def __init__(self, make: Callable[..., Any], *args: Any, seconds: float) -> None:  # noqa: ANN401
        """`make(*args)` makes the object at the first call; a call may take so many `seconds`.

        `make`, arguments and results can be pickled.
        """
        self._make, self._args, self._seconds = make, args, seconds
        self._process: Any = None
        self._pipe: Any = None

    def call(self, method: str, *args: Any) -> Any:  # noqa: ANN401
        """Call a method and return its result. Errors: AbwError for all that can go wrong."""
        self.start(method, *args)
        return self.wait()

    def start(self, method: str, *args: Any) -> None:  # noqa: ANN401
        """Begin a call."""
        if self._process is None:
            context = get_context("spawn")
            self._pipe, other = context.Pipe()
            self._process = context.Process(target=_serve, args=(other, self._make, self._args), daemon=True)
            self._process.start()
            other.close()
        self._pipe.send((method, args))

    def wait(self) -> Any:  # noqa: ANN401
        """Return the result of the call that was begun. Errors: AbwError for all that can go wrong."""
        try:
            if not self._pipe.poll(self._seconds):
                raise AbwError(f"no answer within {self._seconds:.0f} s")
            value, error = self._pipe.recv()
        except (EOFError, OSError):
            self._process.join(LEAVING)
            code = self._process.exitcode
            self._end()
            raise AbwError(f"the process ended, with exit code {code}") from None
        except BaseException:
            self._end()
            raise
        if error is not None:
            self._end()
            message, hint = error
            raise AbwError(message, hint=hint)
        return value

    def close(self) -> None:
        """End the process, by force if it does not end by itself."""
        if self._process is not None:
            self._pipe.close()
            self._process.join(LEAVING)
            self._end()

    def _end(self) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()
        self._process = self._pipe = None


def _serve(pipe: Any, make: Callable[..., Any], args: tuple[Any, ...]) -> None:  # noqa: ANN401
    """Answer calls until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other process gets it, and ends this one
    made = None
    while True:
        try:
            method, given = pipe.recv()
        except EOFError:
            return
        value, error = None, None
        try:
            made = make(*args) if made is None else made
            value = getattr(made, method)(*given)
        except AbwError as failed:
            error = failed.message, failed.hint
        except Exception as failed:  # a defect, which the other process reports
            error = f"{type(failed).__name__}: {failed}", traceback.format_exc()
        pipe.send((value, error))
