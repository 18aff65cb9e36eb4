"""Disks that are full at some moment: the right file is blamed in one line, and what is there is whole."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.faults.bench import COMMANDS, Bench
from tests.faults.kills import Tally, ready

STEP = 4096
SIZE = 4 * 2**20
# By name: a command, and which of its folders lies on the full disk.
CASES = {
    "the runs": ("run", "home"),
    "lines": ("run into lines", "folder"),
    "arrays": ("run into arrays", "folder"),
    "runs, with lines elsewhere": ("run into lines", "home"),
    "a policy": ("learn", "folder"),
    "a page": ("viz", "folder"),
    "costs": ("calibrate", "folder"),
}


def cannot_mount(folder: Path) -> str:
    """Why no small disk can be mounted here; '' where one can."""
    if os.geteuid() != 0:
        return "only root mounts disks"
    try:
        with small_disk(folder):
            return ""
    except (OSError, subprocess.CalledProcessError) as error:
        return f"no disk can be mounted: {error}"


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A disk of its own on a folder while the block runs."""
    folder.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)]
    subprocess.run(mount, check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True, capture_output=True)


def fill(disk: Path, free: int) -> Path:
    """Leave so many bytes free."""
    filler = disk / "filler"
    filler.unlink(missing_ok=True)
    with filler.open("wb") as file:
        about = os.statvfs(disk)
        os.posix_fallocate(file.fileno(), 0, max(1, about.f_bavail * about.f_frsize - free))
    return filler


def sweep(parent: Path, name: str, step: int = STEP, enough: int = 3) -> Tally:
    """One case with more and more room, in steps of so many bytes, until it has worked often enough."""
    command, which = CASES[name]
    disk = parent / "disk"
    tally = Tally(Counter())
    with small_disk(disk):
        places = {"folder": parent / "folder", "home": parent / "home", which: disk / which}
        for place in places.values():
            place.mkdir(exist_ok=True)
        if not (places["home"] / "kernels").exists() and (parent / "kernels").is_dir():
            (places["home"] / "kernels").symlink_to(parent / "kernels")
        with Bench(places["folder"], places["home"]) as bench:
            ready(bench, [command])
            free = worked = 0
            while worked < enough:
                for old in bench.folder.glob("*.jsonl"):  # which would make room when it is emptied
                    old.unlink()
                bench.note()
                filler = fill(disk, free)
                ended = bench.call(COMMANDS[command])
                found = bench.wrong() + [f"{path} is left" for path in bench.drafts()]
                if ended.code == 0:
                    worked += 1
                    tally.ends["worked"] += 1
                else:
                    worked = 0
                    tally.ends[f"exit code {ended.code}"] += 1
                    lines = ended.said.splitlines()
                    if not (ended.code == 1 and len(lines) == 1 and "No space left on device" in ended.said):
                        found.append(f"exit code {ended.code}, said {ended.said!r}")
                    elif not _blames(lines[0], places[which], places):
                        found.append(f"blamed another file: {lines[0]}")
                tally.wrong += [f"{name} with {free} bytes free: {said}" for said in found]
                filler.unlink()
                bench.note()
                free += step
    return tally


def _blames(line: str, full: Path, places: dict[str, Path]) -> bool:
    """Whether a path on the full disk is named, or one relative to the folder if that is the full one."""
    others = [place for place in places.values() if place != full]
    named = line.removeprefix("error: cannot write ")
    return str(full) in named or (not named.startswith("/") and not any(str(o) in named for o in others))
