"""Compiled kernels in a program of their own: a driver in C lets several threads run them on given arrays."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from unittest.mock import Mock, patch

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.cpu import prepare
from abw.core.exec.cpu.executor import CpuExecutor
from abw.core.exec.cpu.launch import arrays_of
from abw.core.exec.cpu.llvm.emit import Module
from abw.core.exec.cpu.llvm.walker import OF_EXECUTOR
from abw.core.exec.cpu.llvm.weight_grads import JOB, emit_sums
from abw.core.exec.cpu.partition import sort
from abw.core.exec.cpu.target import Target
from abw.core.exec.interface import Result
from abw.core.exec.params import Params
from abw.core.graph.graph import Graph
from abw.core.ir.network import Network
from abw.core.plan.plan import Plan, plan, results_of
from abw.core.policy.rules.sufficient import Sufficient
from abw.core.run.workload import open_model, open_networks, open_workload, read_instances
from abw.core.spec.load import Overrides
from tests.conftest import ROOT

DRIVER = """
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
%(declared)s
static void *kernels[] = {%(kernels)s};
static struct { int64_t arrays, moves, threads, first, last, sections, parts; } head;
static char **at; /* the arrays */
static pthread_barrier_t all; /* nobody has done everything before others begin */
static void *work(void *number) {
  int64_t i = (int64_t)number;
  pthread_barrier_wait(&all);
  %(work)s
  return 0;
}
int main(int count, char **names) {
  FILE *file = fopen(names[1], "rb");
  if (fread(&head, sizeof head, 1, file) != 1) return 2;
  int64_t *size = calloc(head.arrays, 8), (*moves)[4] = calloc(head.moves, 32);
  at = calloc(head.arrays, sizeof *at);
  if (fread(size, 8, head.arrays, file) != head.arrays) return 3;
  if (fread(moves, 32, head.moves, file) != head.moves) return 3;
  for (int64_t a = 0; a < head.arrays; a++)
    if (posix_memalign((void **)&at[a], 64, size[a]) || fread(at[a], 1, size[a], file) != size[a]) return 4;
  for (int64_t (*m)[4] = moves; m < moves + head.moves; m++)
    ((void **)at[(*m)[0]])[(*m)[1]] = (*m)[3] ? kernels[(*m)[2]] : at[(*m)[2]];
  %(before)s
  pthread_t others[16];
  pthread_barrier_init(&all, 0, head.threads);
  for (int64_t i = 1; i < head.threads; i++)
    if (pthread_create(&others[i], 0, work, (void *)i)) return 5;
  work(0);
  for (int64_t i = 1; i < head.threads; i++) pthread_join(others[i], 0);
  file = fopen(names[2], "wb");
  for (int64_t a = 0; a < head.arrays; a++)
    if (fwrite(at[a], 1, size[a], file) != size[a]) return 6;
  return fclose(file);
}
"""


WALK = """
void walk(void *, void *, int64_t, int64_t, int64_t, int64_t, void *, void *);
void walk_parts(void *, void *, void *, int64_t, int64_t, void *, void *, void *);
"""
# Its arrays are the table, the split, the sections, counters, each thread's scratch, and what these name.
WORK = """
  int64_t *counters = (int64_t *)at[3];
  if (head.parts)
    walk_parts(at[0], at[4 + i], at[2], head.sections, head.parts, at[1], counters + 1, counters);
  else
    walk(at[0], at[4 + i], head.first, head.last, i, head.threads, 0, counters);
"""

Arrays = Sequence[NDArray[np.generic]]
# The 64-bit word of an array (the first two) that is to name an array, or a kernel.
Move = tuple[int, int, int, bool]


class Program:
    """A program of machine code for `target` and the driver; its files lie in `folder`."""

    def __init__(self, target: Target, folder: Path) -> None:
        self.target, self.folder = target, folder

    def link(self, text: str) -> None:
        """Make `work` of `driver.c` and a module's IR."""
        raise NotImplementedError

    def start(self) -> list[str]:
        """The command that starts it."""
        return ["./work"]

    def make(
        self, text: str, declared: str, work: str, kernels: Sequence[str] = (), before: str = ""
    ) -> None:
        """Compile and link a module's IR. `work` is what each thread does, `before` what is done first."""
        given = {"declared": declared, "work": work, "before": before, "kernels": ", ".join(kernels) or "0"}
        (self.folder / "driver.c").write_text(DRIVER % given)
        self.link(text)

    def run(self, arrays: Arrays, moves: Sequence[Move], threads: int, *rest: int) -> list[bytes]:
        """The arrays after the work; `rest` is that of the driver's `head`. Raises CalledProcessError."""
        sizes = [array.nbytes for array in arrays]
        head = [len(arrays), len(moves), threads, *rest, *sizes]
        words = np.array([*head, *(word for move in moves for word in move)], np.int64)
        content = b"".join([words.tobytes(), *(array.tobytes() for array in arrays)])
        (self.folder / "before").write_bytes(content)
        subprocess.run([*self.start(), "before", "after"], cwd=self.folder, check=True, capture_output=True)
        after = (self.folder / "after").read_bytes()
        return [after[first:last] for first, last in pairwise(np.cumsum([0, *sizes]).tolist())]


