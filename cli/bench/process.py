"""`abw run` in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from abw.core.errors import AbwError


def abw_run(spec: Path, options: Sequence[str], home: Path) -> dict[str, Any]:
    """The report of `abw run SPEC OPTIONS`, which keeps its run and policies in `home`. Errors: AbwError."""
    code = "from abw.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "run", str(spec), *options, "--json", "-q"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "ABW_HOME": str(home)},
    )
    if done.returncode:
        raise AbwError(f"`abw run {spec}` failed: {done.stderr.strip()}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report
