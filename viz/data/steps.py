"""Pictures of schedules: lanes of batches, frontiers over the steps, the numbered graph."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.bounds import lower_bound
from abw.core.graph.dag import Dag
from abw.core.policy.schedule import Schedule, ready_counts
from abw.core.tools.explain import causes
from abw.core.tools.needed import batch_of
from abw.viz.data.pictures import BatchesPicture, FrontierPicture, GraphPicture, Lane
from abw.viz.data.scene import Scene

Ints = NDArray[np.int32]


def batches_picture(scene: Scene) -> BatchesPicture:
    """All of a scene's schedules side by side. O(n log n + m) a schedule."""
    lanes = tuple(_lane(name, scene.dag, schedule) for name, schedule in scene.schedules.items())
    return BatchesPicture(scene.dag.types, lower_bound(scene.dag), lanes)


def frontier_picture(scene: Scene, policy: str) -> FrontierPicture:
    """One schedule with the frontier before each of its batches. O(n log n + m)."""
    schedule = scene.schedules[policy]
    lane = _lane(policy, scene.dag, schedule)
    return FrontierPicture(scene.dag.types, ready_counts(scene.dag, schedule, scene.rounds(policy)), lane)


def graph_picture(scene: Scene, instances: int | None = None) -> GraphPicture:
    """The graph, or that of its first instances, numbered by the batches of every schedule. O(n + m)."""
    dag = scene.dag
    batch = np.array([batch_of(schedule, len(dag)) for schedule in scene.schedules.values()], np.int32)
    source = np.repeat(np.arange(len(dag), dtype=np.int32), np.diff(dag.succ_ptr))
    keep = np.arange(len(dag)) if instances is None else np.flatnonzero(scene.used_by(instances))
    number = np.full(len(dag), -1, np.int32)
    number[keep] = np.arange(len(keep), dtype=np.int32)
    source, target = number[source], number[dag.succ]
    inside = (source >= 0) & (target >= 0)
    return GraphPicture(
        dag.types,
        dag.type[keep],
        scene.instance[keep],
        scene.vertex[keep],
        source[inside],
        target[inside],
        scene.equal_nodes()[keep],
        tuple(scene.schedules),
        batch[:, keep],
    )


def _lane(policy: str, dag: Dag, schedule: Schedule) -> Lane:
    late, behind = np.zeros(len(schedule), np.int32), np.full(len(schedule), -1, np.int32)
    for held in causes(dag, schedule).held:
        late[held.step], behind[held.step] = len(held.late), held.waits_for
    return Lane(policy, schedule.type, np.diff(schedule.ptr).astype(np.int32), late == 0, late, behind)
