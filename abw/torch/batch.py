"""`batch(model)`: a PyTorch model written for one instance, run for many at once."""

from __future__ import annotations

import copy
import gc
import inspect
import os
import threading
import traceback
import weakref
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from abw.core.base.errors import AbwError
from abw.core.ir.network import Network
from abw.core.program.lessons import Recorded
from abw.core.program.running.fibers import Done, Failed
from abw.core.program.running.runner import BatchRunner
from abw.torch.export import Exported, write
from abw.torch.gradients import Passes, learn, read_of
from abw.torch.outputs import Place, fill, filled, noted
from abw.torch.recording.cells import PACKAGES, Cells, RestartError
from abw.torch.recording.library import versions_of
from abw.torch.recording.singles import op_region
from abw.torch.refusals import Fingerprint, refuse_unsupported
from abw.torch.rewriting.rewriter import Rewriter
from abw.torch.rewriting.shadows import is_instance
from abw.torch.tracing.symbols import CannotTrace
from abw.torch.verify import verified
from abw.torch.watch import Watch, report

DEFAULT_BATCH = 64
# A function is rewritten, or recorded with more cells, this often before it is given up.
MOST_ATTEMPTS = 200
# What may hold tensors among the arguments of an instance.
HOLDERS = (list, tuple, torch.Tensor)


def batch(
    model: torch.nn.Module,
    *,
    method: str = "forward",
    batch: int = DEFAULT_BATCH,
    threads: int | None = 1,
    executor: str = "cpu",
    policy: str = "critical",
    verify: int = 0,
) -> Batched:
    """Make a function that runs a model's method for many instances at once, forward and backward.

        fast = abw.torch.batch(model)
        outputs = fast(trees)              # [model(tree) for tree in trees]
        outputs = fast(trees, sentences)   # [model(*item) for item in zip(trees, sentences)]

    `batch` instances run together. `threads`: None is one a core. `policy` schedules nodes.
    `verify`: so many mini-batches are also run by PyTorch, one instance at a time; AbwError is raised if
    values, or gradients, differ. The model stays as it is; its parameters are PyTorch's own.

    Errors: AbwError for a model that cannot be batched, with the reason. See docs/torch.md.
    """
    return Batched(model, method, batch, threads, executor, policy, verify)


