"""The generated module: each step as a device function, a kernel a step, and one for whole plans."""

from __future__ import annotations

import hashlib
import linecache
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from abw.core.exec.cuda.backend import Kernels
from abw.core.exec.cuda.image import HEADER, ITEM
from abw.core.exec.cuda.text.text import Text, constants, u
from abw.core.exec.cuda.tiles import Forms

HEAD = '''"""Kernels of one network, generated: a change here is lost."""

import numpy as np
from numba import cuda, float32, uint32

from abw.core.exec.cuda.ondevice.functions import exp, gelu, larger, log, row, sigmoid, tanh
from abw.core.exec.cuda.ondevice.intrinsics import (
    arrive,
    await_blocks,
    copy4,
    end_copies,
    few_copies_left,
    ld2,
    ld4,
    mma,
    split,
    sqrt,
    st4,
)
from abw.core.exec.cuda.ondevice.tilewalk import lay_ready, next_tile, own_tile
'''


@dataclass(frozen=True, slots=True)
class StepText:
    """A function `step`, the `epilogue` that it calls if there is one, and the floats of shared memory it
    needs. `staging`: the words that must be laid ready for it, of a step whose weights are held; else 0."""

    step: str
    epilogue: str = ""
    shared: int = 1
    staging: int = 0


@dataclass(frozen=True, slots=True)
class HoldText:
    """The function `hold` that brings a step's weights from float `first` on into shared memory, from float
    `place` on."""

    hold: str
    first: int
    place: int


def module_text(steps: Sequence[StepText], parts: Sequence[StepText], holds: Sequence[HoldText]) -> str:
    """The module of the steps that are kernels, and of those that the plan's kernel is made of.

    `holds`: which weights the plan's kernel holds. Tiles of different forms share what they do with their
    sums.
    """
    t = Text()
    texts = dict.fromkeys(s.epilogue for s in (*steps, *parts) if s.epilogue)
    epilogue = {text: f"epilogue{n}(" for n, text in enumerate(texts)}
    for text, name in epilogue.items():
        _function(t, text.replace("epilogue(", name, 1))
    for kind, several in (("step", steps), ("part", parts)):
        for number, step in enumerate(several):
            text = step.step.replace("def step(", f"def {kind}{number}(", 1)
            _function(t, text.replace("epilogue(", epilogue.get(step.epilogue, "")))
    for number, step in enumerate(steps):
        t.add("", "", "@cuda.jit")
        with t.block(f"def batch{number}(words, at, floats, weights)"):
            t.add(f"shared = cuda.shared.array({step.shared}, float32)")
            t.add(f"step{number}(words, at, uint32(cuda.blockIdx.x), floats, weights, shared)")
    t.add("", "")
    _plan(t, parts, holds)
    body = str(t)
    return "\n".join([HEAD, *constants(body)]) + "\n" + body


def _function(t: Text, text: str) -> None:
    t.add("", "", "@cuda.jit(device=True)")
    t.add(*text.rstrip("\n").split("\n"))


def _plan(t: Text, parts: Sequence[StepText], holds: Sequence[HoldText]) -> None:
    """All phases: each block takes its tiles, says when it is done with them, and goes on when all are.

    Each phase has a counter of its own: a block without a tile in it neither waits nor keeps others waiting.
    """
    texts = dict.fromkeys(hold.hold for hold in holds)
    number = {text: n for n, text in enumerate(texts)}
    for text, n in number.items():
        _function(t, text.replace("def hold(", f"def hold{n}(", 1))
    t.add("", "", "@cuda.jit")
    with t.block("def plan(words, floats, weights, counters)"):
        t.add("shared = cuda.shared.array(0, float32)  # as much as the launch says")
        t.add(f"staging = cuda.shared.array({max([1, *(part.staging for part in parts)])}, uint32)")
        t.let(f"phases = words[{u(0)}]", f"items = words[{u(2)}]", "blocks = cuda.gridDim.x")
        t.let("block = cuda.blockIdx.x")
        for hold in holds:
            t.add(f"hold{number[hold.hold]}(weights, {u(hold.first)}, {u(hold.place)}, shared)")
        t.let(f"phase = {u(0)}", "begin = items", f"end = items + words[{u(HEADER + 1)}] * {u(ITEM)}")
        with t.block("while phase < phases"):
            # a phase ahead: what waits for the word then has it
            t.let(f"ahead = items + words[{u(HEADER + 2)} + phase] * {u(ITEM)}")
            t.add("at, tile = own_tile(words, begin, end, block, blocks)", f"missing = phase > {u(0)}")
            with t.block("while at < end"):
                t.add("lay_ready(words, at, tile, staging)")
                t.let("kernel = words[at]")
                t.add("later = next_tile(words, at, tile, end, block, blocks)")
                with t.block("if missing"):
                    t.add(f"await_blocks(counters, phase - {u(1)}, blocks)", "missing = False")
                t.add("cuda.syncthreads()  # the staging buffer is filled, the phases before are over")
                for n, part in enumerate(parts):
                    with t.block(f"{'el' if n else ''}if kernel == {u(n)}"):
                        if part.staging:
                            t.add(f"part{n}(staging, tile, floats, weights, shared)")
                        else:
                            t.add(f"part{n}(words, at, tile, floats, weights, shared)")
                t.add("cuda.syncthreads()  # the tile is done")
                t.add("at, tile = later")
            t.add("arrive(counters, phase)")
            t.let(f"phase = phase + {u(1)}", "begin = end", "end = ahead")


def load_kernels(text: str, forms: Forms, plan_shared: int) -> Kernels:
    """The kernels of a generated text; nothing is compiled yet."""
    name = f"<abw cuda {hashlib.sha256(text.encode()).hexdigest()[:16]}>"
    # numba and tracebacks find the text here, as they would in a file
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    module: dict[str, Any] = {"__name__": __name__}
    exec(compile(text, name, "exec"), module)
    count = text.count("\ndef batch")
    batch = tuple(module[f"batch{k}"] for k in range(count))
    return Kernels(batch, module["plan"], forms.batch.threads, forms.plan.threads, plan_shared, text)
