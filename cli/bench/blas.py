"""Our executor `blas` beside PyTorch batched by hand: a TreeLSTM on real trees, level by level."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from abw.cli.bench.timing import interleaved
from abw.cli.bench.workloads import case
from abw.core.errors import AbwError

if TYPE_CHECKING:
    from abw.core.exec.params import Params
    from abw.core.plan.plan import Plan

TOLERANCE = 1e-4
"""How far the outputs of the two, both of order 1 and in float32, may be apart."""

GATES = ("i", "l", "r", "o", "u")


class Contender(Protocol):
    """One way to compute the same mini-batch again and again."""

    def run(self) -> None:
        """Compute it."""

    def outputs(self) -> NDArray[Any]:
        """The classes of the last run, in the order of the nodes."""


def bench_blas(
    data: Path, hidden: list[int], batch: int, runs: int, specs: Path = Path("specs")
) -> dict[str, Any]:
    """One thread, thread CPU time, medians of `runs` interleaved runs; `ratio` is torch's best over ours.

    All run the same batches (leaves, inner nodes by height, all outputs at once) with the same weights and
    indices computed before. Errors: AbwError where PyTorch is absent, or where outputs differ.
    """
    torch = import_torch()
    torch.set_num_threads(1)
    rows = []
    for size in hidden:
        planned, params = mini_batch("TreeLSTM", specs, data, batch, size)
        contenders: dict[str, Contender] = {
            "blas": Ours("blas", planned, params),
            "torch_split": ByLevel(torch, planned, params, dense=False),
            "torch_dense": ByLevel(torch, planned, params, dense=True),
        }
        refuse_different(contenders, "blas", size)
        seconds = interleaved({name: c.run for name, c in contenders.items()}, runs)
        rows.append(
            {
                "hidden": size,
                "nodes": len(planned.graph),
                "batches": len(planned.schedule),
                "product_gflop": planned.product_flops / 1e9,
                **{f"{name}_ms": taken * 1e3 for name, taken in seconds.items()},
                "ratio": min(seconds["torch_split"], seconds["torch_dense"]) / seconds["blas"],
            }
        )
    return {"schema_version": 1, "batch": batch, "runs": runs, "threads": 1, "rows": rows}


def import_torch() -> Any:  # noqa: ANN401 (a module)
    """PyTorch. Errors: AbwError where it is absent."""
    try:
        import torch
    except ImportError:
        raise AbwError(
            "this benchmark compares with PyTorch, which is not installed",
            hint="pip install torch (the build for the CPU is enough)",
        ) from None
    return torch


def mini_batch(name: str, specs: Path, data: Path, batch: int, hidden: int) -> tuple[Plan, Params]:
    """The first mini-batch of a workload, scheduled by the sufficient condition. Errors: AbwError."""
    from abw.core.exec.params import init_params
    from abw.core.plan.plan import plan
    from abw.core.policy.sufficient import Sufficient
    from abw.core.spec.load import Overrides
    from abw.core.workload import load_workload, open_model

    chosen = case(name)
    overrides = Overrides(data=data / chosen.data, batch=batch, limit=batch, dims={"hidden": hidden})
    model = open_model(specs / chosen.spec, overrides)
    workload = load_workload(model, "cell")
    graph = workload.graph(0, len(workload.instances))
    return plan(graph, Sufficient().schedule(graph.dag)), init_params(workload.network, 0)


def refuse_different(contenders: Mapping[str, Contender], ours: str, size: int) -> None:
    """Run each once. Errors: AbwError where one's outputs differ from those of `ours`."""
    for contender in contenders.values():
        contender.run()
    expected = contenders[ours].outputs()
    for name, contender in contenders.items():
        worst = float(np.abs(contender.outputs() - expected).max())
        if not worst < TOLERANCE:
            raise AbwError(f"the outputs of {name} and {ours} differ by {worst:.1e} at hidden={size}")


class Ours:
    """One of our executors."""

    def __init__(self, executor: str, planned: Plan, params: Params, threads: int = 1) -> None:
        from abw.core.exec.registry import get_executor
        from abw.core.plan.plan import plan

        self._executor = get_executor(executor)
        self._executor.prepare(planned.graph.network, params, threads)
        self._plan = plan(planned.graph, self._executor.arrange(planned.graph, planned.schedule))

    def run(self) -> None:
        """See `Contender`."""
        self._result = self._executor.run(self._plan)

    def outputs(self) -> NDArray[Any]:
        """See `Contender`."""
        found: NDArray[Any] = self._result.values(self._plan.graph.results[0].reference)
        return found


