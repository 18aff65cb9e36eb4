"""A first run says what it waits for, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from abw.core.graph.equal.consing import LEAST_NODES
from abw.core.graph.graph import Graph
from abw.core.run import pipeline
from abw.core.run.dedup import Deduplicator
from abw.core.run.pipeline import FIRST_TIME, RunOptions, run
from abw.core.spec.load import Overrides


class Phases:
    """Progress that keeps the names of phases."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def phase(self, name: str, total: int | None = None) -> None:
        self.names.append(name)

    def reached(self, step: int, note: object = "") -> None:
        """Nobody asks."""


@pytest.mark.parametrize("compiled", [True, False])
def test_compiling_is_explained_the_first_time_alone(
    compiled: bool, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ABW_HOME", str(tmp_path))
    monkeypatch.setattr(pipeline, "is_compiled", lambda _: compiled)
    told = Phases()
    run(root / "specs/fig1.yaml", Overrides(dims={"hidden": 4}), RunOptions(policy="agenda"), progress=told)
    assert (FIRST_TIME in told.names) != compiled
    assert ("compile" in told.names) == compiled
    assert "once after installing" in FIRST_TIME


def test_what_looks_for_equal_nodes_is_compiled_before_time_counts(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the first instances are too few nodes to look."""
    looked: list[int] = []
    compiled = Deduplicator.compile

    def compile(own: Deduplicator, graph: Graph) -> None:
        looked.append(len(graph))
        compiled(own, graph)

    monkeypatch.setattr(Deduplicator, "compile", compile)
    run(root / "specs/treelstm.yaml", Overrides(limit=2), RunOptions(policy="depth", keep=False))
    assert len(looked) == 1 and 0 < looked[0] < LEAST_NODES
