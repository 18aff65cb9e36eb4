"""Workers, nodes and drivers of Ray's killed at random moments: what comes of it has the same bytes."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.core.scale.nodes import Nodes
from tests.core.scale.trainings import kept
from tests.faults.kills import Tally

WHO = ("worker", "node", "driver")
ROOT = Path(__file__).parents[2]
RUN = ["run", "treelstm", "--set", "hidden=8", "--policy", "critical", "--batch", "8"]
TRAIN = ["train", "sst", "--set", "hidden=8", "--batch", "4", "--epochs", "20", "--checkpoint", "0"]
RAY = ["--engine", "ray", "--workers", "2", "--json", "--quiet"]


class Place:
    """A folder with data, in which commands are run on a cluster."""

    def __init__(self, folder: Path, nodes: Nodes) -> None:
        self.folder, self.nodes = folder, nodes
        self.data, self.output = folder / "trees.txt", folder / "out.jsonl"
        self.data.write_bytes((ROOT / "specs/data/trees.txt").read_bytes() * 200)
        self.about = {**os.environ, "ABW_HOME": str(folder / "home"), "RAY_ADDRESS": nodes.address}
        self.about["PYTHONPATH"] = str(ROOT)

    def clear(self) -> None:
        """Forget what was run and trained."""
        self.output.unlink(missing_ok=True)
        shutil.rmtree(self.folder / "home" / "training", ignore_errors=True)

    def begin(self, options: list[str]) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "abw", *options]
        return subprocess.Popen(
            command, cwd=self.folder, env=self.about, stdout=-1, stderr=subprocess.PIPE, text=True
        )

    def done(self, options: list[str]) -> str:
        """A command to its end; its report."""
        with self.begin(options) as run:
            said, wrong = run.communicate(timeout=300)
        assert run.returncode == 0, wrong
        return said


# From a command's report to what must be the same.
Take = Callable[[str], object]


def works(place: Place) -> Mapping[str, tuple[list[str], list[str], Take]]:
    """By name: a command, how it is gone on with, and what comes of it."""
    run = [*RUN, "--data", str(place.data), "--output", str(place.output), "--shard-size", "20000", *RAY]
    return {
        "run": (run, [*run, "--resume"], lambda _: place.output.read_bytes()),
        "train": (
            [*TRAIN, *RAY],
            ["train", "--resume", "last", "--json", "--quiet"],
            lambda said: kept(str(place.folder / json.loads(said)["path"])) if said[:1] == "{" else said,
        ),
    }


def kill(folder: Path, kills: int, seed: int) -> Tally:
    """So many kills of each of `WHO` while instances are run, and while a model is trained."""
    tally, draw, nodes = Tally(), random.Random(seed), Nodes(2)
    folder.mkdir(parents=True, exist_ok=True)
    place = Place(folder, nodes)
    try:
        for name, (options, again, take) in works(place).items():
            place.done(options)  # compiles
            place.clear()
            begun = time.perf_counter()
            wanted = take(place.done(options))
            seconds = time.perf_counter() - begun
            for number in range(kills):
                for who in WHO:
                    place.clear()
                    after = draw.uniform(0.0, 1.0) * seconds
                    what = f"{who} after {after:.2f} s of {name} (seed {seed})"
                    end, found = _killed(place, who, after, options, again, take)
                    tally.ends[f"{name}, {who}: {end}"] += 1
                    if found != wanted:
                        more = f", said {found[:300]!r}" if isinstance(found, str) else ""
                        tally.wrong.append(f"{what}: another result{more}")
                print(
                    f"{name}: {number + 1} of {kills}, {len(tally.wrong)} wrong", file=sys.stderr, flush=True
                )
    finally:
        nodes.all.shutdown()
    return tally


def _killed(
    place: Place, who: str, after: float, options: list[str], again: list[str], take: Take
) -> tuple[str, object]:
    """Run a command and kill; how it ended, and what came of it in the end."""
    with place.begin(options) as run:
        time.sleep(after)
        hit = run.poll() is None
        if who == "driver":
            run.kill()
        elif who == "node":
            place.nodes.kill()
        else:
            hit = _worker(run)
        said, wrong = run.communicate(timeout=300)
    if who == "driver" and run.returncode == -signal.SIGKILL:
        early = "train" in options and not any(place.folder.glob("home/training/*/training.json"))
        return "killed", take(place.done(options if early else again))
    if run.returncode:
        return f"exit code {run.returncode}", wrong
    return "finished before" if who == "driver" or not hit else "went on", take(said)


def _worker(run: subprocess.Popen[str]) -> bool:
    """Kill a process that works for a run, the first that there is; whether there was one."""
    while run.poll() is None:
        for pid, (works, _) in processes(os.getpid()).items():
            if works and _title(pid).startswith(("ray::run_shard", "ray::Member")):
                os.kill(pid, signal.SIGKILL)
                return True
        time.sleep(0.01)
    return False


def _title(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def processes(root: int) -> dict[int, tuple[bool, float]]:
    """A process and all below it: whether each runs tasks of Ray's, and the seconds of CPU that it took."""
    parents: dict[int, int] = {}
    about: dict[int, tuple[bool, float]] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                stat = (path / "stat").read_text().rpartition(")")[2].split()
                title = (path / "cmdline").read_bytes()
            except OSError:  # it has ended
                continue
            if title:  # else it has ended, and is not yet taken note of
                seconds = (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
                parents[int(path.name)] = int(stat[1])
                about[int(path.name)] = title.startswith(b"ray::") and b"Agent" not in title, seconds
    below = {root}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    return {pid: about[pid] for pid in below if pid in about}
