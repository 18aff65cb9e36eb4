"""`abw run --trace`: a trace as its format wants it, with all that was executed."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from abw.core.exec.cpu import partition
from abw.core.exec.cpu.team import Team
from tests.cli.conftest import Abw

LATTICE = ("specs/lattice.yaml", "--batch", "16", "-q", "--json")


def check_trace(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The complete events, if a document is as the Trace Event Format has it, and no track's events cross.

    The format: Chromium's "Trace Event Format", JSON object form; events that overlap on a track without one
    containing the other are what Perfetto warns of.
    """
    assert document.keys() <= {"traceEvents", "displayTimeUnit", "otherData", "metadata"}
    assert document["displayTimeUnit"] in ("ms", "ns")
    assert all(isinstance(value, str) for value in document["otherData"].values())
    complete, named = [], set()
    for event in document["traceEvents"]:
        assert isinstance(event["name"], str) and isinstance(event["args"], dict)
        assert type(event["pid"]) is type(event["tid"]) is int
        if event["ph"] == "M":
            named.add((event["name"], event["pid"], event["tid"]))
            key = {"process_name": "name", "thread_name": "name"}.get(event["name"], "sort_index")
            assert type(event["args"][key]) is (str if key == "name" else int)
            continue
        assert event["ph"] == "X" and isinstance(event["cat"], str)
        assert event["ts"] >= 0 and event["dur"] >= 0
        complete.append(event)
    tracks = defaultdict(list)
    for event in complete:
        tracks[event["pid"], event["tid"]].append((round(1e3 * event["ts"]), -round(1e3 * event["dur"])))
    for (pid, tid), spans in tracks.items():
        assert {("process_name", pid, 0), ("thread_name", pid, tid)} <= named
        open_until: list[float] = []
        for start, minus in sorted(spans):
            while open_until and open_until[-1] <= start:
                open_until.pop()
            assert not open_until or start - minus <= open_until[-1]
            open_until.append(start - minus)
    return complete


def traced(abw: Abw, tmp_path: Path, *flags: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A run's report, and the events of its trace."""
    path = tmp_path / "trace.json"
    done = abw("run", *flags, "--trace", str(path))
    assert done.code == 0, done.err
    return done.json(), check_trace(json.loads(path.read_text()))


def shared(team: Team, work: Callable[[int], None], *_: object) -> bool:
    """Share whatever there is, whether that pays or not."""
    team.share(work)
    return True


@pytest.mark.parametrize("threads", ["1", "2"])
def test_every_batch_and_every_row_is_there(
    abw: Abw, tmp_path: Path, threads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition, "APART_FLOPS", 0)
    monkeypatch.setattr(Team, "do", shared)
    flags = ("--threads", threads, "--set", "hidden=128", "--policy", "depth")
    report, events = traced(abw, tmp_path, *LATTICE, *flags)
    batches = [e for e in events if e["cat"] == "batch"]
    assert {e["args"]["run"] for e in batches} == set(range(report["mini_batches"]))
    found = defaultdict(list)
    for e in batches:
        found[e["args"]["run"], e["args"]["batch"]].append(e)
    assert len(found) == report["batches"]
    assert sum(e["args"]["rows"] for e in batches) == report["nodes"]
    assert all(len({e["name"] for e in same}) == 1 for same in found.values())
    assert {e["tid"] for e in batches} <= set(range(int(threads)))
    assert max(map(len, found.values())) == int(threads)  # the parts of a batch
    shares = [e["args"]["share_of_peak"] for e in batches if "share_of_peak" in e["args"]]
    assert shares and all(share > 0 for share in shares)
    assert not any("share_of_peak" in e["args"] for e in batches if e["name"] == "state")


def test_batches_lie_inside_the_execution_and_phases_add_up(abw: Abw, tmp_path: Path) -> None:
    report, events = traced(abw, tmp_path, *LATTICE, "--threads", "1", "--policy", "depth")
    phases = [e for e in events if e["cat"] == "phase"]
    executing = [(e["ts"], e["ts"] + e["dur"]) for e in phases if e["name"] == "execute"]
    for e in events:
        if e["cat"] == "batch":
            middle = e["ts"] + e["dur"] / 2
            assert any(begin <= middle <= end for begin, end in executing)
    for name in ("construct", "schedule", "plan", "execute", "write"):
        seconds = sum(e["dur"] for e in phases if e["name"] == name) / 1e6
        assert seconds == pytest.approx(report["seconds"][name], abs=1e-6)


def test_a_model_that_grows_and_one_that_is_profiled(abw: Abw, tmp_path: Path) -> None:
    report, events = traced(abw, tmp_path, "specs/drnn.yaml", "--limit", "8", "-q", "--json")
    assert len({e["args"]["run"] for e in events if e["cat"] == "batch"}) > report["mini_batches"]
    report, events = traced(abw, tmp_path, *LATTICE, "--profile", "--policy", "depth", "--threads", "1")
    assert sum(e["args"]["rows"] for e in events if e["cat"] == "batch") == report["nodes"]


def test_what_is_refused(abw: Abw, tmp_path: Path) -> None:
    for flags, said in (
        (("--executor", "blas"), "notes no batches"),
        (("--trace", str(tmp_path / "no" / "t.json")), "there is no folder"),
        (("--trace", "specs/lattice.yaml"), "would be overwritten"),
    ):
        done = abw("run", *LATTICE, "--trace", str(tmp_path / "t.json"), *flags)
        assert done.code in (1, 2) and said in done.err
