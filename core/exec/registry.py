"""The executors by name: what each is, its options, and how one is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from abw.core.base.errors import AbwError, did_you_mean
from abw.core.exec.blas.executor import BlasExecutor
from abw.core.exec.cpu.executor import CpuExecutor
from abw.core.exec.interface import OVERLAPPING, USUAL, Abilities, Executor
from abw.core.exec.precision import Precision
from abw.core.exec.reference import ReferenceExecutor

# How the executor cuda launches.
SchemeName = Literal["auto", "batch", "plan"]


@dataclass(frozen=True, slots=True)
class NoOptions:
    """The options of an executor that has none."""


@dataclass(frozen=True, slots=True)
class CpuOptions:
    """`precision`: of the weights of products."""

    precision: Precision = "float32"


@dataclass(frozen=True, slots=True)
class CudaOptions:
    """`scheme`: how it launches each step of a batch or a whole plan; None, `auto`: whichever its costs say.
    `tensor_cores`: whether products for many lanes may be computed there.
    """

    scheme: SchemeName | None = None
    tensor_cores: bool = True


@dataclass(frozen=True, slots=True)
class Entry:
    """An executor: `summary` in one line; `options`, a dataclass whose defaults hold where nothing is said.

    `flag` is how the command line chooses it, `make` gives a fresh one of such options. Errors: AbwError
    where it cannot run on this machine, which says what is missing and how to get it.
    """

    summary: str
    make: Callable[[Any], Executor]
    abilities: Abilities = USUAL
    options: type[Any] = NoOptions
    flag: str = "--executor"


def _cuda(options: CudaOptions) -> Executor:
    """On the first GPU."""
    from abw.core.exec.cuda.available import open_device
    from abw.core.exec.cuda.driver.gpu import Gpu
    from abw.core.exec.cuda.executor import CudaExecutor
    from abw.core.exec.cuda.measure.costs import costs_of

    device = open_device()
    gpu = Gpu(device, tensor_cores=options.tensor_cores)
    return CudaExecutor(gpu, options.scheme or "auto", costs_of(device.traits))


EXECUTORS: dict[str, Entry] = {
    "reference": Entry(
        "the definition of all results: float64, one node at a time",
        lambda _: ReferenceExecutor(),
        ReferenceExecutor.abilities,
    ),
    "blas": Entry(
        "a NumPy call for each batch of operations, with gathers in between, as in other frameworks",
        lambda _: BlasExecutor(),
    ),
    "cpu": Entry(
        "the default: one fused kernel for each cell, on all cores",
        lambda options: CpuExecutor(precision=options.precision),
        CpuExecutor.abilities,
        CpuOptions,
    ),
    "cuda": Entry("an NVIDIA GPU", _cuda, OVERLAPPING, CudaOptions, "--device"),
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
    return entry.make(_options(name, entry, given))


def executor_of(name: str, precision: Precision) -> Executor:
    """A fresh executor with weights of this precision. Errors: as `get_executor`."""
    return get_executor(name, **({} if precision == "float32" else {"precision": precision}))


def settings(name: str, **given: object) -> dict[str, Any]:
    """Every executor's options as they stand when `name` is given these: None for those that are not its own.

    Errors: as `get_executor`, but for the machine.
    """
    entry = entry_of(name)
    own = asdict(_options(name, entry, given))
    return {option: own.get(option) for e in EXECUTORS.values() for option in _names(e)}


def _options(name: str, entry: Entry, given: dict[str, object]) -> Any:  # noqa: ANN401
    for option in given.keys() - _names(entry):
        owner = next((n for n, e in EXECUTORS.items() if option in _names(e)), None)
        if owner is None:
            raise TypeError(f"no executor has the option '{option}'")
        what = option.replace("_", " ")
        raise AbwError(
            f"executor '{name}' has no choice of {what if what.endswith('s') else what + 's'}",
            hint=f"that needs {EXECUTORS[owner].flag} {owner}",
            exit_code=2,
        )
    return entry.options(**given)


def _names(entry: Entry) -> set[str]:
    return {f.name for f in fields(entry.options)}
