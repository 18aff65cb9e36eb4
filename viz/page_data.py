"""The data that the page's scripts read, one JSON document a scene; `viz/assets/model.js` uses it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import number_of
from abw.core.exec.precision import Precision
from abw.core.graph.bounds import depths, lower_bound
from abw.core.graph.dag import Dag
from abw.core.graph.graph import Graph
from abw.core.graph.growing.history.history import bound_by_rounds
from abw.core.plan.arenas import arenas_of
from abw.core.plan.plan import plan
from abw.core.policy.schedule import Schedule
from abw.core.tools.needed import bytes_picture
from abw.viz.data.fsm import policy_picture
from abw.viz.data.pictures import FATES, PolicyPicture, listed
from abw.viz.data.reopened import Origin
from abw.viz.data.rounds import rounds_picture
from abw.viz.data.scene import Kept, Scene
from abw.viz.data.steps import frontier_picture
from abw.viz.data.times import times_document
from abw.viz.drawing.layered import across
from abw.viz.drawing.palette import colour, ink, marks, pattern
from abw.viz.drawing.rounds import cut_text

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]

# The most computed numbers put into the page, and how many of a node's or of a vector there are at most.
VALUES, SHORT = 60_000, 8

# The most choices of what grows put into the page.
CHOICES = 20_000

TIMELESS = (
    "Of a run with --profile this shows what each batch took, each thread's timeline, why threads waited."
)


def scene_document(scene: Scene) -> dict[str, Any]:
    """All that the page shows of one mini-batch, as JSON. Cost: layout and plans, about 15 us a node."""
    dag = scene.dag
    source = np.repeat(np.arange(len(dag), dtype=np.int32), np.diff(dag.succ_ptr))
    x, y, layer = arrange(dag, scene.instance, source)
    types = range(len(dag.types))
    bound, placed = lower_bound(dag), _placed(scene)
    instances = int(scene.instance.max(initial=-1)) + 1
    sizes = (len(dag), "node"), (len(dag.succ), "edge"), (instances, "instance")
    facts = [
        ", ".join(number_of(*size) for size in sizes),
        f"mini-batch {scene.number + 1} of {scene.mini_batches}",
        f"lower bound {int(bound.sum()):,} batches",
    ]
    if scene.growth:
        rounds = int(bound_by_rounds(dag, scene.growth.node_round).sum())
        facts[-1] += f" for the finished graph, {rounds:,} round by round"
    return {
        "facts": " · ".join(facts),
        "types": dag.types,
        "marks": marks(dag.types),
        "colours": [colour(t) for t in types],
        "inks": [ink(colour(t)) for t in types],
        "patterns": [pattern(t) for t in types],
        "bound": bound.tolist(),
        "graph": {
            **listed(type=dag.type, instance=scene.instance, vertex=scene.vertex),
            **(listed(equal=scene.equal_nodes()) if scene.equal else {}),
            **listed(source=source, target=dag.succ, x=np.round(x, 2), y=np.round(y, 2)),
            # what the range picker cuts: instances, or one instance's layers
            "layer": layer.tolist() if instances == 1 else None,
        },
        "vertices": vertices_document(scene.origin) if scene.origin else None,
        "policies": [_policy(scene, name) for name in scene.schedules],
        "outputs": None if placed is None else _outputs(placed),
        "width": scene.network.width if scene.network else 0,
        "growth": _growth(scene),
        "values": [_values(kept) for kept in scene.kept if kept.values.size],
        "process": _process(scene),
        "number": scene.number,
        "resident": scene.report.get("resident") or [],
        "timeless": "" if scene.growth else TIMELESS,
        "figures": _figures(scene, int(bound.sum()), instances),
    }


def arrange(dag: Dag, instance: Ints, source: Ints) -> tuple[Floats, Floats, Ints]:
    """x, y and layer (n,) each: every instance from (0, 0) on, its nodes at least 1 apart in x or in y.

    `source` (m,) of each edge. Layers run to the right where instances are mostly deeper than wide (a
    sentence then reads from left to right), else downwards. Cost: see `layered.across`.
    """
    layer = depths(dag)
    place = across(layer, instance, source, dag.succ)
    instances = int(instance.max(initial=-1)) + 1
    low, wide, deep = np.full(instances, np.inf), np.zeros(instances), np.zeros(instances)
    np.minimum.at(low, instance, place)
    place = place - low[instance]
    np.maximum.at(wide, instance, place)
    np.maximum.at(deep, instance, layer)
    down = layer.astype(float)
    return (down, place, layer) if deep.sum() > 1.2 * wide.sum() else (place, down, layer)


def _growth(scene: Scene) -> dict[str, Any] | None:
    """The rounds, their vertices and choices; `rounds.js` says what it makes of them."""
    found = scene.growth
    if found is None:
        return None
    picture = rounds_picture(scene)
    choices = picture.choices[:CHOICES]
    return {
        "kinds": found.kinds,
        **listed(kind=found.kind, index=found.index, of=found.instance, round=found.round),
        **listed(node=found.node_round, nodes=picture.nodes),
        "instances": picture.instances,
        "growing": picture.growing.tolist(),
        "grown": picture.kinds,
        "came": picture.came.tolist(),
        "made": [choice.round for choice in choices],
        "at": [choice.vertex for choice in choices],
        "chosen": [choice.chosen for choice in choices],
        "fate": [FATES.index(choice.fate) for choice in choices],
        "said": [choice.said for choice in choices],
        "left": len(picture.choices) - len(choices),
        "cut": "; ".join(map(cut_text, picture.cut)),
    }


def _policy(scene: Scene, name: str) -> dict[str, Any]:
    picture = frontier_picture(scene, name)
    lane = picture.lane
    schedule, graph = scene.schedules[name], _placed(scene)
    times = scene.times if name == scene.own else None
    precision: Precision = scene.report.get("precision") or "float32"
    return {
        "name": name,
        **listed(type=lane.type, width=lane.width, late=lane.late, behind=lane.behind),
        **listed(nodes=schedule.nodes, ready=picture.ready.ravel()),
        "rounds": scene.rounds(name) is not None,
        "machine": _machine(policy_picture(scene, name)),
        # the first row of each batch's outputs in their arenas, batch after batch
        "base": None if graph is None else plan(graph, schedule).base.ravel().tolist(),
        "memory": None if graph is None else _memory(graph, schedule, precision),
        "times": times and times_document(times, len(schedule)),
    }


def _machine(picture: PolicyPicture) -> dict[str, Any]:
    """A policy's states and transitions, types by their numbers."""
    number = {name: t for t, name in enumerate(picture.types)}
    return {
        "said": picture.in_words(),
        "learned": picture.training is not None,
        "steps": picture.steps,
        "states": [
            {
                "ready": [number[name] for name in state.ready],
                "also": state.also,
                "chosen": number[state.chosen],
                "q": [[number[t], round(value, 4), state.visits[t]] for t, value in state.q.items()],
                "taken": [[number[t], count] for t, count in state.taken.items()],
                "known": state.known,
            }
            for state in picture.states
        ],
        "source": [t.source for t in picture.transitions],
        "target": [t.target for t in picture.transitions],
        "type": [number[t.type] for t in picture.transitions],
        "count": [t.count for t in picture.transitions],
    }


