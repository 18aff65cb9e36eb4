"""A run from its first instance to what is kept on disk; subclasses run a model or a program."""

from __future__ import annotations

import platform
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Generic, TypeVar

from numpy.typing import NDArray

import abw
from abw.core.base.files import refuse_overwrite
from abw.core.base.parallel import overlapping
from abw.core.base.progress import Clock, Progress, Quiet, working
from abw.core.data.feed import STDIN, Feed, Section
from abw.core.data.read import Bad, Chunk, Some
from abw.core.exec.trained import Owner, Trained
from abw.core.graph.dag import Dag
from abw.core.graph.graph import Graph
from abw.core.policy.schedule import Schedule
from abw.core.run.minibatches import MiniBatch
from abw.core.run.options import CommonOptions, Share
from abw.core.store.folders import new_folder, passing_folder, require_writable
from abw.core.store.outputs import Writer, require_suffix
from abw.core.store.runs import SCHEMA_VERSION, runs_folder, save_report, write_note
from abw.core.store.shard_files import writing_part

# The number of mini-batches whose graph and schedule are kept, and used to compare policies.
KEPT = 32
# The most mistakes in instances that a run's report lists.
TOLD = 10

# Rows: the outputs of consecutive instances.
R = TypeVar("R", bound=Sized)
T = TypeVar("T", contravariant=True)
# Instances that were read together, the bytes of the feed before them, and the mean bytes of one.
Given = tuple[Some, float, float]


@dataclass(kw_only=True)
class Ran(ABC, Generic[R]):
    """A mini-batch that has run, of a model or of a program.

    `last`: the line on which its last instance begins; `taken`: the bytes of the feed up to there. `counted`:
    what it adds to the run's `Sums`. `batch`: what was planned, or has grown; None for programs. `abreast`:
    the number of threads that run mini-batches in parallel, 0 if they run one by one. `number`: from 0.
    """

    last: int
    taken: float
    counted: Mapping[str, int]
    batch: MiniBatch | None = None
    abreast: int = 0
    number: int = 0

    @abstractmethod
    def read(self) -> R:
        """Read the outputs of its instances, before the next mini-batch is requested. Errors: AbwError."""

    @abstractmethod
    def whole(self) -> tuple[Graph, Dag, Schedule]:
        """The graph, the dag that the policy saw, and the schedule by which it was executed."""

    @abstractmethod
    def verify(self) -> tuple[float, int, int]:
        """Check schedules, plans and values.

        Returns the largest error of a value, the number of decisions made again, and how many of these differ
        within the tolerance. Errors: AbwError.
        """

    def keep(self, folder: Path) -> NDArray[Any] | None:
        """Keep more than graph and schedule; returns the round of each node, if there are rounds."""
        return None


class Observer(Generic[T]):
    """Measures, checks or writes something during a run, and adds to its report."""

    def begin(self, folder: Path) -> None:
        """Called before the first mini-batch; `folder` takes what is kept of the run."""

    def look(self, ran: T) -> None:
        """Examine a mini-batch, perhaps after later ones; the time does not count if they run in parallel."""

    def read(self, ran: T) -> None:
        """Examine a mini-batch whose results have just been read, and are still in memory."""

    def end(self) -> None:
        """Called when the last mini-batch has been written."""

    def report(self, report: dict[str, Any], folder: Path) -> None:
        """Complete the run's report and folder."""


@dataclass(slots=True)
class Sums:
    """Counts over the mini-batches of a run.

    `not_finite`: NaN and infinite values of the outputs. `abreast`: mini-batches that ran at once, 0 if one
    by one; examining them afterwards is not part of `elapsed`. `in_pieces`: mini-batches that did not fit the
    memory. `equal_nodes`: nodes left out because they equal others. `unseen_states`: steps at which the
    policy was in a state unseen in training.
    """

    elapsed: float = 0.0
    instances: int = 0
    skipped: int = 0
    complaints: list[str] = field(default_factory=list)
    mini_batches: int = 0
    in_pieces: int = 0
    rounds: int = 0
    nodes: int = 0
    batches: int = 0
    unseen_states: int = 0
    equal_nodes: int = 0
    launches: int = 0
    memory_kernels: int = 0
    bytes_moved: int = 0
    not_finite: int = 0
    abreast: int = 0

    def add(self, ran: Ran[Any]) -> None:
        """Add a mini-batch that has run."""
        self.mini_batches += 1
        self.abreast = max(self.abreast, ran.abreast)
        for name, count in ran.counted.items():
            setattr(self, name, getattr(self, name) + count)


