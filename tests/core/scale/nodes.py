"""A real Ray cluster of two nodes on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

MEMORY = 100_000_000


class Nodes:
    """A head without processors, and nodes of one processor."""

    def __init__(self, nodes: int) -> None:
        from ray.cluster_utils import Cluster

        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        os.environ["RAY_raylet_start_wait_time_s"] = "180"  # noqa: SIM112
        head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": MEMORY}
        self.all = Cluster(initialize_head=True, head_node_args=head)
        self.nodes = [self.add() for _ in range(nodes)]

    @property
    def address(self) -> str:
        return str(self.all.address)

    def add(self) -> Any:  # noqa: ANN401
        return self.all.add_node(num_cpus=1, object_store_memory=MEMORY)

    def kill(self) -> None:
        """Let a node die, and a new one come."""
        self.all.remove_node(self.nodes.pop(0), allow_graceful=False)
        self.nodes.append(self.add())


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    """Two nodes on this machine."""
    found = Nodes(2)
    yield found
    found.all.shutdown()
