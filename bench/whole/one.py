"""How long one small instance takes from Python: a call with a tree, to its outputs."""

from __future__ import annotations

import ctypes
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median, quantiles
from typing import Annotated, Any

from abw.bench.options import SPECS, DataDir, Hidden, Runs, SpecsDir, numeric
from abw.bench.pytorch.alone import by_numpy, by_script, by_torch, scripted
from abw.bench.pytorch.install import torch_or_none
from abw.bench.pytorch.trees import Trees
from abw.bench.rows import Row, Rows
from abw.bench.timing import Work, pooled
from abw.core.api import LoadedModel, load
from abw.core.base.errors import AbwError

# So many trees take turns.
TREES = 100


def one(
    data: DataDir,
    specs: SpecsDir = SPECS,
    hidden: Hidden = 128,
    nodes: Annotated[list[int], numeric("Nodes of a tree; repeatable.")] = [37],
    runs: Runs = 100,
) -> Rows:
    """Time a warm call from Python: a tree LSTM with one tree, as text and as tuples, on one thread.

    Wall time of `runs` calls for each of 100 trees, in turns, each after three warm-up calls. `ordinary` is
    the call by graph, schedule and plan, `kernels` the execution of the same plans alone, `library` a call of
    the model as a C library through ctypes, whose outputs are not read. NumPy, PyTorch and TorchScript
    compute the same nodes one by one, from arrays of words and children.
    """
    file = data / "trees" / "train.txt"
    model = load(specs / "treelstm.yaml", data=file, dims={"hidden": hidden}, threads=1)
    model.warm()
    torch = torch_or_none()
    if torch is None:
        yield "PyTorch is not installed: abw alone is measured"
    else:
        torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        answer = None
        try:
            answer = _library(model, Path(folder))
        except AbwError as error:
            yield f"no C library is measured: {error}"
        for count in nodes:
            yield _row(model, file, count, runs, torch, answer)


def _library(model: LoadedModel, folder: Path) -> Callable[[bytes], object]:
    """Build the model as a C library; returns a call with one instance. Errors: AbwError."""
    model.build(folder / "library.so")
    library, word, size = ctypes.CDLL(str(folder / "library.so")), ctypes.c_void_p, ctypes.c_size_t
    library.abw_load.restype = library.abw_new_workspace.restype = word
    library.abw_answer.argtypes = [word, ctypes.c_char_p, size, size]
    space = word(library.abw_new_workspace(word(library.abw_load(None, None))))
    return lambda text: library.abw_answer(space, text, len(text), 1)


def _row(
    model: LoadedModel,
    file: Path,
    nodes: int,
    runs: int,
    torch: Any,  # noqa: ANN401
    answer: Callable[[bytes], object] | None,
) -> Row:
    with file.open() as lines:
        trees = list(islice((line.rstrip("\n") for line in lines if line.count("(") == nodes), TREES))
    if not trees:
        raise AbwError(f"no tree in {file} has {nodes} nodes", hint="--nodes 37: with n leaves it has 2n - 1")
    work: dict[str, list[Work]] = defaultdict(list)
    script = scripted(torch) if torch else None
    for tree in trees:
        instances = model.read([tree])
        graph = model.graph(instances)
        work["text"].append(partial(model, [tree]))
        work["tuples"].append(partial(model, [_tuples(tree)]))
        work["ordinary"].append(partial(model, instances))
        work["kernels"].append(partial(model.run, model.plan(graph)))
        if answer:
            work["library"].append(partial(answer, tree.encode()))
        if torch:
            given = Trees(torch, model.network, model.params, graph, instances)
            work["numpy"].append(by_numpy(given))
            work["torch"].append(by_torch(given))
            work["script"].append(by_script(given, script))
    taken = pooled(work, runs, time.perf_counter, warming=3)
    tenths = quantiles(taken["text"], n=10, method="inclusive")
    others = taken.keys() & {"library", "numpy", "torch", "script"}
    return Row(
        "",
        nodes=nodes,
        trees=len(trees),
        p50_seconds=tenths[4],
        p90_seconds=tenths[8],
        tuples_seconds=median(taken["tuples"]),
        ordinary_seconds=median(taken["ordinary"]),
        kernels_seconds=median(taken["kernels"]),
        **{f"{name}_seconds": median(taken[name]) for name in sorted(others)},
    )


def _tuples(text: str) -> Any:  # noqa: ANN401 (nested tuples)
    """A tree as `abw.core.data.given.objects` takes it."""
    open_: list[list[Any]] = [[]]
    for piece in text.replace("(", " ( ").replace(")", " ) ").split():
        if piece == "(":
            open_.append([])
        elif piece == ")":
            node = tuple(open_.pop())
            open_[-1].append(node)
        else:
            open_[-1].append(piece)
    return open_[0][0]
