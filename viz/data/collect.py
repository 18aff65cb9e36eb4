"""From a scene to the pictures that were asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar, get_args

from abw.core.base.errors import AbwError, did_you_mean
from abw.core.ir.network import Network
from abw.viz.data.fsm import policy_picture
from abw.viz.data.memory import arena_picture, memory_pictures, tree_picture
from abw.viz.data.model import model_picture
from abw.viz.data.pictures import Picture, TreePicture, as_json
from abw.viz.data.rounds import rounds_picture
from abw.viz.data.scene import Scene
from abw.viz.data.steps import batches_picture, frontier_picture, graph_picture

Found = TypeVar("Found")
Kind = Literal["policy", "graph", "frontier", "batches", "rounds", "memory", "pqtree", "model"]
KINDS: tuple[Kind, ...] = get_args(Kind)
# What is shown where nothing in particular is asked for; of what has grown, its rounds, too.
USUAL: tuple[Kind, ...] = ("batches", "policy")


def collect(
    scene: Scene, kinds: Sequence[Kind], policy: str | None = None, instances: int | None = None
) -> list[Picture]:
    """The pictures of these kinds, in this order. `policy`: whose, the scene's own for None.

    `instances`: of graph and choices only those of the first so many. Errors: AbwError for a policy that the
    scene has no schedule of, where a run's model, data or weights cannot be had again, and for rounds of what
    does not grow.
    """
    chosen = policy or scene.own
    if chosen not in scene.schedules:
        raise AbwError(
            f"there is no schedule by '{chosen}' here", hint=did_you_mean(chosen, tuple(scene.schedules))
        )

    def memory() -> list[Picture]:
        cells, graph = memory_pictures(network()), _found(scene, scene.graph)
        return [*cells, arena_picture(graph, scene.schedules[chosen])]

    def network() -> Network:
        return _found(scene, scene.network)

    made: dict[Kind, Callable[[], Sequence[Picture]]] = {
        "policy": lambda: [policy_picture(scene, chosen)],
        "graph": lambda: [graph_picture(scene, instances)],
        "frontier": lambda: [frontier_picture(scene, chosen)],
        "batches": lambda: [batches_picture(scene)],
        "rounds": lambda: [rounds_picture(scene, instances)],
        "memory": memory,
        "pqtree": lambda: tree_pictures(network()),
        "model": lambda: [model_picture(_found(scene, scene.spec))],
    }
    return [picture for kind in kinds for picture in made[kind]()]


def tree_pictures(network: Network) -> list[TreePicture]:
    """The PQ-tree of each cell with more than one variable of its own."""
    cells = dict.fromkeys(t.cell for t in network.types if t.cell is not None)
    return [tree for tree in map(tree_picture, cells) if len(tree.names) > 1]


def _found(scene: Scene, part: Found | None) -> Found:
    """A part of the scene. Errors: AbwError with the reason why it is None."""
    if part is None:
        raise AbwError(
            f"{scene.title}: its cells cannot be shown: {scene.missing}",
            hint="name the spec instead: `abw viz SPEC`",
        )
    return part


def document(title: str, pictures: Sequence[Picture]) -> dict[str, Any]:
    """Everything that pictures show, as `--json` prints it: a list of pictures for each kind."""
    kinds: dict[str, list[Any]] = {}
    for picture in pictures:
        kinds.setdefault(picture.kind, []).append(as_json(picture))
    return {"schema_version": 1, "title": title, **kinds}
