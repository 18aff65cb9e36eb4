"""What compiled rounds take beside their kernels."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from abw.bench.growth.growing import Growing
from abw.core.exec.cpu.llvm.compiled import compile_ir
from abw.core.exec.cpu.llvm.emit import Module, number
from abw.core.exec.cpu.packing import address, aligned
from abw.core.exec.cpu.rounds.best import Best, whole
from abw.core.exec.cpu.rounds.choices import argmax
from abw.core.exec.cpu.rounds.state import StateFunction, Words
from abw.core.exec.cpu.target import get_target

AGAIN = 2000


def overhead(spec: Path, data: Path, runs: int) -> dict[str, Any]:
    """Seconds a round and a node of rounds whose kernels do nothing: one thread's CPU time, medians.

    Greedy decoding of few words, whose rounds decide as they did with kernels: the scores are there still.
    Mini-batches of one and of up to 64 give two equations in what a round takes, and what a node.
    """
    growing = Growing(spec, data, 64, {"hidden": 16, "embed": 16, "vocabulary": 8})
    one, many = (_taken(growing, batch, runs) for batch in (1, len(growing.workload.instances)))
    determinant = one["rounds"] * many["nodes"] - many["rounds"] * one["nodes"]
    a_round = (one["seconds"] * many["nodes"] - many["seconds"] * one["nodes"]) / determinant
    a_node = (many["seconds"] * one["rounds"] - one["seconds"] * many["rounds"]) / determinant
    return {"round": a_round, "node": a_node, "rows": [one, many]}


def _taken(growing: Growing, batch: int, runs: int) -> dict[str, Any]:
    made = growing.grown(0, batch)
    found = []
    for _ in range(runs):
        growing.grown(0, batch)
        with growing.without_kernels():
            found.append(growing.seconds(0, batch))
    nodes = growing.nodes(made)
    return {"batch": batch, "rounds": made.rounds, "nodes": nodes, "seconds": median(found)}


def score_seconds(words: int, runs: int) -> dict[str, float]:
    """Seconds a score, the row being in the cache: of choosing the largest of so many, the four largest, and
    of what a softmax divides them by.
    """

    def four(f: StateFunction, scores: str) -> None:
        best = Best(f, words, 4)

        def find(_: str) -> None:
            best.find(scores)
            f.set("chosen", best.number(3))

        f.repeat(AGAIN, find)

    def divide(f: StateFunction, scores: str) -> None:
        chosen = f.words["chosen"]
        f.repeat(AGAIN, lambda _: f.put("double", whole(f, scores, words, number(1.0)), "%state", chosen))

    choices: dict[str, Callable[[StateFunction, str], None]] = {
        "argmax": lambda f, scores: f.repeat(AGAIN, lambda _: f.set("chosen", argmax(f, scores, words))),
        "best": four,
        "softmax": divide,
    }
    return {name: _score_seconds(choice, words, runs) for name, choice in choices.items()}


def _score_seconds(choice: Callable[[StateFunction, str], None], words: int, runs: int) -> float:
    target, names = get_target(), Words()
    module = Module(target)
    f = StateFunction(module, "choose", names)
    scores = f.address("scores")
    choice(f, scores)
    module.add(f)
    code = compile_ir(module.text(), target)
    choose = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address("choose"))
    row = aligned(words + target.lanes)
    row[:words] = np.random.default_rng(0).random(words)
    state = np.zeros(len(names.place), np.int64)
    state[names["scores"]] = address(row)
    found = []
    for _ in range(runs):
        start = time.thread_time()
        choose(address(state))
        found.append(time.thread_time() - start)
    return median(found) / AGAIN / words
