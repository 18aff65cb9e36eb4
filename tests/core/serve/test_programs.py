"""Programs behind HTTP: answered as they are alone, whatever others of their mini-batch do."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import abw
from tests.core.serve.client import Reply, Server, serving, stopped

pytest.importorskip("httptools", reason='needs the extra serve: pip install ".[serve]"')
pytest.importorskip("uvloop", reason='needs the extra serve: pip install ".[serve]"')
pytest.importorskip("greenlet", reason='needs the extra programs: pip install ".[programs]"')

CELLS = """
library: reader
dims: {hidden: 8}
tables: {words: {dim: hidden}}
cells:
  step:
    dims: [hidden]
    inputs: {x: hidden, h: hidden}
    params: {W: [hidden, hidden], U: [hidden, hidden]}
    equations: |
      y = tanh(W @ x + U @ h)
    outputs: {y: y}
"""
PROGRAM = """
import os

import abw

net = abw.cells("cells.yaml", allow_outside=True)
print("what a program prints is no answer")


def read(words):
    h, seen = net.zeros("hidden"), []
    for word in words:
        h = net.step(net.words[word], h)
        while word == "asks":
            h.argmax()
        while word == "loops":
            pass
        while word == "calls":
            h = net.step(h, h)
        if word == "dies":
            os.abort()
        if word == "exits":
            raise SystemExit
        if word == "set":
            return object()
        seen.append({"key": h.argmax()}[word if word == "missing" else "key"])
    return {"count": len(words), "last": words[-1], "seen": seen, "state": h}


def sampled(item):
    return net.step(net.words[item["word"]], net.zeros("hidden")).sample()
