"""Learned policies on disk: one readable JSON file for a model's network, encoding and seed."""

from __future__ import annotations

import hashlib
from pathlib import Path

from abw.core.graph.network import Network
from abw.core.store.files import home


def network_digest(network: Network) -> str:
    """A hash of what a policy depends on: the types and what may flow between them; no sizes, no weights."""
    described: list[str] = [network.granularity]
    for t in network.types:
        links = [[network.types[p].name for p, _ in s.producers] for s in t.slots]
        described.append(f"{t.name} {t.reduction} {links}")
    return hashlib.sha256("\n".join(described).encode()).hexdigest()[:12]


def policy_path(network: Network, encoding: str, seed: int) -> Path:
    """Where the policy for a network, an encoding and a seed lies, whether or not it is there yet."""
    name = f"{network.name}-{network.granularity}-{encoding}-seed{seed}-{network_digest(network)}.json"
    return home() / "policies" / name
