"""The executors by name."""

from __future__ import annotations

from collections.abc import Callable

from abw.core.errors import AbwError, did_you_mean
from abw.core.exec.blas import BlasExecutor
from abw.core.exec.cpu.executor import CpuExecutor
from abw.core.exec.interface import Executor
from abw.core.exec.reference import ReferenceExecutor

EXECUTORS: dict[str, Callable[[], Executor]] = {
    "reference": ReferenceExecutor,
    "blas": BlasExecutor,
    "cpu": CpuExecutor,
}


def get_executor(name: str) -> Executor:
    """A fresh executor. Errors: AbwError for a name that none has."""
    if name not in EXECUTORS:
        raise AbwError(
            f"no executor is called '{name}'", hint=did_you_mean(name, list(EXECUTORS)), exit_code=2
        )
    return EXECUTORS[name]()