"""
SENTENCES = ["a small tree", "it works", "reads", "the longest sentence of them all", "b c d"]


@pytest.fixture(scope="module", name="home")
def _home(home: Path) -> Path:
    (home / "cells.yaml").write_text(CELLS)
    (home / "reader.py").write_text(PROGRAM.replace("cells.yaml", str(home / "cells.yaml")))
    (home / "few.txt").write_text("\n".join(SENTENCES[:2]) + "\n")
    return home


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[Server]:
    options = ("--format", "words", "--data", str(home / "few.txt"), "--timeout", "60s")
    with serving(home, f"{home}/reader.py:read", *options) as found:
        yield found


@pytest.fixture(scope="module")
def strict(home: Path) -> Iterator[Server]:
    options = ("--format", "words", "--timeout", "4s", "--max-nodes", "64")
    with serving(home, f"{home}/reader.py:read", *options) as found:
        yield found


@pytest.fixture(scope="module")
def net(home: Path) -> abw.Net:
    return abw.cells(home / "cells.yaml", policy="depth", allow_outside=True)


def alone(net: abw.Net, text: str) -> dict[str, Any]:
    """What the program gives without a server."""

    def read(words: list[str]) -> dict[str, Any]:
        h, seen = net.zeros("hidden"), []
        for word in words:
            h = net.step(net.words[word], h)
            seen.append(h.argmax())
        return {"count": len(words), "last": words[-1], "seen": seen, "state": h}

    found: dict[str, Any] = net.run(read, [text.split()])[0]
    return found


def together(server: Server, texts: list[str]) -> list[Reply]:
    """The answers to requests that are run as one mini-batch."""

    async def ask() -> list[Reply]:
        async with stopped(server, SENTENCES[0]):
            tasks = [asyncio.create_task(server.predict(text)) for text in texts]
            await server.until("abw_queue_instances", len(texts))
        return await asyncio.gather(*tasks)

    return asyncio.run(ask())


def require_as_alone(net: abw.Net, text: str, reply: Reply) -> None:
    """An answer is what the program gives without a server, to the bit."""
    (line,) = reply.lines
    wanted = alone(net, text)
    assert reply.status == 200 and line["id"] == 0 and line["line"] == 1
    found = line["outputs"]
    assert [found[name] for name in ("count", "last", "seen")] == [
        wanted[name] for name in ("count", "last", "seen")
    ]
    np.testing.assert_array_equal(np.array(found["state"], np.float32), wanted["state"])


def test_errors_are_their_own_and_all_others_as_if_alone(server: Server, net: abw.Net) -> None:
    wrong = {
        "a missing": "KeyError: 'missing'",
        "set": "the returned value cannot be written as JSON: object",
    }
    wrong["exits b"] = "wants to end Python"
    texts = [[*SENTENCES, *wrong][i % 8] for i in range(64)]
    for text, reply in zip(texts, together(server, texts), strict=True):
        if text not in wrong:
            require_as_alone(net, text, reply)
            continue
        (line,) = reply.lines
        assert reply.status == 422 and line["outputs"] is None
        assert wrong[text] in line["error"]["message"] and line["error"]["line"] == 1
        if "KeyError" in wrong[text]:
            assert line["error"]["where"].endswith("in read") and "reader.py:" in line["error"]["where"]
    assert server.log.read_text().count("KeyError: 'missing'") == 1  # told once, with the code's lines


def test_a_request_of_many_instances_has_an_answer_for_each(server: Server) -> None:
    texts = [*SENTENCES, "a missing", "", *SENTENCES]
    reply = asyncio.run(server.predict("\n".join(texts)))
    assert reply.status == 200
    assert [(line["id"], line["line"]) for line in reply.lines] == [(i, i + 1) for i in range(len(texts))]
    assert ["error" in line for line in reply.lines] == [i in (5, 6) for i in range(len(texts))]
    assert reply.lines[0]["outputs"] == reply.lines[7]["outputs"]


def test_programs_that_do_not_end_are_stopped_and_hold_up_nobody_for_long(
    strict: Server, net: abw.Net
) -> None:
    for hog in ("it loops", "asks"):
        texts = [SENTENCES[1], hog, SENTENCES[3], SENTENCES[0]]
        for text, reply in zip(texts, together(strict, texts), strict=True):
            if text != hog:
                require_as_alone(net, text, reply)
                continue
            assert reply.status == 504
            assert "had not ended after" in reply.lines[0]["error"]["message"]


def test_one_that_records_without_end_is_stopped(strict: Server, net: abw.Net) -> None:
    first, second = together(strict, ["calls", SENTENCES[0]])
    assert first.status == 422
    assert "called cells over 1024 times before it waited" in first.lines[0]["error"]["message"]
    require_as_alone(net, SENTENCES[0], second)


def test_only_the_request_that_kills_the_engine_fails(server: Server, net: abw.Net) -> None:
    texts = [*SENTENCES, "it dies", *SENTENCES]
    replies = together(server, texts)
    assert [reply.status for reply in replies] == [200] * 5 + [500] + [200] * 5
    for text, reply in zip(texts, replies, strict=True):
        if text != "it dies":
            require_as_alone(net, text, reply)


def test_kserves_protocol_has_the_arrays_that_a_run_writes(home: Path, server: Server) -> None:
    about = json.loads(asyncio.run(server.ask("/v2/models/reader")).body)
    names = ["count", "last", "last.offsets", "seen.offsets", "seen", "state"]
    assert sorted(output["name"] for output in about["outputs"]) == sorted(names)
    texts = SENTENCES[:2]
    tensor = {"name": "instances", "shape": [2], "datatype": "BYTES", "data": texts}

    def infer(*data: str) -> Reply:
        body = json.dumps({"inputs": [tensor | {"shape": [len(data)], "data": data}]}).encode()
        return asyncio.run(server.ask("/v2/models/reader/infer", body))

    found = {output["name"]: output for output in json.loads(infer(*texts).body)["outputs"]}
    command = [sys.executable, "-m", "abw", "run", f"{home}/reader.py:read", "--policy", "depth", "--quiet"]
    command += ["--data", str(home / "few.txt"), "--format", "words", "--output", str(home / "few.npz")]
    environment = {**os.environ, "ABW_HOME": str(home)}
    subprocess.run([*command, "--no-keep"], check=True, env=environment, stdout=subprocess.DEVNULL)
    with np.load(home / "few.npz") as written:
        assert set(found) == {name for name in written.files if not name.startswith("instance.")}
        for name, output in found.items():
            values = np.array(output["data"], written[name].dtype).reshape(output["shape"])
            np.testing.assert_array_equal(values, written[name])
    wrong = infer(SENTENCES[0], "missing")
    assert wrong.status == 422 and "instance 1: KeyError" in json.loads(wrong.body)["error"]
    wrong = infer("set")
    assert wrong.status == 422 and "fits no array: object" in json.loads(wrong.body)["error"]


def test_json_draws_by_the_number_in_the_request_and_sigterm_that_all_who_wait_outlast(home: Path) -> None:
    items = [json.dumps({"id": f"n{i}", "word": f"w{i}"}) for i in range(6)]

    async def ask(server: Server) -> None:
        first = await server.predict("\n".join(items))
        assert [line["id"] for line in first.lines] == [f"n{i}" for i in range(6)]
        bad = await server.predict('{"word"')
        assert bad.status == 422 and "not JSON" in bad.lines[0]["error"]["message"]
        engine = server.engine
        async with stopped(server, items[0]):
            tasks = [asyncio.create_task(server.predict("\n".join(items))) for _ in range(3)]
            await server.until("abw_queue_instances", 18)
            server.process.send_signal(signal.SIGTERM)
            while (await server.ask("/health/ready")).status == 200:
                await asyncio.sleep(0.01)
        for reply in await asyncio.gather(*tasks):
            assert reply.status == 200 and reply.lines == first.lines
        assert await asyncio.to_thread(server.process.wait, 60) == 0
        assert not Path(f"/proc/{engine}").exists()

    with serving(home, f"{home}/reader.py:sampled", "--timeout", "60s") as server:
        asyncio.run(ask(server))


def test_what_cannot_be_served_is_said(home: Path) -> None:
    (home / "broken.py").write_text(PROGRAM.replace("cells.yaml", "no.yaml"))

    def said(*arguments: str) -> str:
        environment = {**os.environ, "ABW_HOME": str(home)}
        command = [sys.executable, "-m", "abw", "serve", *arguments, "--port", "0"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=100)
        assert done.returncode and "Traceback" not in done.stderr
        return " ".join(done.stderr.split())

    assert "broken.py could not be run" in said(f"{home}/broken.py:read")
    assert "the default is critical" in said(f"{home}/reader.py:read", "--policy", "fsm").replace("│ ", "")