class Run(ABC, Generic[Some, R]):
    """A run of instances, in mini-batches.

    `name`: of the model or of the program's library; `files`: its files, the main one first; `policy_file`:
    of a learned policy. `keys`: the report's keys behind those of `about`, in order; None if nothing sets
    them. `usual`: the default file of outputs, in the run's folder. `phases`: the clock's phases that count
    in instances a second.
    """

    name: str
    files: tuple[Path, ...]
    policy_file: Path | None = None
    keys: str
    usual: str
    phases: tuple[str, ...]

    def __init__(self, options: CommonOptions, clock: Clock, progress: Progress | None = None) -> None:
        """`clock` also has the phases `wait` and `write`."""
        self.options, self.clock, self.progress = options, clock, progress or Quiet()
        self.sums = Sums()
        self.told: deque[Bad] = deque()  # left out, perhaps by another thread
        self.owed: list[Bad] = []  # sorted by line, not yet written

    @abstractmethod
    def opened(self, section: Section | None) -> AbstractContextManager[Feed]:
        """Open the data, or a section of it. Errors: DataError."""

    @abstractmethod
    def writing(self, target: Path) -> AbstractContextManager[Writer[R]]:
        """Open the file of outputs. Errors: AbwError."""

    @abstractmethod
    def chunks(self) -> Iterator[Chunk[Some]]:
        """Read instances from the `feed`, chunk by chunk."""

    @abstractmethod
    def stretches(self, given: Iterator[Given[Some]]) -> Iterator[Iterable[Ran[R]]]:
        """Run mini-batches. Between two stretches they are examined, and a pipe may wait for more instances.

        Instances that cannot be run are appended to `told`.
        """

    @abstractmethod
    def merged(self, rows: R | None, bad: Sequence[Bad], first: int) -> R:
        """Insert rows for instances that were left out, by line; `first` is the number of the first row."""

    @abstractmethod
    def not_finite(self, rows: R) -> int:
        """Count the values that are NaN or infinite."""

    @property
    def ahead(self) -> bool:
        """Whether another thread reads while mini-batches run."""
        return False

    def working(self) -> float:
        """The seconds that count in instances a second."""
        return sum(self.clock.seconds[phase] for phase in self.phases)

    def about(self) -> dict[str, Any]:
        """The first keys of the report: what is run, and how."""
        return {}

    def more(self) -> dict[str, Any]:
        """Further values of the report, by their keys."""
        return {}

    def run(self, observers: Sequence[Observer[Any]], share: Share | None, command: str) -> dict[str, Any]:
        """Run all instances, or a share, and keep the run on disk; returns its report.

        Errors: AbwError and its kinds. Nothing of a run that fails or is interrupted stays on disk.
        """
        options = self.options
        folder = new_folder(runs_folder(), self.name) if options.keep else passing_folder()
        with ExitStack() as stack:
            draft = stack.enter_context(folder)
            feed = stack.enter_context(self.opened(share.section if share else None))
            part = None
            if share:
                part = stack.enter_context(writing_part(share.part, share.run_key, share.section))
            target = part.path if part else options.output or draft.path / self.usual
            with self.writing(target) as writer:
                for observer in observers:
                    observer.begin(draft.path)
                sums = self.stream(feed, writer, observers)
                for observer in observers:
                    observer.end()
            if part:
                part.instances, part.skipped = sums.instances, sums.skipped
            report = self._report(share, command)
            for observer in observers:
                observer.report(report, draft.path)
            if options.keep:
                save_report(draft.path, report, self.files, self.policy_file)
                if options.note or options.tags:
                    write_note(draft.path, options.note, options.tags)
        return {**report, "path": str(draft.final)} if draft.final else report

    def _report(self, share: Share | None, command: str) -> dict[str, Any]:
        """The report of a run, before observers add to it."""
        sums, output = self.sums, self.options.output
        found = {
            **asdict(sums),
            "seconds": dict(self.clock.seconds),
            "instances_per_second": sums.instances / (self.working() or 1.0),
            "output": output and str(share.part.path if share else output),
            "shard": share and share.document(),
            "date": datetime.now().astimezone().isoformat(timespec="seconds"),
            "versions": versions(),
            "command": command,
            **self.more(),
        }
        head = {"schema_version": SCHEMA_VERSION, "model": self.name, "spec": str(self.files[0])}
        return head | self.about() | {key: found.get(key) for key in self.keys.split()}

    def stream(self, feed: Feed, writer: Writer[R], observers: Sequence[Observer[Any]] = ()) -> Sums:
        """Run all instances of a feed. Errors: DataError, SpecError, AbwError; OSError of the writer."""
        self.feed, self.writer, self.observers = feed, writer, observers
        self.first, self.begun = feed.seen, working()
        self.progress.phase("run", self.feed.size)
        # reading from a pipe may wait for ever; a thread that does so could not be ended
        file, looking = self.feed.size is not None, 0.0
        with overlapping(self._chunks(), wanted=self.ahead and file) as chunks:
            for stretch in self.stretches(self._given(chunks)):
                later: list[Callable[[], None]] = []
                for ran in stretch:
                    self._take(ran, later)
                begun = working()
                for look in later:
                    look()
                looking += working() - begun
                if not file:
                    self._write()
        self._write()
        self.sums.elapsed = working() - self.begun - looking
        return self.sums

    def _chunks(self) -> Iterator[tuple[Chunk[Some], int]]:
        """Yield each chunk, and the bytes of the feed read so far."""
        clock, found = self.clock, self.chunks()
        while True:
            waited = self.feed.waited
            with clock("read"):
                chunk = next(found, None)
            clock.seconds["read"] -= self.feed.waited - waited
            clock.seconds["wait"] += self.feed.waited - waited
            if chunk is None:
                return
            yield chunk, self.feed.taken

    def _given(self, chunks: Iterator[tuple[Chunk[Some], int]]) -> Iterator[Given[Some]]:
        before = self.feed.taken
        for chunk, taken in chunks:
            self.told += chunk.bad
            if len(chunk.instances):
                yield chunk.instances, before, (taken - before) / len(chunk.instances)
            elif self.feed.size is None:  # somebody may wait for it
                self._write()
            before = taken

    def _take(self, ran: Ran[R], later: list[Callable[[], None]]) -> None:
        """Read and write the outputs of a mini-batch; observers look at it now, or `later`."""
        ran.number = self.sums.mini_batches
        for observer in self.observers:
            if (
                ran.abreast
            ):  # observers would run in parallel with the next mini-batch, so that their time would count
                later.append(partial(observer.look, ran))
            else:  # a device may still be running: what needs no result comes first
                observer.look(ran)
        self.sums.add(ran)
        rows = ran.read()
        self.sums.not_finite += self.not_finite(rows)
        for observer in self.observers:
            observer.read(ran)
        self._write(rows, ran.last)
        done = self.sums.instances + self.sums.skipped
        rate = done / (working() - self.begun)
        self.progress.reached(int(ran.taken), f"{done} instances, {rate:.0f}/s")

    def _write(self, rows: R | None = None, last: int | None = None) -> None:
        """Write rows, and instances left out before line `last`, or all of these."""
        while self.told:
            self.owed.append(self.told.popleft())
        self.owed.sort(key=lambda bad: bad.line)
        count = sum(last is None or bad.line <= last for bad in self.owed)
        bad, self.owed = self.owed[:count], self.owed[count:]
        sums, wanted = self.sums, 0 if rows is None else len(rows)
        if bad or wanted:
            with self.clock("write"):
                number = self.first + sums.instances + sums.skipped
                self.writer.write(self.merged(rows, bad, number))
        sums.instances += wanted
        sums.skipped += len(bad)
        sums.complaints += [one.message for one in bad[: TOLD - len(sums.complaints)]]


