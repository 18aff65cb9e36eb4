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

from abw.core.exec.cuda.ondevice.functions import (
    exp, floor, gelu, larger, log, next_tile, own_tile, row, sigmoid, tanh
)
from abw.core.exec.cuda.ondevice.intrinsics import (
    arrive, await_blocks, copy4, end_copies, few_copies_left, ld2, ld4, mma, split, sqrt, st4
)
'''


@dataclass(frozen=True, slots=True)
class StepText:
    """A function `step`, the `epilogue` that it calls if there is one, and the floats of shared memory it
    needs."""

    step: str
    epilogue: str = ""
    shared: int = 1


def module_text(steps: Sequence[StepText], parts: Sequence[StepText]) -> str:
    """The module of the steps that are kernels, and of those that the plan's kernel is made of.

    Tiles of different forms share what they do with their sums.
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
    _plan(t, parts)
    body = str(t)
    return "\n".join([HEAD, *constants(body)]) + "\n" + body


def _function(t: Text, text: str) -> None:
    t.add("", "", "@cuda.jit(device=True)")
    t.add(*text.rstrip("\n").split("\n"))


def _plan(t: Text, parts: Sequence[StepText]) -> None:
    """All phases: each block takes its tiles, says when it is done with them, and goes on when all are.

    Each phase has a counter of its own: a block without a tile in it neither waits nor keeps others waiting.
    """
    t.add("@cuda.jit")
    with t.block("def plan(words, floats, weights, counters)"):
        t.add("shared = cuda.shared.array(0, float32)  # as much as the launch says")
        t.let(f"phases = words[{u(0)}]", f"items = words[{u(2)}]", "blocks = cuda.gridDim.x")
        t.let("block = cuda.blockIdx.x")
        t.let(f"phase = {u(0)}", "begin = items", f"end = items + words[{u(HEADER + 1)}] * {u(ITEM)}")
        with t.block("while phase < phases"):
            # a phase ahead: what waits for the word then has it
            t.let(f"ahead = items + words[{u(HEADER + 2)} + phase] * {u(ITEM)}")
            t.add("at, tile = own_tile(words, begin, end, block, blocks)")
            with t.block(f"if at < end and phase > {u(0)}"):
                t.add(f"await_blocks(counters, phase - {u(1)}, blocks)")
                t.add("cuda.syncthreads()  # the phases before are over")
            with t.block("while at < end"):
                t.let("kernel = words[at]")
                for n in range(len(parts)):
                    with t.block(f"{'el' if n else ''}if kernel == {u(n)}"):
                        t.add(f"part{n}(words, at, tile, floats, weights, shared)")
                t.add("cuda.syncthreads()  # the tile is done")
                t.add("at, tile = next_tile(words, at, tile, end, block, blocks)")
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