class Batched:
    """The result of `batch`: called with columns of instances, it lists the model's result for each."""

    def __init__(
        self,
        model: torch.nn.Module,
        method: str,
        batch: int,
        threads: int | None,
        executor: str,
        policy: str,
        verify: int,
    ) -> None:
        if batch < 1:
            raise AbwError(f"batch cannot be {batch}", hint="1 or more")
        refuse_unsupported(model)
        if not callable(getattr(model, method, None)):
            raise AbwError(f"the model has no method '{method}'")
        self.model = model
        self._options = (method, batch, threads, executor, policy, verify)
        self._method, self._batch, self._verify = method, batch, verify
        self._verified = ""
        self._lock = threading.RLock()
        self._begin()

    def _begin(self) -> None:
        """Begin with a model whose parameters or modules are others than before."""
        method, _, threads, executor, policy, _ = self._options
        refuse_unsupported(self.model)
        self._fingerprint = Fingerprint(self.model)
        self._cells = Cells(self.model, executor, policy, threads, op_region)
        weakref.finalize(self, self._cells.release).atexit = False
        self._rewriter = Rewriter(self._cells, method)
        self._watch = Watch(self.model, method, self._cells, self._rewriter)
        self._passes: Passes | None = None
        self._run: Any = None
        self.nodes = 0
        self._exported: Exported | None = None

    def __call__(self, *columns: Sequence[Any]) -> list[Any]:
        """Run the model for each instance: item i of each column are its arguments.

        Errors: AbwError for what cannot be batched; what the model raises, with a note that names the
        instance.
        """
        if torch.compiler.is_compiling():  # torch.compile compiles what is around it
            return torch.compiler.disable(self._all)(*columns)  # type: ignore[no-any-return]
        return self._all(*columns)

    def _all(self, *columns: Sequence[Any]) -> list[Any]:
        return list(self.stream(*columns))

    def stream(self, *columns: Sequence[Any]) -> Iterator[Any]:
        """Yield the results of a call, a mini-batch at a time."""
        if not columns:
            raise AbwError(
                "there are no instances", hint="fast(instances), or a list for each argument of forward"
            )
        listed = [list(column) for column in columns]
        if len({len(column) for column in listed}) > 1:
            sizes = ", ".join(str(len(column)) for column in listed)
            raise AbwError(
                f"the lists of arguments have {sizes} items", hint="each list needs an item for each instance"
            )
        items = list(zip(*listed, strict=True))
        for first in range(0, len(items), self._batch):
            some = items[first : first + self._batch]
            with self._lock:  # calls from several threads wait for each other
                self._check_model()
                if self._cells.session.runner is not None:
                    raise AbwError("the model calls its own batched version", hint="call the model itself")
                state, given, begin = torch.get_rng_state(), _tensors(some), perf_counter()
                versions = versions_of(given)
                run = partial(_uncollected, partial(self._mini_batch, some, first, state))
                if self._verify:
                    self._verify -= 1
                    outputs, self._verified = verified(run, self.model, self._method, some, first, state)
                else:
                    outputs = run()
                    self._watch.look(some, perf_counter() - begin)
            if versions != versions_of(given):
                raise AbwError(
                    "the model writes in place into a tensor of an instance, which it may do several times",
                    hint="write x = x + y, or to a copy: x.clone()",
                )
            yield from outputs

    def _check_model(self) -> None:
        """See what was changed of the model since the last mini-batch."""
        known, changed = self._fingerprint, self._run is not None and self._rewriter.changed()
        if not known.holds():
            self._fingerprint = Fingerprint(self.model)
            changed |= self._fingerprint.settings != known.settings
            if self._fingerprint.structure != known.structure:
                self._begin()
        self._rewriter.again |= changed

    def _mini_batch(self, items: list[Any], first: int, state: torch.Tensor) -> list[Any]:
        if torch.is_autocast_enabled("cpu"):
            raise AbwError(
                "autocast is on: abw.torch runs in float32", hint="call it outside of torch.autocast"
            )
        cells, session = self._cells, self._cells.session
        for _ in range(MOST_ATTEMPTS):
            if self._rewriter.again:
                self._run = self._rewriter.build()
            self._rewriter.refuse_modes()
            cells.begin()
            runner = done = None
            scopes = [scope for scope in self._rewriter.scopes.values() if "isinstance" not in scope]
            try:
                engine = self._passes.engine() if self._passes and cells.learns() else None
                runner = session.begin("cell", engine=engine)
                for scope in scopes:  # of helper classes, too
                    scope["isinstance"] = is_instance
                tasks = runner.begin(
                    partial(_recorded, self._run), items, range(first, first + len(items)), cells.asks
                )
                outputs = None if cells.stale else self._finished(tasks, runner, items, first)
                if outputs is not None:
                    done = runner
                    return outputs
            except RestartError:
                pass
            finally:
                for scope in scopes:
                    scope.pop("isinstance", None)
                if runner is not None:
                    session.end(done)
                cells.end()
            torch.set_rng_state(state)
        raise AbwError("every attempt to record the model needs new cells", hint="see fast.report()")

    def _finished(
        self, tasks: list[Any], runner: BatchRunner, items: list[Any], first: int
    ) -> list[Any] | None:
        """Run to the end; the outputs, or None where cells were added."""
        cells, learns = self._cells, self._cells.learns()
        runner.decide()
        if cells.stale:
            return None
        if not learns:
            runner.advance()
        ends = [task.ended.result for task in tasks if isinstance(task.ended, Done)]
        places = [place for _, some in ends for place in some]
        made = None
        if learns:  # which may raise what explains the errors of instances
            graph, local = runner.recorded([h for place in places for h in place.handles])
            made = Recorded([], graph, local, runner.base, (), runner.engine)
            for handle in read_of(made, cells.cut) if cells.cut else ():
                raise AbwError(
                    f"{cells.cut[handle]}: the detached tensor is computed with, and cells give a gradient",
                    hint="detach only what is returned or decides, or call the model in torch.no_grad()",
                )
        self._raise_failed(tasks, items, first)
        if made is not None:
            self.nodes = len(made.local)
            learn(cells, self._passes_of(made.graph.network), runner, made, places)
        else:
            self.nodes = runner.engine.nodes
            fill(places, runner)
            if self._exported is not None:
                handles = [[(h, p.size) for p in some for h in p.handles] for _, some in ends]
                self._exported.add(runner, runner.engine.whole_segment, handles)
        return [filled(form) for form, _ in ends]

    def _passes_of(self, network: Network) -> Passes:
        """The passes of a network: new ones where cells were added."""
        if self._passes is None or self._passes.network is not network:
            _, _, threads, executor, _, _ = self._options
            self._passes = Passes(self._cells, network, executor, threads)
        return self._passes

    def _raise_failed(self, tasks: list[Any], items: list[Any], first: int) -> None:
        """Raise the error of the first instance that failed, unless it is PyTorch's to raise."""
        for i, task in enumerate(tasks):
            if isinstance(task.ended, Failed):
                error = task.ended.error
                with torch.no_grad():
                    try:
                        getattr(self.model, self._method)(*items[i])
                    except Exception as own:
                        self._check_columns(items[i])
                        own.add_note(f"in instance {first + i}")
                        raise own from None
                if isinstance(error, AbwError):
                    raise error
                raise AbwError(
                    f"{line_of(error)}: {said(error)}",
                    hint="PyTorch runs this, abw.torch.batch does not: see docs/torch.md for what it takes",
                ) from error

    def _check_columns(self, item: tuple[Any, ...]) -> None:
        """Refuse another number of columns than the method has arguments. Errors: AbwError."""
        takes = inspect.signature(getattr(self.model, self._method))
        try:
            takes.bind(*item)
        except TypeError as wrong:
            name = f"{type(self.model).__name__}.{self._method}"
            raise AbwError(
                f"{name}{takes} was given {len(item)} of its arguments: {wrong}",
                hint="a list for each argument: fast(trees, sentences), or fast(*zip(*instances))",
            ) from None

    def report(self) -> str:
        """Report which cells the model became, with lines, and what did not become a cell, and why."""
        return report(self._cells, self._rewriter, [self._verified, self._watch.said])

    def export(self, folder: str | os.PathLike[str], *columns: Sequence[Any], name: str = "exported") -> Path:
        """Write the model and these instances as a spec, data and weights, for `abw run` and other commands.

        The folder gets model.yaml (a type for each cell), instances.jsonl (a vertex for each node) and
        weights.safetensors; no PyTorch is needed to run it. Decisions are those taken now. Errors: AbwError.
        """
        self._check_model()
        self._cells.exports = self._rewriter.again = True  # a spec has no attention among what is recorded
        try:
            for first in (True, False):  # what the first mini-batches learn is known to the second run
                with torch.no_grad():
                    self._exported = None if first else Exported(self._cells)
                    self(*columns)
        finally:
            made, self._exported = self._exported, None
            self._cells.exports, self._rewriter.again = False, True
        assert made is not None
        return write(made, Path(folder), name)

    def train(self, mode: bool = True) -> Batched:
        """Put the model into training mode."""
        self.model.train(mode)
        return self

    def eval(self) -> Batched:
        """Put the model into evaluation mode."""
        return self.train(False)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or "model" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.model, name)

    def __deepcopy__(self, memo: dict[int, Any]) -> Batched:
        return Batched(copy.deepcopy(self.model, memo), *self._options)

    def __reduce__(self) -> Any:
        return Batched, (self.model, *self._options)

    def __repr__(self) -> str:
        return f"batch({self.model!r})"


