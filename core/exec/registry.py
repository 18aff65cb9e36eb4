"""The executors by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from abw.core.errors import AbwError, did_you_mean
from abw.core.exec.blas import BlasExecutor
from abw.core.exec.cpu.executor import CpuExecutor
from abw.core.exec.cpu.target import KNOWN
from abw.core.exec.interface import Executor
from abw.core.exec.reference import ReferenceExecutor

KernelsName = Literal["ir", "njit"]
"""What the kernels of the executor cpu are written in."""

SchemeName = Literal["auto", "batch", "plan"]
"""How the executor cuda launches: each step of a batch, a whole plan, or whichever its costs say."""


def _cuda(scheme: SchemeName = "auto", tensor_cores: bool = True) -> Executor:
    """On the first GPU. Errors: AbwError that says what is missing."""
    from abw.core.exec.cuda.available import open_device
    from abw.core.exec.cuda.costs import costs_of
    from abw.core.exec.cuda.executor import CudaExecutor
    from abw.core.exec.cuda.gpu import Gpu

    device = open_device()
    return CudaExecutor(Gpu(device, tensor_cores=tensor_cores), scheme, costs_of(device.traits))


EXECUTORS: dict[str, Callable[[], Executor]] = {
    "reference": ReferenceExecutor,
    "blas": BlasExecutor,
    "cpu": CpuExecutor,
    "cuda": _cuda,
}
SUMMARIES: dict[str, str] = {
    "reference": "the meaning: float64, a node at a time",
    "blas": "NumPy calls, one for each batch of operations, with gathers between, as frameworks do it",
    "cpu": "the default: one fused kernel a cell, on as many cores as there are",
    "cuda": "an NVIDIA GPU",
}
"""What each executor is, in one line."""


def get_executor(
    name: str,
    kernels: KernelsName | None = None,
    scheme: SchemeName | None = None,
    tensor_cores: bool = True,
) -> Executor:
    """A fresh executor; `kernels` are for cpu alone, None: IR where that was ever tried; `scheme` and
    `tensor_cores` for cuda.

    Errors: AbwError for a name that none has, for kernels, a scheme or tensor cores where there is no choice,
    and where cuda cannot run: it says what is missing and how to get it.
    """
    if name not in EXECUTORS:
        raise AbwError(
            f"no executor is called '{name}'", hint=did_you_mean(name, list(EXECUTORS)), exit_code=2
        )
    if kernels and name != "cpu":
        raise AbwError(
            f"executor '{name}' has no choice of kernels", hint="--kernels needs --executor cpu", exit_code=2
        )
    if scheme and name != "cuda":
        raise AbwError(
            f"executor '{name}' has no choice of schemes", hint="--scheme needs --device cuda", exit_code=2
        )
    if not tensor_cores and name != "cuda":
        raise AbwError(
            f"executor '{name}' has no choice of tensor cores",
            hint="--no-tensor-cores needs --device cuda",
            exit_code=2,
        )
    if name == "cuda":
        return _cuda(scheme or "auto", tensor_cores)
    if name == "cpu" and (kernels or ("ir" if KNOWN else "njit")) == "njit":
        from abw.core.exec.cpu.njit import NjitExecutor

        return NjitExecutor()
    return EXECUTORS[name]()
