"""The other process compiles just what plans and learning need, and never outlives its block."""

from __future__ import annotations

import errno
import os
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import sleep
from types import ModuleType
from typing import Any

import pytest
from numba.core.dispatcher import Dispatcher

from abw.core.exec.registry import get_executor
from abw.core.graph import bounds
from abw.core.graph.bounds import lower_bound
from abw.core.plan import kernels
from abw.core.plan.kernels import fill_plan
from abw.core.policy import cost
from abw.core.policy.learned import fsm, learner, states
from abw.core.policy.learned.choice import SINGLE
from abw.core.policy.rules import critical, frontier, remaining, sufficient, weight
from abw.core.policy.rules.depth import Depth
from abw.core.run import precompile
from abw.core.run.learning import train
from abw.core.run.minibatches import planned
from abw.core.run.workload import load_workload, open_model
from abw.core.spec.load import Overrides

MODULES = (bounds, cost, critical, frontier, fsm, learner, remaining, states, sufficient, weight)

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"), reason="numba compiles nothing"
)


def signatures(modules: tuple[ModuleType, ...]) -> dict[str, Any]:
    """What each compiled function of the modules was compiled or loaded for."""
    found = ((m.__name__, n, f) for m in modules for n, f in vars(m).items())
    return {f"{m}.{n}": set(f.signatures) for m, n, f in found if isinstance(f, Dispatcher)}


def test_learning_uses_what_was_compiled(root: Path) -> None:
    list(precompile.compile_parts("best"))
    before = signatures(MODULES)
    assert before["abw.core.policy.learned.learner.trial"]
    workload = load_workload(open_model(root / "specs/lattice.yaml", Overrides()), "cell")
    dag = workload.graph(0, 2).dag
    for encoding in learner.BEST_OF:
        train(lambda *_: dag, 1, encoding, 0, trials=1).schedule(dag)
    assert signatures(MODULES) == before


@pytest.mark.parametrize("spec", ["lattice", "treelstm", "attention-nmt", "ggnn"])
def test_every_plan_uses_what_was_compiled(root: Path, spec: str) -> None:
    list(precompile.compile_parts(""))
    before = signatures((kernels,))
    assert before["abw.core.plan.kernels.fill_plan"]
    workload = load_workload(open_model(root / f"specs/{spec}.yaml", Overrides()), "cell")
    batch = planned(workload, Depth(), get_executor("reference"), 0, 2)
    assert lower_bound(batch.dag).sum() > 0
    assert signatures((kernels,)) == before


@pytest.fixture(params=sorted({precompile.WAY, "spawn"}))
def uncompiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Two cores, nothing compiled yet, as far as one can tell, and patience on a loaded machine."""
    monkeypatch.setattr(precompile, "WAY", request.param)
    monkeypatch.setattr(precompile, "PATIENCE", 600.0)
    monkeypatch.setattr(precompile, "is_compiled", lambda _: False)
    monkeypatch.setattr(precompile, "usable_cores", lambda: 2)
    return monkeypatch


def test_the_process_ends_by_itself_or_with_the_block(uncompiled: pytest.MonkeyPatch) -> None:
    with precompile.compiling_beside("fsm", "base") as beside:
        beside.wait("fsm")
        assert beside.process is not None
        beside.process.join(60)
        assert beside.process.exitcode == 0
    with pytest.raises(KeyboardInterrupt), precompile.compiling_beside("fsm", "base") as beside:
        raise KeyboardInterrupt
    assert beside.process is not None
    assert beside.process.exitcode is not None


def test_it_says_what_is_ready(uncompiled: pytest.MonkeyPatch) -> None:
    with precompile.compiling_beside("agenda") as beside:
        for name in (precompile.PLAN, precompile.BOUND, "agenda"):
            beside.wait(name)
        assert beside.process is not None
        beside.process.join(60)
        assert beside.process.exitcode == 0
    with precompile.compiling_beside("auto") as beside:
        for name in (*SINGLE, "fsm", "beam"):
            beside.wait(name)
        assert beside.process is not None
        beside.process.join(60)
        assert beside.process.exitcode == 0
    with precompile.compiling_beside("fsm", "base") as beside:
        beside.wait("critical")  # it says nothing of that: until it has ended
        assert beside.process is not None
        assert beside.process.exitcode == 0


def compile_nothing(_: str, tells: Connection) -> None:
    """Never say that a part is ready."""
    while not tells.closed:
        sleep(1)


def test_one_that_takes_too_long_is_given_up(uncompiled: pytest.MonkeyPatch) -> None:
    uncompiled.setattr(precompile, "PATIENCE", 0.0)
    uncompiled.setattr(precompile, "_compile_quietly", compile_nothing)
    with precompile.compiling_beside("fsm", "base") as beside:
        beside.wait("fsm")
        assert beside.process is not None
        assert beside.process.exitcode is not None


def test_there_is_none_where_it_cannot_help(uncompiled: pytest.MonkeyPatch) -> None:
    def refuse(_: BaseProcess) -> None:
        raise BlockingIOError(errno.EAGAIN, "too many processes")

    with uncompiled.context() as only:
        only.setattr(precompile, "usable_cores", lambda: 1)
        assert precompile.Beside("fsm", "base").process is None
    with uncompiled.context() as only:
        only.setattr(precompile, "is_compiled", lambda _: True)
        assert precompile.Beside("fsm", "base").process is None
    with uncompiled.context() as only:
        only.setattr(precompile, "is_compiled", lambda function: function is fill_plan)
        assert precompile.Beside("agenda", "best").process is None
    uncompiled.setattr(BaseProcess, "start", refuse)
    with precompile.compiling_beside("fsm", "base") as beside:
        assert beside.process is None
        beside.wait("fsm")


def test_a_file_in_the_current_folder_is_not_run(uncompiled: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("import pathlib; pathlib.Path('ran').touch()")
    uncompiled.chdir(tmp_path)
    with precompile.compiling_beside("fsm", "base") as beside:
        beside.wait("fsm")
        assert beside.process is not None
        beside.process.join(60)
        assert beside.process.exitcode == 0
    assert not (tmp_path / "ran").exists()
