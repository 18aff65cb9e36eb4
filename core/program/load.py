"""Makes nets of files and of libraries without one, with the overrides of the command line."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path

from abw.core.base.errors import AbwError, did_you_mean
from abw.core.base.progress import Clock
from abw.core.exec.interface import Executor
from abw.core.exec.precision import Precision
from abw.core.exec.registry import executor_of
from abw.core.graph.equal.consing import DedupMode
from abw.core.ir.cell import Cell, Param, Shape
from abw.core.ir.model import NOWHERE, Library, Table, library_of, with_type
from abw.core.policy.registry import get_policy
from abw.core.policy.schedule import Policy
from abw.core.policy.user_policy import Validated
from abw.core.program.net import TAKEN, Net, one_of
from abw.core.program.recording.inputs import warm
from abw.core.program.session import How, ProgramGranularity, Session
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


# A size, by its number or a dim's name; several are a shape.
Size = int | str
Sizes = Size | Sequence[Size]

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
    return Net(Session(loaded, ready, chosen, how))


def library(
    name: str,
    *,
    dims: Mapping[str, int] | None = None,
    tables: Mapping[str, tuple[int, Sizes]] | None = None,
    params: Mapping[str, Sizes] | None = None,
) -> Library:
    """Make a library without a file: `abw.cells(library)` makes a net of it, and `@net.cell` its cells.

    `dims`: sizes by name. `tables`: of each its number of rows, and the size or shape of a row. `params`: the
    sizes or shapes of parameters that are values. Errors: AbwError for what is no size or no usable name.

        net = abw.cells(abw.library("reader", dims={"hidden": 64}, tables={"words": (1000, "hidden")}))
    """
    said = OVERRIDES.get().dims
    known = {**(dims or {}), **{dim: size for dim, size in said.items() if dim in (dims or {})}}
    for each in (*(tables or {}), *(params or {})):
        if not each.isidentifier() or each.startswith("_") or each in TAKEN:
            raise AbwError(f"'{each}' cannot be called", hint="an identifier that a net has not taken")
    if both := {*(tables or {})} & {*(params or {})}:
        raise AbwError(f"'{min(both)}' is both a table and a parameter", hint="rename one of them")
    made = []
    for table, (rows, sizes) in (tables or {}).items():
        made.append(Table(table, _size(rows, known), _shape(sizes, known), None, None, NOWHERE))
    own = [Param(param, _shape(sizes, known)) for param, sizes in (params or {}).items()]
    return library_of(name, dims=known, tables=made, params=own)


def _shape(sizes: Sizes, dims: Mapping[str, int]) -> Shape:
    return tuple(_size(size, dims) for size in ([sizes] if isinstance(sizes, int | str) else sizes))


def _size(size: Size, dims: Mapping[str, int]) -> int:
    if isinstance(size, str):
        if size not in dims:
            raise AbwError(f"there is no dim '{size}'", hint=did_you_mean(size, tuple(dims)))
        size = dims[size]
    if size < 1:
        raise AbwError(f"{size} is not a size", hint="1 or more")
    return size


def add_type(net: Net, cell: Cell, params: Sequence[int | Param] = ()) -> int:
    """Add a type to a net, also while programs run; returns its number. Earlier values stay valid.

    It is called by `net.NAME`, with the cell's name. `params`: see `with_type`. Kernels are compiled once
    something is computed; what the run has computed already is computed again then. Errors: AbwError during a
    run for a type of more outputs than there is room for.
    """
    return net._extend(with_type(net.library, cell, params))


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
