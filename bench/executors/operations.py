"""Operations of cells by the kernels of `cpu`, beside NumPy and PyTorch: nanoseconds an element."""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.bench.executors.blas import import_torch
from abw.core.exec.interface import Result

Floats = NDArray[np.float32]
Function = Callable[..., Any]

LANES = WIDTH = 256
"""So many vectors of so many elements: what is read and written fits into a second-level cache."""
TURNS = 20
"""Calls of each in a round."""

EXPRESSIONS: Mapping[str, str] = {
    "copy": "1 * x",
    **{name: f"{name}(x)" for name in (
        "tanh", "sigmoid", "relu", "exp", "log", "sqrt", "rsqrt", "square", "abs", "silu", "gelu", "softplus",
        "elu", "leaky_relu",
    )},
    **{name: f"{name}(x, y)" for name in ("maximum", "minimum")},
    "less": "x < y",
    "where": "where(x < y, x, y)",
    **{name: f"{name}(x)" for name in ("sum", "mean", "max", "norm", "softmax")},
    "dot": "dot(x, y)",
    "scaled": "x * sum(y[0:1])",
    "layernorm": "layernorm(x, g, b)",
}  # fmt: skip
"""What is measured, as equations have it; `g` and `b` are parameters."""
POSITIVE = ("log", "sqrt", "rsqrt")
"""What is measured of positive numbers."""


def bench_operations(runs: int) -> dict[str, Any]:
    """Nanoseconds an element of each operation, by one thread's CPU time: medians of `runs` rounds in turns.

    abw's is a batch of `LANES` nodes of a cell that has this one operation, less what a batch of one node
    takes; NumPy's and PyTorch's (null where it is absent) a call on all of them, with what they need to keep
    results in between. `error`: the largest beside NumPy's in double precision, relative to these or, where
    they are smaller, to their root mean square. `of_tanh`: abw's time over that of its own tanh, in turns.
    """
    from abw.core.base.errors import AbwError
    from abw.core.exec.cpu.target import get_target

    try:
        torch = import_torch()
        torch.set_num_threads(1)
    except AbwError:
        torch = None
    rows = [
        {"operation": name, "expression": expression, **_measured(name, expression, torch, runs)}
        for name, expression in EXPRESSIONS.items()
    ]
    return {"schema_version": 1, "target": get_target().name, "runs": runs, "rows": rows}


def _measured(name: str, expression: str, torch: Any, runs: int) -> dict[str, Any]:  # noqa: ANN401
    rng = np.random.default_rng(0)
    values = {key: rng.standard_normal((LANES, WIDTH)).astype(np.float32) for key in "xy"}
    values |= {key: rng.standard_normal(WIDTH).astype(np.float32) for key in "gb"}
    if name in POSITIVE:
        values["x"] = np.abs(values["x"])
    used = [key for key in "xygb" if re.search(rf"\b{key}\b", expression)]
    with tempfile.TemporaryDirectory() as folder:
        ours = {
            (written, lanes): _abw(Path(folder), written, values, lanes)
            for written in (expression, "tanh(x)")
            for lanes in (LANES, 1)
        }
    result = np.empty((LANES, WIDTH), np.float32)
    by_numpy = NUMPY[name]
    contenders: dict[Any, Callable[[], object]] = {
        **ours,
        "numpy": lambda: by_numpy(*(values[key] for key in used), out=result),
    }
    if torch:
        tensors = [torch.from_numpy(values[key]) for key in used]
        by_torch = _torch(torch)[name]
        contenders["torch"] = lambda: by_torch(*tensors)
    with np.errstate(all="ignore"):
        taken = _rounds(contenders, runs)
        wide = [values[key].astype(np.float64) for key in used]
        expected = np.array(NUMPY[name](*wide, out=np.empty((LANES, WIDTH))))
        found = ours[expression, LANES]().value(0, 0).reshape(expected.shape)
    middle = np.sqrt(np.mean(np.square(expected)))
    elements = LANES * WIDTH
    ns = {key: seconds / elements * 1e9 for key, seconds in taken.items()}
    abw, tanh = (
        (ns[written, LANES] - ns[written, 1]) * LANES / (LANES - 1) for written in (expression, "tanh(x)")
    )
    return {
        "abw_ns": abw,
        "of_tanh": abw / tanh,
        "numpy_ns": ns["numpy"],
        "torch_ns": ns.get("torch"),
        "error": float((np.abs(found - expected) / np.maximum(np.abs(expected), middle)).max()),
    }


def _rounds(contenders: Mapping[Any, Callable[[], object]], runs: int) -> dict[Any, float]:
    """The median seconds of a call of each.

    A turn begins with calls that do not count: they bring its data into the caches, and the processor to the
    speed that it has with such instructions.
    """
    taken: dict[Any, list[float]] = {name: [] for name in contenders}
    for _ in range(runs):
        for name, work in contenders.items():
            for call in range(2 * TURNS):
                if call == TURNS:
                    start = time.thread_time()
                work()
            taken[name].append((time.thread_time() - start) / TURNS)
    return {name: median(seconds) for name, seconds in taken.items()}


