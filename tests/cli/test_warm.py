"""Before the first mini-batch all is compiled: a run's times contain none of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

LATE = """
import sys
from numba.core.dispatcher import Dispatcher
from abw.cli.main import main
from abw.core.run import pipeline
from abw.core.run.run import Run

def compiled():
    found = {}
    for name, module in list(sys.modules.items()):
        if name.startswith("abw."):
            for value in vars(module).values():
                if isinstance(value, Dispatcher):
                    found[f"{value.py_func.__module__}.{value.py_func.__name__}"] = len(value.overloads)
    return found

def watched(*arguments, stream=Run.stream):
    before = compiled()
    sums = stream(*arguments)
    print(*(name for name, count in compiled().items() if count != before.get(name)), file=sys.stderr)
    print("watched")
    return sums

Run.stream = watched
pipeline.REPAYS = int(sys.argv.pop(1))
main()
"""


@pytest.mark.parametrize(("spec", "repays"), [("treelstm", 0), ("lattice", 1 << 40)])
def test_nothing_is_compiled_while_a_run_is_timed(spec: str, repays: int, root: Path, tmp_path: Path) -> None:
    command = ["run", str(root / "specs" / f"{spec}.yaml"), "--batch", "8", "--limit", "32", "--quiet"]
    done = subprocess.run(
        [sys.executable, "-c", LATE, str(repays), *command],
        env={**os.environ, "ABW_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "watched\n"
    assert done.stderr.split() == []