class ByLevel:
    """What one would write by hand: all nodes of a level in one call of each kind.

    The states of all nodes lie in two matrices, in the order of execution; children are read with
    index_select. `dense`: the two children's states side by side, and one product with all ten matrices;
    else one product for the left children and one for the right.
    """

    def __init__(self, torch: Any, planned: Plan, params: Params, *, dense: bool) -> None:  # noqa: ANN401
        self._torch, self._dense = torch, dense
        graph, schedule = planned.graph, planned.schedule
        network = graph.network
        weights = {
            param.name: torch.from_numpy(value)
            for param, value in zip(network.params, params.values, strict=True)
        }

        def stacked(*names: str) -> Any:  # noqa: ANN401
            return torch.cat([weights[name] for name in names])

        self._words = torch.from_numpy(params.tables[0])
        self._leaf = stacked("leaf.Wi", "leaf.Wo", "leaf.Wu").T.contiguous()
        self._leaf_bias = stacked("leaf.bi", "leaf.bo", "leaf.bu")
        self._left = stacked(*(f"internal.U{g}l" for g in GATES)).T.contiguous()
        self._right = stacked(*(f"internal.U{g}r" for g in GATES)).T.contiguous()
        self._both = torch.cat([self._left, self._right]).contiguous()
        self._bias = stacked(*(f"internal.b{g}" for g in GATES))
        self._out, self._out_bias = weights["output.W"].T.contiguous(), weights["output.b"]

        kinds = [network.types[t].name for t in schedule.type]
        levels = [schedule.nodes[a:b] for a, b in zip(schedule.ptr, schedule.ptr[1:], strict=False)]
        cells = [nodes for kind, nodes in zip(kinds, levels, strict=True) if kind != "output"]
        place = np.full(len(graph), -1, np.int64)
        place[np.concatenate(cells)] = np.arange(sum(map(len, cells)))

        def children(nodes: NDArray[np.int32], slot: int) -> NDArray[np.int64]:
            """Where the values that feed a slot lie."""
            found: NDArray[np.int64] = place[graph.operand[graph.operand_ptr[nodes] + slot] // network.width]
            return found

        outputs = graph.type_ptr[[t.name for t in network.types].index("output") :][:2]
        self._heads = torch.from_numpy(children(np.arange(*outputs, dtype=np.int32), 0))
        self._levels = []
        for kind, nodes in zip(kinds, levels, strict=True):
            if kind == "leaf":
                references = graph.operand[graph.operand_ptr[nodes]]
                words = np.array([network.constant_of(r)[1] for r in references.tolist()])
                self._levels.append((True, torch.from_numpy(words), None, None))
            elif kind == "internal":
                left, right = children(nodes, 0), children(nodes, 2)
                pairs = np.stack([left, right], 1).ravel()
                self._levels.append((False, *(torch.from_numpy(index) for index in (left, right, pairs))))
        hidden = self._words.shape[1]
        self._h, self._c = (torch.empty(len(place[place >= 0]), hidden) for _ in range(2))

    def run(self) -> None:
        """See `Contender`."""
        torch, done = self._torch, 0
        with torch.inference_mode():
            for is_leaf, first, second, pairs in self._levels:
                count = len(first)
                h, c = self._leaves(first) if is_leaf else self._inner(first, second, pairs)
                self._h[done : done + count] = h
                self._c[done : done + count] = c
                done += count
            self._y = torch.addmm(self._out_bias, self._h.index_select(0, self._heads), self._out)

    def _leaves(self, words: Any) -> tuple[Any, Any]:  # noqa: ANN401
        torch, hidden = self._torch, self._h.shape[1]
        gates = torch.addmm(self._leaf_bias, self._words.index_select(0, words), self._leaf)
        i, o = torch.sigmoid(gates[:, : 2 * hidden]).split(hidden, 1)
        c = i * torch.tanh(gates[:, 2 * hidden :])
        return o * torch.tanh(c), c

    def _inner(self, left: Any, right: Any, pairs: Any) -> tuple[Any, Any]:  # noqa: ANN401
        torch, hidden = self._torch, self._h.shape[1]
        if self._dense:
            both = self._h.index_select(0, pairs).view(len(left), 2 * hidden)
            gates = torch.addmm(self._bias, both, self._both)
            cl, cr = self._c.index_select(0, pairs).view(len(left), 2, hidden).unbind(1)
        else:
            gates = torch.addmm(self._bias, self._h.index_select(0, left), self._left)
            gates.addmm_(self._h.index_select(0, right), self._right)
            cl, cr = self._c.index_select(0, left), self._c.index_select(0, right)
        i, fl, fr, o = torch.sigmoid(gates[:, : 4 * hidden]).split(hidden, 1)
        c = i * torch.tanh(gates[:, 4 * hidden :]) + fl * cl + fr * cr
        return o * torch.tanh(c), c

    def outputs(self) -> NDArray[Any]:
        """See `Contender`."""
        found: NDArray[Any] = self._y.numpy()
        return found
