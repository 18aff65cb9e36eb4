"""A library of cells to measure, on one thread."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from abw.core.program.net import Net, cells
from abw.core.program.recording.machine import SWITCH


def opened(specs: Path, text: str, hidden: int, recorder: str = "") -> Net:
    """A library's cells, of a size, on one thread; `recorder`: "python" for Python's."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "library.yaml"
        path.write_text(text.replace("SPECS", str(specs.resolve())), encoding="utf-8")
        before = os.environ.pop(SWITCH, None)
        if recorder:
            os.environ[SWITCH] = recorder
        try:
            return cells(path, dims={"hidden": hidden}, allow_outside=True, threads=1)
        finally:
            os.environ.pop(SWITCH, None)
            if before is not None:
                os.environ[SWITCH] = before
