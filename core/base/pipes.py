"""Waiting for what a pipe gives."""

from __future__ import annotations

import os
import select


def ready(file: int, seconds: float) -> bool:
    """Whether a pipe has something to read, or has ended, within that time.

    On Windows, which cannot wait for pipes, it is said to be ready: reading it waits as long as it takes.
    """
    return os.name == "nt" or bool(select.select([file], [], [], seconds)[0])
