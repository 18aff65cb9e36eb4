"""A process that has imported all of abw, of which each command is a fork: hundreds of kills take minutes.

Reads a JSON line `{"command", "folder", "home", "signal", "after"}` from standard input for each, and answers
with one, `{"code", "said", "seconds"}`.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NoReturn

IMPORTED = (
    "abw.__main__",
    "abw.cli.main",
    "abw.core.run.pipeline",
    "abw.core.run.precompile",
    "abw.core.tools.calibrate",
    "abw.viz.data.collect",
    "abw.viz.drawing.draw",
    "abw.viz.page",
)


def main() -> None:
    """Answer until standard input ends."""
    for name in IMPORTED:
        importlib.import_module(name)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    """Run a command in a fork, and send that a signal after some seconds, if one is asked for."""
    with tempfile.TemporaryFile() as said:
        begun = time.perf_counter()
        child = os.fork()
        if child == 0:
            command(asked, said.fileno())
        if asked["signal"]:
            end = os.pidfd_open(child)
            if not select.select([end], [], [], asked["after"])[0]:
                os.kill(child, asked["signal"])
            os.close(end)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        seconds = time.perf_counter() - begun
        said.seek(0)
        return {"code": code, "said": said.read().decode(), "seconds": seconds}


def command(asked: dict[str, Any], said: int) -> NoReturn:
    """The command line, as a process of its own has it."""
    from abw.__main__ import main as run

    code = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(asked["folder"])
        os.environ["ABW_HOME"] = asked["home"]
        nothing = os.open(os.devnull, os.O_RDWR)
        for file, to in ((0, nothing), (1, nothing), (2, said)):
            os.dup2(to, file)
        sys.argv = ["abw", *asked["command"]]
        run()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    main()
