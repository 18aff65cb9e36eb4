"""Learned policies on disk: one readable JSON file for a model's network, encoding and seed."""

from __future__ import annotations

import hashlib
from pathlib import Path

from abw.core.base.files import home
from abw.core.graph.group import Groups
from abw.core.ir.network import Network


def network_digest(network: Network, groups: Groups | None = None) -> str:
    """A hash of what a policy depends on: the types and what may flow between them; no sizes, no weights.

    `groups`: what it takes for types, where that is not the types.
    """
    described: list[str] = [network.granularity]
    for t in network.types:
        links = [[network.types[p].name for p, _ in s.producers] for s in t.slots]
        described.append(f"{t.name} {t.reduction} {links}")
    if groups:
        described.append(f"groups {groups.names}")
    return hashlib.sha256("\n".join(described).encode()).hexdigest()[:12]


def policy_path(network: Network, encoding: str, seed: int, groups: Groups | None = None) -> Path:
    """Where the policy for a network, an encoding and a seed lies, whether or not it is there yet."""
    digest = network_digest(network, groups)
    name = f"{network.name}-{network.granularity}-{encoding}-seed{seed}-{digest}.json"
    return home() / "policies" / name