def _abw(folder: Path, expression: str, values: Mapping[str, Floats], lanes: int) -> Callable[[], Result]:
    """What runs a cell of this expression on the first `lanes` rows."""
    from abw.core.exec.params import Params
    from abw.core.exec.registry import get_executor
    from abw.core.plan.plan import plan
    from abw.core.policy.rules.sufficient import Sufficient
    from abw.core.run.workload import load_workload, open_model
    from abw.core.spec.load import Overrides

    inputs, params = ([key for key in keys if re.search(rf"\b{key}\b", expression)] for keys in ("xy", "gb"))
    (folder / "cell.yaml").write_text(
        f"cell: one\ndims: [n]\ninputs: {{{', '.join(f'{key}: n' for key in inputs)}}}\n"
        f"params: {{{', '.join(f'{key}: n' for key in params)}}}\n"
        f"equations: |\n  z = {expression}\noutputs: {{z: z}}\n"
    )
    sources = ", ".join(f'{key}: "{key}[id]"' for key in inputs)
    tables = ", ".join(f"{key}: {{dim: n, rows: {LANES}}}" for key in inputs)
    (folder / "model.yaml").write_text(
        f"model: one\ndims: {{n: {WIDTH}}}\ndata: {{format: json, path: rows.json, batch: 1}}\n"
        f"tables: {{{tables}}}\ntypes:\n  one: {{per: row, cell: cell.yaml, inputs: {{{sources}}}}}\n"
        "outputs: {z: one.z}\n"
    )
    vertices = [{"kind": "row", "id": row} for row in range(lanes)]
    (folder / "rows.json").write_text(json.dumps({"vertices": vertices, "links": {}}) + "\n")
    workload = load_workload(open_model(folder / "model.yaml", Overrides()), "cell")
    graph = workload.graph(0, 1)
    planned = plan(graph, Sufficient().schedule(graph.dag))
    executor = get_executor("cpu")
    given = Params(tuple(values[key] for key in params), tuple(values[key] for key in inputs))
    executor.prepare(workload.network, given, 1)
    return lambda: executor.run(planned)


def _soft(x: Floats, out: Floats) -> Any:  # noqa: ANN401
    np.subtract(x, x.max(axis=-1, keepdims=True), out=out)
    np.exp(out, out=out)
    return np.divide(out, out.sum(axis=-1, keepdims=True), out=out)


def _norm(x: Floats, g: Floats, b: Floats, out: Floats) -> Any:  # noqa: ANN401
    np.subtract(x, x.mean(axis=-1, keepdims=True), out=out)
    spread = np.sqrt(np.square(out).mean(axis=-1, keepdims=True) + 1e-5)
    return np.add(np.divide(out, spread, out=out) * g, b, out=out)


def _sigmoid(x: Floats, out: Floats) -> Any:  # noqa: ANN401
    return np.reciprocal(1 + np.exp(-x), out=out)


def _gelu(x: Floats, out: Floats) -> Floats:
    """NumPy has no error function: by the meaning of ours."""
    from abw.core.cell.evaluate import NUMPY as LIBRARY
    from abw.core.ir.formulas import gelu

    out[...] = gelu(LIBRARY, x)
    return out


NUMPY: Mapping[str, Function] = {
    "copy": lambda x, out: np.multiply(1, x, out=out),
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "relu": lambda x, out: np.maximum(x, 0, out=out),
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x, out: np.divide(1, np.sqrt(x, out=out), out=out),
    "square": np.square,
    "abs": np.abs,
    "silu": lambda x, out: np.divide(x, 1 + np.exp(-x), out=out),
    "gelu": _gelu,
    "softplus": lambda x, out: np.logaddexp(0, x, out=out),
    "elu": lambda x, out: np.where(x > 0, x, np.expm1(x, out=out)),
    "leaky_relu": lambda x, out: np.where(x < 0, np.multiply(x, x.dtype.type(0.01), out=out), x),
    "maximum": lambda x, y, out: np.maximum(x, y, out=out),
    "minimum": lambda x, y, out: np.minimum(x, y, out=out),
    "less": lambda x, y, out: np.less(x, y, out=out, casting="unsafe"),
    "where": lambda x, y, out: np.where(x < y, x, y),
    "sum": lambda x, out: x.sum(-1),
    "mean": lambda x, out: x.mean(-1),
    "max": lambda x, out: x.max(-1),
    "norm": lambda x, out: np.linalg.norm(x, axis=-1),
    "softmax": _soft,
    "dot": lambda x, y, out: np.einsum("ij,ij->i", x, y),
    "scaled": lambda x, y, out: np.multiply(x, y[:, :1], out=out),
    "layernorm": _norm,
}
"""How NumPy is asked for each; `out` is there for results."""


def _torch(torch: Any) -> Mapping[str, Function]:  # noqa: ANN401
    """How PyTorch is."""
    f = torch.nn.functional
    return {
        "copy": lambda x: 1 * x,
        **{name: getattr(torch, name) for name in (
            "tanh", "sigmoid", "relu", "exp", "log", "sqrt", "rsqrt", "square", "abs", "maximum", "minimum",
        )},
        **{name: getattr(f, name) for name in ("silu", "gelu", "softplus", "elu", "leaky_relu")},
        "less": lambda x, y: (x < y).float(),
        "where": lambda x, y: torch.where(x < y, x, y),
        "sum": lambda x: x.sum(-1),
        "mean": lambda x: x.mean(-1),
        "max": lambda x: x.amax(-1),
        "norm": lambda x: torch.linalg.vector_norm(x, dim=-1),
        "softmax": lambda x: torch.softmax(x, -1),
        "dot": lambda x, y: torch.linalg.vecdot(x, y),
        "scaled": lambda x, y: x * y[:, :1],
        "layernorm": lambda x, g, b: f.layer_norm(x, (WIDTH,), g, b),
    }  # fmt: skip