def line_of(error: BaseException) -> str:
    """The file and line of the user's code where an error was raised."""
    frames = [
        f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith((*PACKAGES, "<"))
    ]
    mine = [f for f in frames if "/abw/" not in f.filename or "/core/" not in f.filename]
    return f"{mine[-1].filename}:{mine[-1].lineno}" if mine else "?"


def said(error: BaseException) -> str:
    """Return the text of an error."""
    return str(error) if isinstance(error, CannotTrace) else f"{type(error).__name__}: {error}"


def _recorded(run: Any, item: Any) -> tuple[Any, list[Place]]:
    """Run an instance; gives what it returns, with places for what is computed later."""
    places: list[Place] = []
    return noted(run(item), places), places


def _uncollected(run: Any) -> Any:
    """Run a function without looking for cycles of objects: what is recorded has none, and is much."""
    collects = gc.isenabled()
    gc.disable()
    try:
        return run()
    finally:
        if collects:
            gc.enable()


def _tensors(items: list[Any]) -> list[torch.Tensor]:
    """The tensors among the arguments of instances, and in lists of tensors there."""
    some = [x for item in items for x in item if isinstance(x, HOLDERS)]
    lists = [(x,) if isinstance(x, torch.Tensor) else x for x in some]
    first = [x for x in lists if x and isinstance(x[0], torch.Tensor)]
    return [t for x in first for t in x if isinstance(t, torch.Tensor)]