def trees(spec: str, parts: int = 0) -> tuple[Graph, Plan]:
    """Real trees; their plan, in `parts` if there are any, with sections: memory that is given again."""
    model = open_model(ROOT / "specs" / f"{spec}.yaml", Overrides(dims={"hidden": 20}))
    networks = open_networks(model, "cell")
    graph = open_workload(model, read_instances(model.data, 6), networks).graph(0, 6)
    schedule = Sufficient().schedule(graph.dag)
    if parts:
        found = sort(graph, schedule, parts)
        assert found is not None
        schedule = found
    planned = plan(graph, schedule, results_of(graph))
    assert len(planned.sections) > 2
    return graph, planned


def kept_error(planned: Plan, result: Result, expected: Result) -> float:
    """The largest difference of values whose memory was not given again."""
    kept = np.flatnonzero(planned.row >= 0).reshape(-1, 1)
    return float(np.max([abs(result.values(value) - expected.values(value)).max() for value in kept]))


class OutsideExecutor(CpuExecutor):
    """Hands a plan and all that it names, array by array, to a program whose threads walk it: together, or by
    the parts of the schedule.
    """

    def __init__(self, program: Program, threads: int = 2, *, early: bool = False) -> None:
        """`early`: the sections are given back before threads read them."""
        super().__init__("plain")
        self._target, self._program, self._walkers, self._early = program.target, program, threads, early

    def prepare(self, network: Network, params: Params, threads: int | None = 1) -> None:
        """Compile and link."""
        with patch.object(prepare, "compile_ir", lambda *_: Mock(address=lambda _: 0)):
            super().prepare(network, params, threads)
        self._launcher.alone = self._alone  # type: ignore[method-assign]
        text, names, _ = prepare.emit_network(network, self._target, None)
        declared = WALK + "".join(f"void {name}();\n" for name in dict.fromkeys(names))
        self._program.make(text, declared, WORK, names, "free(at[2]);" if self._early else "")

    def _alone(self, plan: Plan, first: int, last: int) -> None:
        split = plan.schedule.split
        inside = plan.sections[(first < plan.sections) & (plan.sections < last)]
        sections = np.array([first, *inside, last], np.int32)
        arrays: list[NDArray[np.generic]] = [
            self._launcher.table.words,
            np.zeros(0, np.int32) if split is None else split,
            sections,
            np.zeros(len(sections), np.int64),
            *[self._launcher.scratch[0].owner] * self._walkers,
        ]

        def put(array: NDArray[np.generic]) -> int:
            arrays.append(array)
            return len(arrays) - 1

        moves: list[Move] = []
        arenas = [put(memory) for memory in self._memory.memory]
        places = [put(array) for array in arrays_of(plan, self._arenas)]
        own = {name: table.words for name, table in self._launcher.tables.items()}
        own |= {"pitch": self._memory.pitch, "by_column": self._launcher.by_column}
        for name in OF_EXECUTOR:
            places.append(put(own[name]))
            pointed = {"arena": arenas, "constants": [put(c) for c in self._constants.memory]}.get(name, [])
            if name == "kernel":
                pointed = list(range(len(own[name])))
            moves += [(places[-1], word, target, name == "kernel") for word, target in enumerate(pointed)]
        moves += [(0, word, place, False) for word, place in enumerate(places)]
        parts = 0 if split is None else split.shape[1] - 1
        after = self._program.run(arrays, moves, self._walkers, first, last, len(sections) - 1, parts)
        for memory, arena in zip(self._memory.memory, arenas, strict=True):
            memory[:] = np.frombuffer(after[arena], memory.dtype)


def summed(program: Program, threads: int) -> None:
    """Sum gradients of weights, as trainings do: the parts of products, and columns; NumPy has the same."""
    module = Module(program.target)
    emit_sums(module)
    work = "sums(at[0], head.last, head.parts, at[1]);"
    program.make(module.text(), "void sums(void *, int64_t, int64_t, void *);", work)
    rng, lanes = np.random.default_rng(0), program.target.lanes
    n, m, c = 300, 50, 37
    z, x = (rng.standard_normal((40, floats + lanes), np.float32) for floats in (m, c))
    z_rows, x_rows = (rng.integers(0, 40, n).astype(np.int32) for _ in range(2))
    product, columns = np.zeros((m, c), np.float32), np.zeros(m, np.float32)
    ones, first = np.ones(lanes, np.float32), np.zeros(1, np.int32)
    jobs = [
        [0, product.strides[0], 0, 0, 4, z.strides[0], 0, 0, 4, x.strides[0], n, m, c],
        [0, 0, 0, 0, 0, 0, 0, 0, 4, z.strides[0], n, 1, m],
    ]
    arrays = [np.array(jobs), np.zeros(1, np.int64), product, columns, z, z_rows, x, x_rows, ones, first]
    named = {"dw": 2, "z": 4, "z_rows": 5, "x": 6, "x_rows": 7}
    moves = [(0, JOB.index(name), number, False) for name, number in named.items()]
    columns_named = {"dw": 3, "z": 8, "z_rows": 9, "x": 4, "x_rows": 5}
    moves += [(0, len(JOB) + JOB.index(name), number, False) for name, number in columns_named.items()]
    after = program.run(arrays, moves, threads, 0, len(jobs), 0, threads)
    wanted = z[z_rows, :m].T.astype(np.float64) @ x[x_rows, :c]
    np.testing.assert_allclose(np.frombuffer(after[2], np.float32).reshape(m, c), wanted, atol=1e-3)
    wanted = z[z_rows, :m].sum(axis=0, dtype=np.float64)
    np.testing.assert_allclose(np.frombuffer(after[3], np.float32), wanted, atol=1e-3)
