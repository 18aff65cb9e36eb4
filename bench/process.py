"""`abw run` in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from abw.core.base.errors import AbwError

# The program `abw`.
RUN = "from abw.cli.main import main; main()"


def abw_run(spec: Path, options: Sequence[str], home: Path) -> dict[str, Any]:
    """The report of `abw run SPEC OPTIONS`, which keeps its run and policies in `home`. Errors: AbwError."""
    report: dict[str, Any] = json.loads(printed(RUN, spec, [*options, "--json"], {"ABW_HOME": str(home)}))
    return report


def abw_train(spec: Path, options: Sequence[str], home: Path) -> dict[str, Any]:
    """The report of `abw train SPEC OPTIONS`, whose folder is in `home`. Errors: AbwError."""
    return _told("train", spec, [*options, "-q"], home)


def abw_check(spec: Path, options: Sequence[str], home: Path) -> dict[str, Any]:
    """The report of `abw check SPEC OPTIONS`. Errors: AbwError."""
    return _told("check", spec, options, home)


def _told(command: str, spec: Path, options: Sequence[str], home: Path) -> dict[str, Any]:
    code = f"import sys; sys.argv[1] = {command!r}; sys.argv.pop(); " + RUN
    report: dict[str, Any] = json.loads(printed(code, spec, [*options, "--json"], {"ABW_HOME": str(home)}))
    return report


def printed(code: str, spec: Path, options: Sequence[str], environment: Mapping[str, str]) -> str:
    """What Python code prints that finds the arguments of `abw run SPEC OPTIONS --quiet`.

    `environment` is set beside the one that is there. Errors: AbwError where it fails.
    """
    done = subprocess.run(
        [sys.executable, "-c", code, "run", str(spec), *options, "-q"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    if done.returncode:
        raise AbwError(f"`abw run {spec}` failed: {done.stderr.strip()}")
    return done.stdout
