"""Loads nets from files and libraries, with the overrides of the command line."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path

from abw.core.base.errors import AbwError
from abw.core.base.progress import Clock
from abw.core.exec.interface import Executor
from abw.core.exec.precision import Precision
from abw.core.exec.registry import executor_of
from abw.core.graph.equal.consing import DedupMode
from abw.core.ir.model import Library
from abw.core.policy.registry import get_policy
from abw.core.policy.schedule import Policy
from abw.core.policy.user_policy import Validated
from abw.core.program.net import TAKEN, Net, one_of
from abw.core.program.recording.inputs import warm
from abw.core.program.session import How, ProgramGranularity
from abw.core.spec.library import load_library
from abw.core.spec.load import Overrides
from abw.core.spec.shipped import find_spec


@dataclass(frozen=True, slots=True)
class NetOverrides:
    """Options of `cells` that override a program's file; None, False or empty where the file decides."""

    dims: Mapping[str, int] = field(default_factory=dict)
    weights: Path | None = None
    policy: str | Policy | None = None
    executor: Executor | None = None
    threads: int | None = None
    seed: int | None = None
    dedup: DedupMode | None = None
    allow_outside: bool = False


OVERRIDES: ContextVar[NetOverrides] = ContextVar("overrides", default=NetOverrides())  # noqa: B039 (frozen)


@contextmanager
def overriding(overrides: NetOverrides) -> Iterator[None]:
    """Let `abw.cells` in the block follow these overrides."""
    token = OVERRIDES.set(overrides)
    try:
        yield
    finally:
        OVERRIDES.reset(token)


def cells(
    library: str | os.PathLike[str] | Library,
    *,
    weights: str | os.PathLike[str] | None = None,
    dims: Mapping[str, int] | None = None,
    policy: str | Policy = "critical",
    executor: str | Executor = "cpu",
    precision: Precision = "float32",
    threads: int | None = None,
    seed: int | None = None,
    dedup: DedupMode = "auto",
    allow_outside: bool = False,
) -> Net:
    """Load the cells, tables and parameters of a library's file, to be called by programs.

    `library`: the file, or what `abw.library` makes.
    `weights`: a file of trained ones; by default those that the file names, else random ones from `seed` (0).
    `policy`: schedules each piece of a mini-batch; a name or an object with `schedule(dag)`.
    `executor`: a name, or an executor made with its own options; `precision` is that of products' weights.
    `dedup`: compute equal calls of a mini-batch once ("on"), never, or where that has paid ("auto").
    Errors: SpecError with everything wrong in the file, AbwError. Cost: compiling kernels takes 0.1 to 0.3 s,
    unless they are on disk.
    """
    if threads is not None and threads < 1:
        raise AbwError(f"threads cannot be {threads}", hint="1 or more; None: one a core")
    one_of("precision", precision, Precision)
    one_of("dedup", dedup, DedupMode)
    said = OVERRIDES.get()
    policy, executor = said.policy or policy, said.executor or executor
    overrides = Overrides(
        dims={**(dims or {}), **said.dims},
        weights=said.weights or (Path(weights) if weights else None),
        allow_outside=allow_outside or said.allow_outside,
    )
    if isinstance(library, Library):
        if dims:
            raise AbwError("this library already has its sizes", hint="abw.library(name, dims=…)")
        loaded = replace(library, weights=replace(library.weights, file=overrides.weights))
    else:
        loaded = load_library(find_spec(Path(library)), overrides, TAKEN)
    chosen = get_policy(policy) if isinstance(policy, str) else Validated(policy)
    ready = executor_of(executor, precision) if isinstance(executor, str) else executor
    name = policy if isinstance(policy, str) else type(policy).__name__
    used = seed if said.seed is None else said.seed
    how = How(name, said.threads or threads, used or 0, said.dedup or dedup)
    return Net(loaded, ready, chosen, how)


def prepare(net: Net, granularity: ProgramGranularity) -> Clock:
    """Compile and load everything that runs need, by calling a cell on zeros.

    Errors: SpecError, AbwError.
    """
    warm()
    session = net._session
    first = next(t for t in net.library.types if t.cell)
    assert first.cell is not None
    zeros = [net._zeros[port.shape] for port in first.cell.inputs]

    def calls(_: object) -> Generator[object, int]:
        # what is computed first and what goes on from that, with a question to each
        for _ in range(1 if granularity == "graph" else 2):
            found = getattr(net, first.name)(*zeros)
            yield (found[0] if isinstance(found, tuple) else found).argmax()

    engine = session.run(calls, [0], [0], granularity).engine
    engine.clock = Clock(*engine.clock.seconds)
    return engine.clock
