"""Shards as tasks of a real Ray cluster of two nodes, whose processes and nodes are killed.

Skipped where the extra `ray` is not installed; `.ci/run` has it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from abw.core.base.errors import AbwError
from abw.core.scale import cluster as connection
from abw.core.scale import on_ray
from abw.core.scale.cluster import Cluster
from abw.core.scale.job import Done, Engine, Task
from abw.core.scale.on_ray import OnRay
from abw.core.scale.worker import Parcel, run_shard
from tests.core.scale.nodes import Nodes, nodes
from tests.core.scale.runs import Spread, spread

ray = pytest.importorskip("ray", reason="the extra ray is not installed")
__all__ = ["nodes", "spread"]
pytestmark = pytest.mark.filterwarnings("ignore")
Then = Callable[[Mapping[str, Any]], None]


def engine(nodes: Nodes, then: Then = lambda _: None) -> Engine:
    """The engine on this cluster; `then` hears of each shard before it is counted."""

    def run(sent: Parcel, tasks: Iterator[Any], count: int, done: Done, progress: Any) -> None:  # noqa: ANN401
        def told(task: Task, found: Mapping[str, Any]) -> None:
            then(found)
            done(task, found)

        OnRay(Cluster(nodes.address))(sent, tasks, count, told, progress)

    return run


def test_nodes_write_what_one_run_writes(spread: Spread, nodes: Nodes) -> None:
    report = spread(engine(nodes))
    assert spread.output.read_bytes() == spread.expected()
    assert report["shards"] > 5 and report["worker_cpu_seconds"] > 0


def dying(always: bool, marker: Path) -> Callable[..., Any]:
    """What workers run instead: they kill themselves over the third shard, the first time or each time."""

    def run(sent: Parcel, part: Any, section: Any) -> Any:  # noqa: ANN401
        if part.number == 3 and (always or not marker.exists()):
            marker.touch()
            os.kill(os.getpid(), 9)
        return run_shard(sent, part, section)

    return run


def test_a_worker_that_dies_is_tried_again(
    spread: Spread, nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_ray, "run_shard", dying(False, tmp_path / "died"))
    spread(engine(nodes))
    assert (tmp_path / "died").exists()
    assert spread.output.read_bytes() == spread.expected()


def test_a_shard_that_kills_each_worker_is_named_and_the_others_are_kept(
    spread: Spread, nodes: Nodes, tmp_path: Path
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(on_ray, "run_shard", dying(True, tmp_path / "died"))
        patch.setattr(on_ray, "RETRIES", 1)
        with pytest.raises(AbwError, match=r"part 3 of \d+ \(from line \d+ on, \d+ instances\) ends each"):
            spread(engine(nodes))
    kept = len(spread.parts)
    report = spread(engine(nodes), resume=True)
    assert report["resumed"] == kept == report["shards"] - 1
    assert spread.output.read_bytes() == spread.expected()


def test_a_node_that_dies(spread: Spread, nodes: Nodes) -> None:
    killed: list[Any] = []

    def kill(found: Mapping[str, Any]) -> None:
        if not killed:
            killed.append(found)
            nodes.kill()

    spread(engine(nodes, kill), shard=300)
    assert killed and spread.output.read_bytes() == spread.expected()


def test_another_version_is_refused(spread: Spread, nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    import abw

    monkeypatch.setattr(abw, "__version__", "0.0.1")
    with pytest.raises(AbwError, match=r"the cluster has abw .*, and this is 0\.0\.1"):
        spread(engine(nodes))


class Told:
    """Progress that is kept, with the time."""

    def __init__(self) -> None:
        self.phases: list[tuple[float, str]] = []

    def phase(self, name: str, total: int | None = None) -> None:
        self.phases.append((time.monotonic(), name))

    def reached(self, step: int, note: object = "") -> None:
        pass


def test_that_no_processor_is_free_is_said(spread: Spread, nodes: Nodes) -> None:
    assert connection.PATIENCE < 10
    told = Told()

    def interrupted(sent: Parcel, tasks: Iterator[Any], count: int, done: Done, progress: object) -> None:
        def stop(signal: int, frame: object) -> None:
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, 4)
        try:  # a shard takes more processors than there are
            OnRay(Cluster(nodes.address, threads=64))(sent, tasks, count, done, told)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "PATIENCE", 0.5)
        with pytest.raises(AbwError, match="interrupted: 0 of"):
            spread(interrupted)
    assert "CPUs are free, and each takes 64" in told.phases[1][1]


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_a_driver_that_is_ended_is_gone_on_from(end: signal.Signals, spread: Spread, root: Path) -> None:
    spread.data.write_bytes(spread.data.read_bytes() * 10)
    command = [sys.executable, "-m", "abw", "run", "treelstm", "--set", "hidden=8", "--policy", "critical"]
    command += ["--data", str(spread.data), "--engine", "ray", "--workers", "2", "--shard-size", "2000"]
    command += ["--output", str(spread.output)]
    with subprocess.Popen(command, cwd=root, stderr=subprocess.PIPE, text=True) as run:
        while len(spread.parts) < 3 and run.poll() is None:
            time.sleep(0.05)
        run.send_signal(end)
        _, said = run.communicate(timeout=120)
    assert run.returncode == (130 if end == signal.SIGINT else -end), said
    if end == signal.SIGINT:
        assert "parts are kept in" in said and "--resume goes on" in said
    assert not spread.output.exists()
    done = subprocess.run([*command, "--resume", "--json"], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["resumed"] >= 3
    assert spread.output.read_bytes() == spread.expected()


def test_a_shard_whose_process_hangs_is_run_once_more(spread: Spread) -> None:
    hung: list[int] = []

    def hang() -> None:
        """Stop the first process that writes a part."""
        while not hung:
            for draft in spread.output.with_name("out.jsonl.parts").glob(".draft*"):
                hung.append(int(draft.name.split("-part")[0].rpartition("-")[2]))
                os.kill(hung[0], signal.SIGSTOP)
                return
            time.sleep(0.001)

    spread.data.write_bytes(spread.data.read_bytes() * 200)
    watching = threading.Thread(target=hang)
    watching.start()
    report = spread(OnRay(Cluster("", workers=2)), shard=100_000)
    watching.join()
    assert hung and report["instances"] == 48 * 200
    assert spread.output.read_bytes() == spread.expected()