def _placed(scene: Scene) -> Graph | None:
    """The graph whose rows the page names: none where a batch is of several types, as those of groups are."""
    graph = scene.graph
    return graph if graph is not None and graph.dag.types == scene.dag.types else None


def _memory(graph: Graph, schedule: Schedule, precision: Precision) -> dict[str, Any]:
    """Bytes by owner, as `abw run` plans them on one thread."""
    picture = bytes_picture(graph, schedule, precision)
    return {"owners": picture.owners, "needed": picture.needed.ravel().tolist(), "arenas": picture.arenas}


def _outputs(graph: Graph) -> list[list[tuple[str, int]]]:
    """For each type its outputs' names and arenas."""
    arena = arenas_of(graph.network).output_arena
    return [
        [(port.name, int(arena[t, o])) for o, port in enumerate(type.outputs)]
        for t, type in enumerate(graph.network.types)
    ]


def _values(kept: Kept) -> dict[str, Any]:
    """Computed values of the first nodes, four digits each."""
    rows = kept.values.reshape(len(kept.values), -1)
    short = min(rows.shape[1], SHORT)
    shown = rows[: VALUES // max(1, short), :short]
    return {
        "name": kept.name,
        "node": kept.node[: len(shown)].tolist(),
        "values": [[float(f"{value:.4g}") for value in row] for row in shown.tolist()],
        "cut": short < rows.shape[1],
    }


def vertices_document(origin: Origin) -> dict[str, Any]:
    """What the data says of a mini-batch's V vertices and N instances, as the page's scripts read it.

    `kind` (V,) numbers into `kinds`; `lines` (N,) of `source` on which instances begin, their `numbers` (N,)
    in the data, `names` where the data has some. Of fields `of` (V,) is -1 where a vertex has none, else its
    number, or that of its word in `words`; of vectors `vertex` (m,) have the `rows` (m, at most 8), `cut`
    where there is more of them. O(vertices * fields).
    """
    found, inside = origin.instances, slice(origin.first, origin.last)
    begin, end = (int(found.start[at]) for at in (origin.first, origin.last))
    fields: list[dict[str, Any]] = []
    for name, numbers in found.fields.items():
        of, words = numbers[begin:end], found.vocabulary.get(name)
        if not (of >= 0).any():
            continue
        said = None
        if words is not None:
            used = np.unique(of[of >= 0])
            of = np.where(of < 0, -1, np.searchsorted(used, of))
            said = [str(words[i]) for i in used.tolist()]
        fields.append({"name": name, "of": of.tolist(), "words": said})
    for name, values in found.values.items():
        low, high = np.searchsorted(values.vertex, (begin, end))
        rows = [[float(f"{value:.4g}") for value in row] for row in values.rows[low:high, :SHORT].tolist()]
        vertex, cut = (values.vertex[low:high] - begin).tolist(), values.rows.shape[1] > SHORT
        fields.append({"name": name, "vertex": vertex, "rows": rows, "cut": cut})
    return {
        "kinds": found.schema.kinds,
        "kind": found.kind[begin:end].tolist(),
        "fields": fields,
        "source": str(found.source),
        **listed(lines=found.lines[inside], numbers=found.numbers[inside]),
        "names": found.names[inside] if found.names else None,
    }


def _process(scene: Scene) -> list[tuple[str, int]]:
    """List the memory of the run's process over all its mini-batches."""
    found = scene.report.get("memory") or {}
    said = {
        "before_bytes": "before the first mini-batch",
        "predicted_bytes": "predicted with the largest",
        "measured_bytes": "measured with the largest",
    }
    parts = [(name, found[key]) for key, name in said.items() if found.get(key)]
    peak = scene.report.get("peak_memory_bytes")
    return [*parts, ("its peak, compiling included", peak)] if peak else parts


def _figures(scene: Scene, bound: int, instances: int) -> list[tuple[str, str]]:
    """The mini-batch in figures, and the run that it is of."""
    report = scene.report
    found = [
        ("instances", f"{instances:,}"),
        ("nodes", f"{len(scene.dag):,}"),
        ("edges", f"{len(scene.dag.succ):,}"),
        ("lower bound, batches", f"{bound:,}"),
        *((f"batches by {name}", f"{len(schedule):,}") for name, schedule in scene.schedules.items()),
    ]
    if scene.times is not None and len(scene.times.end):
        milliseconds = 1e3 * float(scene.times.end.max() - scene.times.start.min())
        found.append(("execution, measured", f"{milliseconds:.3g} ms"))
    if not report:
        return found
    rate, peak = report.get("instances_per_second"), report.get("peak_memory_bytes")
    whole = {
        "the whole run: date": str(report.get("date", ""))[:16].replace("T", " "),
        "sizes": ", ".join(f"{name} {size}" for name, size in report.get("dims", {}).items()),
        "executor": f"{report['executor']}, threads {report.get('threads') or 'its own'}",
        "instances a second": f"{rate:,.0f}" if rate else "",
        "peak memory": f"{peak / 1e6:,.0f} MB" if peak else "",
    }
    return found + [(name, said) for name, said in whole.items() if said]
