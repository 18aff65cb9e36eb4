"""PyTorch models for one instance, run by `abw.torch.batch`, compared with PyTorch one instance at a time."""

from __future__ import annotations

from itertools import product
from typing import Any

from abw.bench.options import Batch, DataDir, HiddenSizes, Runs
from abw.bench.pytorch.install import import_torch
from abw.bench.rows import Row, Rows
from abw.bench.timing import interleaved


def torch_models(data: DataDir, hidden: HiddenSizes = [64], batch: Batch = 64, runs: Runs = 5) -> Rows:
    """Time PyTorch models as they are, batched, beside PyTorch one instance at a time.

    CPU time of one thread, medians of interleaved runs, recording included; outputs are compared.
    """
    torch = import_torch()
    import abw.torch
    from abw.bench.pytorch.single import NAMES, of_data

    for name, size in product(NAMES, hidden):
        model, columns = of_data(name, data, size, batch)
        fast = abw.torch.batch(model, batch=batch)

        def one_by_one(model: Any = model, columns: Any = columns) -> list[Any]:  # noqa: ANN401
            return [model(*item) for item in zip(*columns, strict=True)]

        def batched(fast: Any = fast, columns: Any = columns) -> list[Any]:  # noqa: ANN401
            return list(fast(*columns))

        with torch.no_grad():
            error = difference(torch, one_by_one(), batched())
            taken = interleaved({"torch": one_by_one, "abw": batched}, runs, warming=1)
        steps = {
            "torch": lambda run=one_by_one: loss_of(torch, run()).backward(),
            "abw": lambda run=batched: loss_of(torch, run()).backward(),
        }
        steps["abw"]()  # the first step compiles, the second takes memory: it warms the third
        learning = interleaved(steps, max(1, runs // 2), warming=1)
        yield Row(
            "forward", model=name, hidden=size, batch=batch, nodes=fast.nodes, torch_seconds=taken["torch"],
            abw_seconds=taken["abw"], over_torch_times=taken["torch"] / taken["abw"], largest_error=error,
        )  # fmt: skip
        yield Row(
            "forward, loss and backward", model=name, hidden=size, batch=batch,
            torch_seconds=learning["torch"], abw_seconds=learning["abw"],
            over_torch_times=learning["torch"] / learning["abw"],
        )  # fmt: skip


def tensors(torch: Any, x: Any) -> list[Any]:  # noqa: ANN401
    """All tensors of floats in nested lists."""
    from abw.torch.verify import tensors_of

    return [t for t in tensors_of(x) if t.dtype.is_floating_point]


def loss_of(torch: Any, outputs: Any) -> Any:  # noqa: ANN401
    """A number that depends on all outputs."""
    return sum(t.square().sum() for t in tensors(torch, outputs))


def difference(torch: Any, wanted: Any, found: Any) -> float:  # noqa: ANN401
    """The largest difference of two results."""
    pairs = zip(tensors(torch, wanted), tensors(torch, found), strict=True)
    return max(float((a - b).abs().max()) for a, b in pairs)
