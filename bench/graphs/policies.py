"""Learning time and batches of every workload, beside the paper's Table 4."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from abw.bench.graphs.quality import of_families, of_unseen
from abw.bench.options import SPECS, Batch, DataDir, Runs, SpecsDir, Workloads
from abw.bench.rows import Row, Rows
from abw.bench.systems import chosen_cases
from abw.bench.timing import cpu_seconds
from abw.bench.workloads import Case, open_case
from abw.core.policy.learned.states import ENCODINGS, Encoding

if TYPE_CHECKING:
    from abw.core.policy.learned.fsm import FsmPolicy
    from abw.core.run.workload import Workload

HEURISTICS = ("depth", "agenda", "agenda-static", "sufficient", "critical", "critical-free")

PAPER = {
    # Table 4 of the paper: seconds, trials
    "TreeLSTM": (0.154, 50),
    "TreeGRU": (0.141, 50),
    "MV-RNN": (0.254, 50),
    "TreeLSTM-2Type": (2.217, 1000),
    "BiLSTM-Tagger": (1.629, 50),
    "BiLSTM-Tagger-withchar": (6.268, 50),
    "LatticeLSTM": (21.733, 1000),
    "LatticeGRU": (4.911, 1000),
}


def policies(
    data: DataDir,
    specs: SpecsDir = SPECS,
    batch: Batch = 64,
    train: Annotated[
        int, typer.Option("--train-limit", min=1, metavar="N", help="Instances to learn from.")
    ] = 32,
    granularity: Annotated[
        Literal["cell", "op"], typer.Option("--granularity", help="Whether a node is a cell or an operation.")
    ] = "cell",
    runs: Runs = 3,
    families: Annotated[
        bool, typer.Option("--families", help="Use families of graphs with 3 to 300 types instead.")
    ] = False,
    unseen: Annotated[bool, typer.Option("--unseen", help="Use unseen data instead.")] = False,
    workloads: Workloads = None,
    mini_batches: Annotated[
        int,
        typer.Option("--mini-batches", min=1, metavar="N", help="With these two: number of mini-batches."),
    ] = 4,
    launch: Annotated[
        float, typer.Option("--launch", metavar="US", help="With these two: cost of a batch in microseconds.")
    ] = 20.0,
    named: Annotated[
        str | None, typer.Option("--family", metavar="TEXT", help="Only families whose names contain TEXT.")
    ] = None,
) -> Rows:
    """Count batches by policy and time learning, for all workloads of the paper.

    Means over the first four mini-batches. FSMs are learned from the first instances, in CPU time; none
    at granularity op, whose types give too many states.
    """
    from abw.core.graph.bounds import lower_bound
    from abw.core.policy.registry import get_policy

    if families:
        yield from of_families(data, batch, launch * 1e-6, mini_batches, named)
        return
    cases = chosen_cases(workloads)
    if unseen:
        yield from of_unseen(specs, data, cases, granularity, batch, launch * 1e-6, mini_batches)
        return
    for chosen in cases:
        workload = open_case(chosen, specs, data, max(4 * batch, train), granularity)
        dags = [workload.graph(first, first + batch).dag for first in range(0, 4 * batch, batch)]
        found = {name: get_policy(name) for name in HEURISTICS} | (
            {f"fsm-{e}": _learned(workload, train, e) for e in ENCODINGS} if granularity == "cell" else {}
        )
        yield Row(
            "batches",
            workload=chosen.name,
            nodes=sum(map(len, dags)) / 4,
            bound=sum(int(lower_bound(dag).sum()) for dag in dags) / 4,
            **{name: sum(len(policy.schedule(dag)) for dag in dags) / 4 for name, policy in found.items()},
        )
        if granularity == "cell":
            yield from learning_rows("learning", chosen, workload, train, runs)


def learning_rows(table: str, chosen: Case, workload: Workload, train: int, runs: int) -> Rows:
    """What learning from the first `train` instances takes and reaches, by encoding."""
    from abw.core.graph.bounds import lower_bound

    dag = workload.graph(0, train).dag
    seconds, trials = PAPER.get(chosen.name, (None, None))
    for encoding in ENCODINGS:
        policy = _learned(workload, train, encoding)
        yield Row(
            table,
            workload=chosen.name,
            encoding=encoding,
            nodes=len(dag),
            bound=int(lower_bound(dag).sum()),
            batches=policy.training.batches,
            trials=policy.training.trials,
            states=len(policy.states),
            learning_seconds=cpu_seconds(partial(_learned, workload, train, encoding), runs),
            paper_seconds=seconds,
            paper_trials=trials,
        )


def _learned(workload: Workload, train: int, encoding: Encoding) -> FsmPolicy:
    from abw.core.policy.learned.learner import learn

    return learn(workload.graph(0, train).dag, encoding=encoding, seed=0)
