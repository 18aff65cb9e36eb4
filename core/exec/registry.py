"""The executors by name: what each is, its options, and how one is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from abw.core.base.errors import AbwError, did_you_mean
from abw.core.exec.blas.executor import BlasExecutor
from abw.core.exec.cpu.executor import CpuExecutor
from abw.core.exec.interface import OVERLAPPING, USUAL, Abilities, Executor
from abw.core.exec.precision import Precision
from abw.core.exec.reference import ReferenceExecutor


@dataclass(frozen=True, slots=True)
class Entry:
    """An executor: `summary` in one line; `options`, its own with their defaults, which `make` takes by name.

    `flag` is how the command line chooses it. Errors of `make`: AbwError where the executor cannot run on
    this machine, which says what is missing and how to get it.
    """

    summary: str
    make: Callable[..., Executor]
    abilities: Abilities = USUAL
    options: Mapping[str, object] = field(default_factory=dict)
    flag: str = "--executor"


def _cuda(scheme: Literal["auto", "batch", "plan"] | None, tensor_cores: bool) -> Executor:
    """On the first GPU. `scheme`: how it launches, each step of a batch or a whole plan; None, `auto`: as its
    costs say. `tensor_cores`: whether products for many lanes may be computed there.
    """
    from abw.core.exec.cuda.available import open_device
    from abw.core.exec.cuda.driver.gpu import Gpu
    from abw.core.exec.cuda.executor import CudaExecutor
    from abw.core.exec.cuda.measure.costs import costs_of

    device = open_device()
    return CudaExecutor(Gpu(device, tensor_cores=tensor_cores), scheme or "auto", costs_of(device.traits))


EXECUTORS: dict[str, Entry] = {
    "reference": Entry(
        "the definition of all results: float64, one node at a time",
        ReferenceExecutor,
        ReferenceExecutor.abilities,
    ),
    "blas": Entry(
        "a NumPy call for each batch of operations, with gathers in between, as in other frameworks",
        BlasExecutor,
    ),
    "cpu": Entry(
        "the default: one fused kernel for each cell, on all cores",
        CpuExecutor,
        CpuExecutor.abilities,
        {"precision": "float32"},
    ),
    "cuda": Entry("an NVIDIA GPU", _cuda, OVERLAPPING, {"scheme": None, "tensor_cores": True}, "--device"),
}


def entry_of(name: str) -> Entry:
    """What is known of an executor by its name. Errors: AbwError for a name that none has."""
    if name not in EXECUTORS:
        raise AbwError(
            f"no executor is called '{name}'", hint=did_you_mean(name, list(EXECUTORS)), exit_code=2
        )
    return EXECUTORS[name]


def get_executor(name: str, **given: object) -> Executor:
    """A fresh executor; `given` are options of its own by their names (see `Entry.options`).

    Errors: AbwError for a name that none has, for an option that is another executor's, and where it cannot
    run on this machine.
    """
    entry = entry_of(name)
    return entry.make(**_options(name, entry, given))


def executor_of(name: str, precision: Precision) -> Executor:
    """A fresh executor with weights of this precision. Errors: as `get_executor`."""
    return get_executor(name, **({} if precision == "float32" else {"precision": precision}))


def settings(name: str, **given: object) -> dict[str, object]:
    """Every executor's options as they stand when `name` is given these: None for those that are not its own.

    Errors: as `get_executor`, but for the machine.
    """
    none = {option: None for entry in EXECUTORS.values() for option in entry.options}
    return {**none, **_options(name, entry_of(name), given)}


def _options(name: str, entry: Entry, given: dict[str, object]) -> dict[str, object]:
    for option in given.keys() - entry.options.keys():
        owner = next((n for n, e in EXECUTORS.items() if option in e.options), None)
        if owner is None:
            raise TypeError(f"no executor has the option '{option}'")
        what = option.replace("_", " ")
        raise AbwError(
            f"executor '{name}' has no choice of {what if what.endswith('s') else what + 's'}",
            hint=f"that needs {EXECUTORS[owner].flag} {owner}",
            exit_code=2,
        )
    return {**entry.options, **given}
