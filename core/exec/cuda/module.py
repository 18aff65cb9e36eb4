"""The generated module: each step as a device function, a kernel a step, and one for whole plans."""

from __future__ import annotations

import hashlib
import linecache
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from abw.core.exec.cuda.backend import Kernels
from abw.core.exec.cuda.image import HEADER, ITEM
from abw.core.exec.cuda.text import Text, constants, u
from abw.core.exec.cuda.tiles import Forms

HEAD = '''"""Kernels of one network, generated: a change here is lost."""

import numpy as np
from numba import cuda, float32, uint32

from abw.core.exec.cuda.functions import exp, larger, relu, row, sigmoid, tanh
from abw.core.exec.cuda.intrinsics import (
    copy4,
    end_copies,
    few_copies_left,
    grid_barrier,
    ld2,
    ld4,
    mma,
    split,
    st4,
)
'''


@dataclass(frozen=True, slots=True)
class StepText:
    """A function `step`, the `finish` that it calls if there is one, and the floats of shared memory it
    needs."""

    step: str
    finish: str = ""
    shared: int = 1


def module_text(steps: Sequence[StepText], parts: Sequence[StepText]) -> str:
    """The module of the steps that are kernels, and of those that the plan's kernel is made of.

    Tiles of different forms share what they do with their sums.
    """
    t = Text()
    texts = dict.fromkeys(s.finish for s in (*steps, *parts) if s.finish)
    finish = {text: f"finish{n}(" for n, text in enumerate(texts)}
    for text, name in finish.items():
        _function(t, text.replace("finish(", name, 1))
    for kind, several in (("step", steps), ("part", parts)):
        for number, step in enumerate(several):
            text = step.step.replace("def step(", f"def {kind}{number}(", 1)
            _function(t, text.replace("finish(", finish.get(step.finish, "")))
    for number, step in enumerate(steps):
        t.add("", "", "@cuda.jit")
        with t.block(f"def batch{number}(words, at, floats, weights)"):
            t.add(f"shared = cuda.shared.array({step.shared}, float32)")
            t.add(f"step{number}(words, at, uint32(cuda.blockIdx.x), floats, weights, shared)")
    t.add("", "")
    _plan(t, len(parts))
    body = str(t)
    return "\n".join([HEAD, *constants(body)]) + "\n" + body


def _function(t: Text, text: str) -> None:
    t.add("", "", "@cuda.jit(device=True)")
    t.add(*text.rstrip("\n").split("\n"))


def shared_bytes(parts: Sequence[StepText]) -> int:
    """The dynamic shared memory that the plan's kernel needs."""
    return 4 * max((part.shared for part in parts), default=1)


def _plan(t: Text, parts: int) -> None:
    """All phases: each block takes every so-manieth tile, then all meet."""
    t.add("@cuda.jit")
    with t.block("def plan(words, floats, weights, counter)"):
        t.add("shared = cuda.shared.array(0, float32)  # as much as the launch says")
        t.let(f"phases = words[{u(0)}]", f"items = words[{u(2)}]", "blocks = cuda.gridDim.x")
        t.let(f"phase = {u(0)}")
        with t.block("while phase < phases"):
            t.let(f"at = items + words[{u(HEADER)} + phase] * {u(ITEM)}")
            t.let(f"end = items + words[{u(HEADER + 1)} + phase] * {u(ITEM)}")
            t.let("tile = cuda.blockIdx.x")
            with t.block("while at < end"):
                t.let("kernel = words[at]")
                t.let(f"before = words[at + {u(2)}]", f"after = before + words[at + {u(3)}]")
                with t.block("while tile < after"):
                    t.let("own = tile - before")
                    for number in range(parts):
                        with t.block(f"{'el' if number else ''}if kernel == {u(number)}"):
                            t.add(f"part{number}(words, at, own, floats, weights, shared)")
                    t.let("tile = tile + blocks")
                t.let(f"at = at + {u(ITEM)}")
            t.let(f"phase = phase + {u(1)}")
            with t.block("if phase < phases"):
                t.add("grid_barrier(counter, uint32(phase * blocks))")


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
