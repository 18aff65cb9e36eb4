"""abw from Python: load a model, call it on instances, get arrays; or take it step by step.

    >>> import abw
    >>> model = abw.load("specs/treelstm.yaml", dims={"hidden": 8})
    >>> outputs = model([(3, (2, "It"), (4, (3, "works"), (2, "well"))), (2, "Fine")])
    >>> outputs["classes"]
    Ragged: 6 values of 2 instances, each (m, 5)
    >>> [array.shape for array in outputs["classes"]]
    [(5, 5), (1, 5)]

Every step of a run can be taken alone, and looked at:

    >>> graph = model.graph([(3, (2, "It"), (4, (3, "works"), (2, "well")))])
    >>> graph
    Graph of treelstm: 10 nodes of 1 instance (3 leaf, 2 internal, 5 output)
    >>> schedule = model.schedule(graph, "critical")
    >>> schedule
    Schedule: 10 nodes in 4 batches
    >>> planned = model.plan(graph, schedule)
    >>> result = model.run(planned)
    >>> result.values(graph.results[0].reference).shape
    (5, 5)
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import get_args

from abw.core.base.errors import AbwError
from abw.core.data.derive import conform
from abw.core.data.instances import Instances
from abw.core.exec.precision import PRECISIONS, Precision
from abw.core.exec.trained import load_weights, make_params
from abw.core.graph.equal.consing import DedupMode
from abw.core.ir.model import Model
from abw.core.ir.network import Granularity, LayoutName
from abw.core.loaded import Floats as Floats
from abw.core.loaded import LoadedModel as LoadedModel
from abw.core.loaded import prepared, require_known
from abw.core.policy.registry import CHOSEN, LEARNED, require_name
from abw.core.policy.schedule import Policy
from abw.core.run.checks import refuse_weights
from abw.core.run.hoisting import hoist_where_it_pays, may_hoist
from abw.core.run.learning import SUMMARIES, Choice
from abw.core.run.observing.footprint import require_weights
from abw.core.run.workload import open_model, open_networks, read_instances
from abw.core.spec.load import Overrides
from abw.core.spec.shipped import find_spec


def load(
    spec: str | os.PathLike[str],
    *,
    weights: str | os.PathLike[str] | None = None,
    data: str | os.PathLike[str] | Instances | None = None,
    dims: Mapping[str, int] | None = None,
    batch: int | None = None,
    policy: str | Policy = CHOSEN,
    encoding: Choice = "best",
    executor: str = "cpu",
    precision: Precision = "float32",
    granularity: Granularity = "cell",
    layout: LayoutName = "planned",
    hoist: bool | None = None,
    fuse: bool = False,
    group: bool = False,
    dedup: DedupMode = "auto",
    threads: int | None = None,
    seed: int | None = None,
    allow_outside: bool = False,
    check_finite: bool = False,
) -> LoadedModel:
    """Load a model, ready to run. The options are those of `abw run`.

    `spec`: a file, or the name of a shipped model (`abw specs`). `weights`: a file of trained weights, by
    default the spec's, else random ones from `seed`. `data`: a file, or instances, from which policies are
    learned that are not on disk yet, by default the spec's; instances also define kinds, links and fields of
    a spec of format json. `policy`: a name, a policy's `.json` file, your own as `module:Class` or
    `policy.py`, or an object with `schedule(dag)`, whose schedules are checked. `seed`: of learning, random
    weights (0) and the data's coin (the spec's `data.seed`). `allow_outside`: the spec may name files outside
    its folder. `hoist`: which products are computed beforehand: True all that can be, False none, None those
    for which a mini-batch of the data says that it pays. `check_finite`: a NaN or an infinity, in the weights
    or in any computed value, is an AbwError with its place.

    Errors: SpecError with all mistakes in the spec; AbwError. Cost: compiling the kernels, 0.1 to 0.3 s,
    unless they are on disk.
    """
    require_known("precision", precision, PRECISIONS)
    require_known("granularity", granularity, get_args(Granularity))
    require_known("layout", layout, get_args(LayoutName))
    require_known("dedup", dedup, get_args(DedupMode))
    require_known("encoding", encoding, tuple(SUMMARIES))
    if isinstance(policy, str) and not policy.endswith(".json"):
        require_name(policy)
    if policy == CHOSEN and encoding != "best":
        policy = LEARNED  # an encoding is that of an FSM
    if threads is not None and threads < 1:
        raise AbwError(f"threads cannot be {threads}", hint="1 or more; None: one a core")
    overrides = Overrides(
        dims=dims or {},
        data=None if data is None or isinstance(data, Instances) else Path(data),
        instances=data.schema if isinstance(data, Instances) else None,
        batch=batch,
        seed=seed,
        hoist=hoist,
        weights=Path(weights) if weights else None,
        allow_outside=allow_outside,
    )
    model = open_model(find_spec(Path(spec)), overrides)
    require_weights(model)
    sample = data if isinstance(data, Instances) else None
    name = policy if isinstance(policy, str) else ".py"
    if hoist is None and may_hoist(name, granularity, executor, dedup, precision):
        with suppress(AbwError):  # data that cannot be read say nothing about it
            model = hoist_where_it_pays(model, partial(_first_instances, model, sample))
    leaves = executor == "cpu" and not check_finite
    networks = open_networks(model, granularity, layout, fuse=fuse, group=group, dedup=dedup, leaves=leaves)
    used = seed or 0
    params = make_params(networks.cells, load_weights(model), used)
    if check_finite:
        refuse_weights(networks.cells, params)
    options = (policy, encoding, used, check_finite, sample, threads)
    return prepared(model, networks, params, (executor, precision), options)


def _first_instances(model: Model, sample: Instances | None) -> tuple[Instances, int]:
    """A mini-batch of the sample or of the model's data. Errors: DataError."""
    if sample is None and not model.data.path.is_file():
        raise AbwError(f"{model.data.path} is not a file")
    found = read_instances(model.data, model.data.batch) if sample is None else conform(sample, model.given)
    return found, min(len(found), model.data.batch)
