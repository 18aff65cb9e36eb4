"""`abw new plans` with a real PostgreSQL: collect, train, serve, choose."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from tests.cli.conftest import Abw

pytestmark = pytest.mark.postgres


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that PostgreSQL's own user can reach, for the server."""
    folder = Path(tempfile.mkdtemp(prefix="abw-library-"))
    folder.chmod(0o755)
    monkeypatch.setenv("LIBRARY", str(folder / "library"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def test_a_project_from_the_database_to_the_choice(
    abw: Abw, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert abw("new", "plans", str(tmp_path / "costs")).code == 0
    monkeypatch.chdir(tmp_path / "costs")

    def script(name: str, *arguments: str) -> str:
        command = [sys.executable, name, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    try:
        said = script("collect.py", "15")
        assert re.search(r"data/train.jsonl: \d+ plans of 9 queries", said)
        assert "data/test.sql: 3 queries" in said
        train = ("train", "model.yaml", "--data", "data/train.jsonl", "--dev", "data/dev.jsonl")
        assert abw(*train, "--epochs", "2", "-q").code == 0
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        serve = [sys.executable, "-m", "abw", "serve", "model.yaml", "--weights", "t1", "--port", str(port)]
        with subprocess.Popen(serve, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            try:
                ready(port)
                said = script("choose.py", f"127.0.0.1:{port}")
            finally:
                server.terminate()
        default, chosen, best = (float(n.replace(",", "")) for n in re.findall(r"([\d,]+) ms\n", said))
        assert best <= min(default, chosen) + 1
        assert re.search(r"added to a query: [\d.]+ ms to explain 7 plans, [\d.]+ ms to ask", said)
    finally:
        subprocess.run([sys.executable, "postgres.py", "remove"], check=False, env=os.environ)


def ready(port: int) -> None:
    """Wait until the model is compiled."""
    for _ in range(120):
        try:
            with urlopen(f"http://127.0.0.1:{port}/v2/health/ready") as answer:
                if answer.status == 200:
                    return
        except URLError:
            pass
        time.sleep(1)
    raise AssertionError("the server is not ready after two minutes")
