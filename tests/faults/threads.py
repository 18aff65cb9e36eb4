"""Runs that threads share, beside those of one thread, while freed memory is spoilt: the same bytes.

Whatever one thread gives back while another reads it is then seen: as other bytes, or as a crash.
"""

from __future__ import annotations

import ctypes
import importlib.util
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import abw
from abw.core.api import LoadedModel, load
from abw.core.exec.cpu import launch, partition
from abw.core.exec.cpu.llvm.compiled import Code, compile_ir
from abw.core.exec.cpu.target import get_target
from abw.core.exec.cpu.team import Team
from abw.core.serve.engine import Engine
from abw.core.serve.requests import LINES, Request
from abw.core.store.ragged import Outputs
from abw.core.train.optimizers import Stepper
from tests.faults.kills import Tally

ROOT = Path(__file__).resolve().parents[2]
THREADS = (2, 3, 4, 8)
# So many inputs a work has, in turns: what a run leaves in memory is not what the next one should give.
INPUTS = 4
# What bytes of memory are that was given back, or was not written yet.
SPOILT = 0xDD

# From an input's number to all that comes of it.
Run = Callable[[int], bytes]


@cache
def spoiling() -> Code:
    """NumPy's four functions for memory, over the system's: without a store of small pieces of its own, and
    all that is given back is spoilt at once.
    """
    text = f"""
declare ptr @malloc(i64)
declare ptr @calloc(i64, i64)
declare ptr @realloc(ptr, i64)
declare void @free(ptr)
declare ptr @memset(ptr, i32, i64)

define ptr @take(ptr %context, i64 %size) {{
  %at = call ptr @malloc(i64 %size)
  %none = icmp eq ptr %at, null
  br i1 %none, label %end, label %spoil
spoil:
  %same = call ptr @memset(ptr %at, i32 {SPOILT}, i64 %size)
  br label %end
end:
  ret ptr %at
}}

define ptr @take_zeros(ptr %context, i64 %count, i64 %size) {{
  %at = call ptr @calloc(i64 %count, i64 %size)
  ret ptr %at
}}

define ptr @resize(ptr %context, ptr %at, i64 %size) {{
  %other = call ptr @realloc(ptr %at, i64 %size)
  ret ptr %other
}}

define void @give_back(ptr %context, ptr %at, i64 %size) {{
  %none = icmp eq ptr %at, null
  br i1 %none, label %end, label %spoil
spoil:
  %same = call ptr @memset(ptr %at, i32 {SPOILT}, i64 %size)
  call void @free(ptr %at)
  br label %end
end:
  ret void
}}
"""
    return compile_ir(text, get_target())


class _Handler(ctypes.Structure):
    """NumPy's `PyDataMem_Handler`."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        *((part, ctypes.c_void_p) for part in ("context", "malloc", "calloc", "realloc", "free")),
    )


def numpys_handler() -> _Handler:
    """What NumPy takes memory by on every thread, to be written to."""
    get, name_of = ctypes.pythonapi.PyCapsule_GetPointer, ctypes.c_char_p
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, name_of)
    functions = (ctypes.c_void_p * 307).from_address(get(np._core._multiarray_umath._ARRAY_API, None))  # type: ignore[attr-defined]
    default = ctypes.cast(functions[306] or 0, ctypes.POINTER(ctypes.py_object)).contents.value
    return _Handler.from_address(get(default, b"mem_handler"))


@contextmanager
def spoilt() -> Iterator[None]:
    """Spoil all memory of arrays that is given back in the block."""
    handler, code = numpys_handler(), spoiling()
    parts = {"malloc": "take", "calloc": "take_zeros", "realloc": "resize", "free": "give_back"}
    before = {part: getattr(handler, part) for part in parts}
    for part, name in parts.items():
        setattr(handler, part, code.address(name))
    perturb = -6  # M_PERTURB: also what compiled code gives back to glibc
    glibc = ctypes.CDLL(None) if platform.libc_ver()[0] == "glibc" else None
    try:
        if glibc:
            glibc.mallopt(perturb, SPOILT)
        yield
    finally:
        if glibc:
            glibc.mallopt(perturb, 0)
        for part, function in before.items():
            setattr(handler, part, function)


@contextmanager
def shared() -> Iterator[None]:
    """Let threads share whatever they can, however small, and take small memory before they begin."""
    share = Team.share

    def crowded(team: Team, work: Callable[[int], object]) -> None:
        held = [np.full(size, -1, np.int32) for size in range(1, 17) for _ in range(4)]
        share(team, work)
        held.clear()

    def do(team: Team, work: Callable[[int], object], *_: object) -> bool:
        team.share(work)
        return True

    with ExitStack() as stack:
        for where, name in (
            (partition, "APART_FLOPS"),
            (launch, "TOGETHER_FLOPS"),
            (launch, "APART_FLOATS"),
        ):
            stack.enter_context(patch.object(where, name, 0))
        stack.enter_context(patch.object(Team, "share", crowded))
        stack.enter_context(patch.object(Team, "do", do))
        yield


@dataclass(frozen=True)
class Given:
    """A shipped model's instances, as lines, in INPUTS parts."""

    spec: Path
    lines: Sequence[str]

    def model(self, threads: int) -> LoadedModel:
        return load(self.spec, dims={"hidden": 6}, batch=5, threads=threads, policy="sufficient")

    def of(self, number: int, count: int) -> list[str]:
        """The instances of an input."""
        return [self.lines[(number * count + i) % len(self.lines)] for i in range(count)]


