"""`abw bench engine`: what is measured of the processes of a run on Ray."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from abw.bench.whole.engine import processes


def test_processes_are_those_below_with_their_time() -> None:
    code = "import time\nwhile time.process_time() < 0.2: pass\nprint(flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True) as child:
        assert child.stdout and child.stdin
        child.stdout.readline()
        found = processes(os.getpid())
        works, seconds = found[child.pid]
        assert os.getpid() in found and not works and 0.1 < seconds < 0.5
        assert os.getppid() not in found
        child.stdin.close()
    time.sleep(0.05)
    assert child.pid not in processes(os.getpid())


def test_each_number_of_workers_has_a_row(shared_data: Path) -> None:
    pytest.importorskip("ray", reason="the extra ray is not installed")
    command = [sys.executable, "-m", "abw", "bench", "engine", "--data", str(shared_data), "--json"]
    command += ["--instances", "300", "--hidden", "8", "--runs", "1", "--workers", "1", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["rows"]
    assert row["workers"] == 1 and row["driver_bytes"] > 50_000_000 and row["start_cpu"] > 0.5
