"""Training by processes of a real Ray cluster of two nodes, which are killed.

Skipped where the extra `ray` is not installed; `.ci/run` has it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from abw.core.base.errors import AbwError
from abw.core.scale import cluster, team
from abw.core.scale.member import Answer, Change, Member, Question
from abw.core.scale.team import Team, TeamOnRay
from abw.core.train import session
from tests.core.scale.nodes import Nodes, nodes
from tests.core.scale.trainings import Lesson, here, kept, lesson

pytest.importorskip("ray", reason="the extra ray is not installed")
__all__ = ["lesson", "nodes"]
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def wanted(lesson: Lesson) -> dict[str, Any]:
    """What a training by two members leaves that live in the test's own process."""
    return kept(lesson(2, here())["path"])


def test_two_processes_have_the_bits_of_two_members(
    lesson: Lesson, nodes: Nodes, wanted: dict[str, Any]
) -> None:
    assert kept(lesson(2, TeamOnRay(nodes.address))["path"]) == wanted


def dying(rank: int, done: int, marker: Path, *, always: bool = False) -> type[Member]:
    """Members of which one kills itself when it is asked after so many steps, once or always."""

    class Dying(Member):
        def share(self, question: Question, change: Change | None) -> Answer:
            if (self._rank, question.done) == (rank, done) and (always or not marker.exists()):
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return super().share(question, change)

    return Dying


def test_a_process_that_dies_is_replaced(
    lesson: Lesson,
    nodes: Nodes,
    wanted: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(team, "Member", dying(1, 3, tmp_path / "died"))
    capsys.readouterr()
    assert kept(lesson(2, TeamOnRay(nodes.address))["path"]) == wanted
    assert capsys.readouterr().out == ""  # what Ray says of it does not get into --json
    assert (tmp_path / "died").exists()


def test_members_add_up_shares_also_if_one_dies(
    lesson: Lesson, nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = kept(lesson(3, here())["path"])
    monkeypatch.setattr(team, "LARGE", 0)
    monkeypatch.setattr(team, "Member", dying(2, 3, tmp_path / "died"))
    third = nodes.add()
    try:
        assert kept(lesson(3, TeamOnRay(nodes.address))["path"]) == wanted
    finally:
        nodes.all.remove_node(third)
    assert (tmp_path / "died").exists()


def test_who_is_waited_for_is_said(
    lesson: Lesson, nodes: Nodes, wanted: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(Member):
        def share(self, question: Question, change: Change | None) -> Answer:
            if (self._rank, question.done) == (1, 3):
                time.sleep(1)
            return super().share(question, change)

    said: list[str] = []

    class Telling(cluster.Silence):
        def look(self, whom: Callable[[], str]) -> None:
            said.append(whom())
            super().look(whom)

    monkeypatch.setattr(team, "Member", Slow)
    monkeypatch.setattr(team, "SILENT", 0.2)
    monkeypatch.setattr(team, "Silence", Telling)
    assert kept(lesson(2, TeamOnRay(nodes.address))["path"]) == wanted
    assert any(re.fullmatch(r"worker 2 of 2 \(process \d+ on .*\), step 4", one) for one in said)


def test_one_that_always_dies_ends_it_and_it_goes_on(
    lesson: Lesson, nodes: Nodes, wanted: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(team, "Member", dying(0, 6, tmp_path / "died", always=True))
        patched.setattr(team, "RETRIES", 1)
        with pytest.raises(AbwError, match="worker 1 of 2 ends each time that it is asked for step 7"):
            lesson(2, TeamOnRay(nodes.address))
    assert kept(session.resume(None, engine=TeamOnRay(nodes.address))["path"]) == wanted


def test_a_node_that_dies(
    lesson: Lesson, nodes: Nodes, wanted: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    apply = Team.apply

    def killing(self: Team, *given: Any) -> None:  # noqa: ANN401
        apply(self, *given)
        if self._learner.stepper.done == 4:
            nodes.kill()

    monkeypatch.setattr(Team, "apply", killing)
    assert kept(lesson(2, TeamOnRay(nodes.address))["path"]) == wanted


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_a_driver_that_is_ended_is_gone_on_from(
    end: signal.Signals, lesson: Lesson, root: Path, wanted: dict[str, Any], nodes: Nodes
) -> None:
    command = [sys.executable, "-m", "abw", "train", str(lesson.spec), "--set", "hidden=4", "--batch", "10"]
    command += ["--epochs", "2", "--engine", "ray", "--workers", "2", "--checkpoint", "0"]
    again = [*command[:4], "--resume", "last", "--json"]
    place = Path(os.environ["ABW_HOME"]).absolute() / "training/0002-sst"
    about = {**os.environ, "RAY_ADDRESS": nodes.address, "PYTHONPATH": str(root)}
    with subprocess.Popen(command, env=about, stderr=subprocess.PIPE, text=True, cwd=root) as run:
        while not (place / "checkpoint.safetensors").exists() and run.poll() is None:
            time.sleep(0.01)
        run.send_signal(end)
        _, said = run.communicate(timeout=120)
    assert run.returncode == (130 if end == signal.SIGINT else -end), said
    if end == signal.SIGINT:
        assert "`abw train --resume 2` goes on from the last step" in said
    done = subprocess.run(again, env=about, capture_output=True, text=True, cwd=root)
    assert done.returncode == 0, done.stderr
    assert kept(json.loads(done.stdout)["path"]) == wanted