def given(name: str, data: str) -> Given:
    lines = (ROOT / "specs/data" / data).read_text().splitlines()
    return Given(ROOT / f"specs/{name}.yaml", [line for line in lines if line])


def written(outputs: Outputs) -> bytes:
    return b"".join(array.tobytes() for name in outputs for array in outputs[name])


def calls(name: str, data: str, count: int) -> Callable[[int, Path], Run]:
    """A model called on some instances: of more than 5 mini-batches run side by side."""

    def made(threads: int, folder: Path) -> Run:
        source = given(name, data)
        model = source.model(threads)
        return lambda number: written(model(source.of(number, count)))

    return made


def streams(threads: int, folder: Path) -> Run:
    """A file read ahead and run piece by piece."""
    source = given("drnn", "tags.txt")
    model = source.model(threads)
    for number in range(INPUTS):
        (folder / f"{number}.txt").write_text("\n".join(source.of(number, 23)) + "\n")
    return lambda number: b"".join(map(written, model.stream(folder / f"{number}.txt")))


def trainings(threads: int, folder: Path) -> Run:
    """An epoch from the same weights: planning beside execution, sums of gradients, weights packed."""
    source = given("sst", "trees.txt")
    trainer = source.model(threads).trainer()
    learner, begin = trainer.learner, trainer.flat.copy()

    def run(number: int) -> bytes:
        trainer.flat[:] = begin
        learner.stepper = Stepper(learner.training.optimizer, learner.params, len(learner.params.values))
        trainer.changed()
        trainer.fit(source.of(number, 12), epochs=1)
        return trainer.flat.tobytes()

    return run


def programs(threads: int, folder: Path) -> Run:
    """A parser that decides what it computes next."""
    path = ROOT / "specs/programs/parser.py"
    found = importlib.util.spec_from_file_location(f"parser_of_{threads}", path)
    assert found is not None and found.loader is not None
    module: Any = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    library = path.with_suffix(".yaml")
    module.net = abw.cells(library, dims={"hidden": 6}, allow_outside=True, threads=threads)

    def run(number: int) -> bytes:
        draw = np.random.default_rng(number)
        sentences = [draw.integers(0, 9, draw.integers(1, 8)).tolist() for _ in range(6)]
        results = module.net.run(module.parse, sentences)
        return b"".join(bytes(actions) + value.tobytes() for actions, value in results)

    return run


def servings(threads: int, folder: Path) -> Run:
    """Requests that run together."""
    source = given("seq2seq", "pairs.txt")
    engine = Engine(source.model(threads), 5, 200)

    def run(number: int) -> bytes:
        requests = {}
        for i in range(3):
            texts = source.of(number + i, 3)
            requests[i] = Request(LINES, False, texts, range(1, len(texts) + 1))
        replies = {i: reply.body for i, reply, _ in filter(None, engine.run(requests))}
        return b"".join(replies[i] for i in sorted(replies))

    return run


WORKS: Mapping[str, Callable[[int, Path], Run]] = {
    "a model that grows": calls("seq2seq", "pairs.txt", 5),
    "one that grows, side by side": calls("drnn", "tags.txt", 12),
    "a beam": calls("beam", "pairs.txt", 4),
    "trees": calls("treelstm", "trees.txt", 5),
    "trees, side by side": calls("treelstm", "trees.txt", 12),
    "a tree alone": calls("treelstm", "trees.txt", 1),
    "programs": programs,
    "streams": streams,
    "trainings": trainings,
    "serving": servings,
}


def differs(run: Run, number: int, right: bytes) -> str:
    """How a run is not what it should be; '' where it is."""
    try:
        return "" if run(number) == right else "other bytes"
    except Exception as error:  # whatever comes of wrong numbers
        return repr(error)


def compare(folder: Path, runs: int, threads: Sequence[int] = THREADS) -> Tally:
    """So many runs of all works in turns, at so many threads in turns, each beside one thread's bytes."""
    tally, cases = Tally(), list(product(WORKS, threads))

    @cache
    def run_of(name: str, count: int) -> Run:
        return WORKS[name](count, folder)

    @cache
    def right(name: str, number: int) -> bytes:
        return run_of(name, 1)(number)

    with shared(), spoilt():
        for turn in range(runs):
            name, count = cases[turn % len(cases)]
            number = turn // len(cases) % INPUTS
            tally.ends[f"{name}, {count} threads"] += 1
            if said := differs(run_of(name, count), number, right(name, number)):
                tally.wrong.append(f"{name}, {count} threads, input {number}, run {turn}: {said}")
                print(f"WRONG {tally.wrong[-1]}", file=sys.stderr, flush=True)
            if turn % 500 == 499:
                print(f"{turn + 1} of {runs}, {len(tally.wrong)} wrong", file=sys.stderr, flush=True)
    return tally