def require_targets(options: CommonOptions) -> None:
    """Check, before any work, that outputs and the run can be written. Errors: AbwError."""
    if options.keep:
        require_writable(runs_folder())
    if options.output:
        require_suffix(options.output)


def spare_read(target: Path | None, data: Path | None, *read: Path) -> None:
    """Refuse to overwrite the data or other files that are read. Errors: AbwError."""
    if target:
        refuse_overwrite(_opened(target, 1), data and _opened(data, 0), *read)


def _opened(path: Path, standard: int) -> Path:
    """The path; for `-` that of standard input (0) or output (1)."""
    return Path(f"/dev/fd/{standard}") if str(path) == STDIN else path


def shown_data(path: Path) -> str:
    """The source of the instances in a report."""
    return "stdin" if str(path) == STDIN else str(path)


def weights_document(owner: Owner, trained: Trained | None) -> dict[str, Any]:
    """Describe the file of weights, or say that they are random, and whether the spec maps a file's."""
    found = trained and {
        "path": str(trained.file.path),
        "format": trained.file.format,
        "sha256": trained.file.sha256,
        "converted": dict(trained.converted),
    }
    return {
        "weights": found,
        "random_weights": found is None,
        "mapped_weights": bool(owner.weights.map),
    }


def versions() -> dict[str, str]:
    """The versions of everything that a result depends on."""
    found = {"abw": abw.__version__, "python": platform.python_version(), "machine": platform.machine()}
    for package in ("numpy", "numba", "llvmlite"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "absent"
    return found
