"""Scenes that the tests draw: the paper's Fig. 1 as a spec and as a run, and golden files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from abw.core.run.pipeline import RunOptions, run
from abw.core.spec.load import Overrides
from abw.core.store.runs import StoredRun, find_run
from abw.viz.data.pictures import (
    FATES,
    CellBatchView,
    ChoiceView,
    CutView,
    MemoryPicture,
    OperandView,
    Ordering,
    RoundsPicture,
    TreePicture,
    Variable,
)
from abw.viz.data.rounds import in_words
from abw.viz.data.scene import Scene, scene_of_spec


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: Path) -> Path:
    """A workbench's folder of its own; the current folder is the repository."""
    monkeypatch.setenv("ABW_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(root)
    return tmp_path / "home"


@pytest.fixture
def fig1(home: Path) -> Scene:
    """The paper's Fig. 1 by fsm, depth and agenda."""
    return scene_of_spec(Path("specs/fig1.yaml"), Overrides(dims={"hidden": 4}), encoding="sort")


@pytest.fixture
def lattice(home: Path) -> Scene:
    """Three small lattices."""
    return scene_of_spec(Path("specs/lattice.yaml"), Overrides(dims={"hidden": 4}, limit=3), encoding="sort")


@pytest.fixture
def fig1_run(home: Path) -> StoredRun:
    """A run of Fig. 1."""
    run(Path("specs/fig1.yaml"), Overrides(dims={"hidden": 4}), RunOptions(policy="fsm", encoding="sort"))
    return find_run(None)


def _fig3_order(order: str, statuses: tuple[tuple[str, str, str], tuple[str, str, str]]) -> Ordering:
    """The batches of the paper's Fig. 3 over x1 to x8 in an order, with what becomes of the operands."""
    operands = ((("x4", "x5"), ("x1", "x3"), ("x2", "x1")), (("x8", "x6", "x7"), ("x3", "x4", "x5")))
    batches = tuple(
        CellBatchView(
            op,
            tuple(
                OperandView(role, lanes, status)
                for role, lanes, status in zip(("result", "source 1", "source 2"), parts, of, strict=False)
            ),
        )
        for op, parts, of in zip(("α", "σ"), operands, statuses, strict=True)
    )
    copies = [o for b in batches for o in b.operands if o.status == "copied"]
    return Ordering(
        tuple(Variable(name, name, 1, staged=False) for name in order.split()),
        batches,
        len(copies),
        sum(len(o.variables) for o in copies),
    )


@pytest.fixture
def fig3() -> MemoryPicture:
    """The paper's Fig. 3, both sides: no planner is asked."""
    straight = ("contiguous", "contiguous", "contiguous")
    return MemoryPicture(
        "fig3",
        (),
        _fig3_order(
            "x1 x2 x3 x4 x5 x6 x7 x8", (("contiguous", "copied", "copied"), ("copied", "contiguous", ""))
        ),
        _fig3_order("x2 x1 x3 x4 x5 x8 x6 x7", (straight, straight)),
    )


@pytest.fixture
def rounds() -> RoundsPicture:
    """Two instances by a beam of two in three rounds: nothing is computed."""
    chosen = (
        (1, 0, 0, "the", -0.9, "a", -1.6, "won"),
        (1, 0, 0, "its", -1.2, "a", -1.6, "kept"),
        (1, 1, 3, "no", -0.1, "", None, "won"),
        (2, 0, 1, "cat", -1.5, "dog", -1.52, "won"),
        (2, 0, 1, "mouse", -1.51, "dog", -1.52, "kept"),
        (2, 0, 2, "cow", -2.75, "", None, "given up"),
        (2, 1, 4, "</s>", -0.2, "more", -3.5, "ended"),
        (3, 0, 5, "</s>", -1.6, "and", -4.0, "ended"),
    )
    fates = [FATES.index(fate) for *_, fate in chosen]
    return RoundsPicture(
        ("step",),
        2,
        np.array([2, 2, 1], np.int32),
        np.array([[2], [3], [1]], np.int32),
        np.array([7, 4, 6, 2, 0], np.int32),
        ("next",),
        tuple(
            ChoiceView(r, i, v, f"step {v}", "next", word, score, second, other, fate, said)
            for (r, i, v, word, score, second, other, fate), said in zip(
                chosen,
                (
                    in_words("next", "best", c[3], c[4], c[5], np.nan if c[6] is None else c[6], fate)
                    for c, fate in zip(chosen, fates, strict=True)
                ),
                strict=True,
            )
        ),
        (CutView("step", 3, (0,)),),
    )


@pytest.fixture
def fig4() -> TreePicture:
    """A tree with P- and Q-nodes over the paper's variables, in the order of Fig. 3."""
    names = ("x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8")
    return TreePicture("fig4", "([1 0 2 (3 4)] (7 (5 6)))", names)
