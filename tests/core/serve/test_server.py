"""The real server on loopback, and what must hold when things go wrong."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import abw
from tests.core.serve.client import Reply, Server, serving, stopped

pytest.importorskip("httptools", reason='needs the extra serve: pip install ".[serve]"')
pytest.importorskip("uvloop", reason='needs the extra serve: pip install ".[serve]"')

TREES = Path(abw.__file__).parent.parent.joinpath("specs/data/trees.txt").read_text().splitlines()
BAD = ["(3 (2 It)", " ", "(2 w) extra", "\x00", "(3", "7"]
SIZES = ("--set", "hidden=16")


# What is put into the engine, so that an instance kills it.
POISON = """
import os, sys
if "abw.core.serve.engine" in sys.orig_argv:
    from abw.core.serve.process import BatchEngine
    before = BatchEngine.run
    def run(self, requests):
        if any("poison" in text for request in requests.values() for text in request.texts):
            os.abort()
        return before(self, requests)
    BatchEngine.run = run
"""


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[Server]:
    (home / "sitecustomize.py").write_text(POISON)
    with serving(home, "treelstm", *SIZES, "--timeout", "60s", "--max-body", "4M", path=str(home)) as found:
        yield found


@pytest.fixture(scope="module")
def strict(home: Path) -> Iterator[Server]:
    options = ("--queue", "10", "--max-batch", "4", "--timeout", "500ms")
    with serving(home, "treelstm", *SIZES, *options) as found:
        yield found


@pytest.fixture(scope="module")
def model() -> abw.LoadedModel:
    return abw.load("treelstm", dims={"hidden": 16}, policy="depth")


def test_bad_requests_are_alone_and_good_ones_are_as_if_alone(server: Server, model: abw.LoadedModel) -> None:
    texts = [BAD[i // 5 % len(BAD)] if i % 5 == 0 else TREES[i % len(TREES)] for i in range(300)]

    async def everything() -> list[Reply]:
        return await asyncio.gather(*map(server.predict, texts))

    replies = asyncio.run(everything())
    assert asyncio.run(server.metric("abw_batch_instances_count")) < 250  # many ran together
    for text, reply in zip(texts, replies, strict=True):
        (line,) = reply.lines
        assert line["id"] == 0 and line["line"] == 1
        if text in BAD:
            assert reply.status == 422 and line["outputs"] is None
            assert line["error"]["message"] and line["error"]["hint"] and line["error"]["line"] == 1
            with pytest.raises(abw.AbwError) as alone:
                model([text])
            assert line["error"]["message"] in str(alone.value)
        else:
            assert reply.status == 200
            found = np.array(line["outputs"]["classes"], np.float32)
            np.testing.assert_array_equal(found, model([text])["classes"][0])


def test_a_request_of_many_instances_has_an_answer_for_each(server: Server, model: abw.LoadedModel) -> None:
    texts = [*TREES[:40], "(3 (2 It)", "", *TREES[40:48], "(3 x"]
    reply = asyncio.run(server.predict("\n".join(texts) + "\n"))
    assert reply.status == 200 and reply.headers["content-type"] == "application/x-ndjson"
    expected = model(texts, errors="return")
    assert [line["id"] for line in reply.lines] == list(range(len(texts)))
    for i, line in enumerate(reply.lines):
        assert ("error" in line) == (i in expected.errors)
        if "error" not in line:
            found = np.array(line["outputs"]["classes"], np.float32)
            np.testing.assert_array_equal(found, expected["classes"][i])
    wrong = reply.lines[40]["error"]
    assert (wrong["line"], wrong["column"], wrong["text"]) == (41, 10, "(3 (2 It)")


def test_json_lines_are_instances_as_in_python(server: Server) -> None:
    body = b'[3, [2, "It"], [3, "works"]]\n"(3 (2 It) (3 works))"\n{"a"\n7\n'

    async def ask() -> Reply:
        return await server.ask("/v1/predict", body, {"content-type": "application/x-ndjson"})

    first, second, third, fourth = asyncio.run(ask()).lines
    assert first["outputs"] == second["outputs"]
    assert "not JSON" in third["error"]["message"] and "7 is no sequence" in fourth["error"]["message"]


def test_what_is_refused(server: Server) -> None:
    async def statuses() -> list[int]:
        replies = [
            await server.ask("/v1/predict", b""),
            await server.ask("/v1/predict", b"(3 \xff)"),
            await server.ask("/v1/predict", b"(2 a)\n" * 1_000_000),
            await server.ask("/v1/predict", b"(2 a)\n" * 1025),
            await server.ask("/v1/predict"),
            await server.ask("/v2/models/other/ready"),
            await server.ask("/nothing"),
            await server.ask("/v2/models/treelstm/infer", b"{"),
            await server.ask("/v2/models/other/infer", b"{}"),
            await server.ask("/v1/predict", b"(2 a)", {"content-encoding": "gzip"}),
            await server.ask("/health/live"),
            await server.ask("/health/ready"),
        ]
        return [reply.status for reply in replies]

    assert asyncio.run(statuses()) == [422, 422, 413, 413, 405, 404, 404, 400, 404, 415, 200, 200]


def test_a_slow_client_holds_up_nobody(strict: Server) -> None:
    async def slow() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", strict.port)
        writer.write(b"POST /v1/predict HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n(3 (2 It)")
        begun = time.monotonic()
        assert (await strict.predict(TREES[0])).status == 200
        said = await reader.read()
        assert b" 408 " in said.splitlines()[0]
        assert time.monotonic() - begun > 0.4
        writer.close()

    asyncio.run(slow())


def test_overload_is_told_and_nothing_else_happens(strict: Server) -> None:
    async def overload() -> list[Reply]:
        async with stopped(strict, TREES[0]):
            first = await asyncio.gather(*(strict.predict(text) for text in TREES[:30]))
        return [*first, *await asyncio.gather(*(strict.predict(text) for text in TREES[:30]))]

    replies = asyncio.run(overload())
    found = Counter(reply.status for reply in replies)
    assert found[429] >= 20 and found[504] >= 4 and found[200] >= 1
    assert found[429] + found[504] + found[200] == 60
    assert {r.headers.get("retry-after") for r in replies if r.status == 429} == {"1"}
    assert asyncio.run(strict.metric("abw_queue_instances")) == 0


def test_clients_that_are_gone_are_not_run(server: Server) -> None:
    async def leave() -> None:
        async with stopped(server, TREES[0]):
            before = await server.metric("abw_batch_instances_sum")
            tasks = [asyncio.create_task(server.predict(text)) for text in TREES[:9]]
            await server.until("abw_queue_instances", 9)
            for task in tasks:
                task.cancel()
            await server.until('abw_requests_total{status="499"}', 9)
            assert await server.metric("abw_queue_instances") == 0
        assert (await server.predict(TREES[1])).status == 200
        assert await server.metric("abw_batch_instances_sum") == before + 1

    asyncio.run(leave())


def test_a_large_instance_and_small_ones(server: Server) -> None:
    large = "(1 " * 99_999 + "(2 a)" + " (3 b))" * 99_999

    async def ask() -> None:
        async with stopped(server, TREES[0]):
            tasks = [asyncio.create_task(server.predict(text)) for text in (*TREES[:9], large, *TREES[:9])]
            await server.until("abw_queue_instances", 19)
        replies = await asyncio.gather(*tasks)
        assert [reply.status for reply in replies] == [200] * 19
        assert len(replies[9].lines[0]["outputs"]["classes"]) == 199_999

    asyncio.run(ask())


def test_an_engine_that_is_killed_under_load_is_replaced(server: Server) -> None:
    async def kill() -> None:
        before = await server.metric("abw_engine_restarts_total")
        taken = await server.metric("abw_batch_instances_sum")
        os.kill(server.engine, signal.SIGSTOP)
        tasks = [asyncio.create_task(server.predict(text)) for text in TREES[:30]]
        while await server.metric("abw_batch_instances_sum") == taken:
            await asyncio.sleep(0.01)
        taken = await server.metric("abw_batch_instances_sum") - taken
        await server.until("abw_queue_instances", 30 - taken)
        os.kill(server.engine, signal.SIGKILL)
        assert [reply.status for reply in await asyncio.gather(*tasks)] == [200] * 30
        assert await server.metric("abw_engine_restarts_total") == before + 1

    asyncio.run(kill())


def test_only_the_request_that_kills_the_engine_fails(server: Server) -> None:
    async def poison() -> None:
        async with stopped(server, TREES[0]):
            texts = [*TREES[:12], "(2 poison)", *TREES[:12]]
            tasks = [asyncio.create_task(server.predict(text)) for text in texts]
            await server.until("abw_queue_instances", 25)
        statuses = [reply.status for reply in await asyncio.gather(*tasks)]
        assert statuses == [200] * 12 + [500] + [200] * 12
        assert (await server.predict(TREES[0])).status == 200

    asyncio.run(poison())


def test_memory_is_flat(server: Server) -> None:
    async def ask(count: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        for i in range(count):
            body = (BAD[0] if i % 10 == 0 else TREES[i % len(TREES)]).encode()
            head = f"POST /v1/predict HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            said = await reader.readuntil(b"\r\n\r\n")
            size = next(line for line in said.lower().splitlines() if line.startswith(b"content-length"))
            await reader.readexactly(int(size.split()[1]))
        writer.close()

    asyncio.run(ask(500))
    before = server.resident()
    asyncio.run(ask(1500))
    assert server.resident() - before < 6_000_000


def test_a_model_that_grows_and_sigterm_that_all_who_wait_outlast(home: Path) -> None:
    model = abw.load("greedy", policy="depth")
    texts = model.spec.data.path.read_text().splitlines()[:12]

    async def ask(server: Server) -> None:
        together = await server.predict("\n".join(texts))
        engine = server.engine
        async with stopped(server, TREES[0]):
            tasks = [asyncio.create_task(server.predict(text)) for text in texts]
            await server.until("abw_queue_instances", 12)
            server.process.send_signal(signal.SIGTERM)
            while (await server.ask("/health/ready")).status == 200:
                await asyncio.sleep(0.01)
            assert (await server.predict(texts[0])).status in (0, 503)
        replies = await asyncio.gather(*tasks)
        assert [reply.status for reply in replies] == [200] * 12
        for text, reply, line in zip(texts, replies, together.lines, strict=True):
            assert reply.lines[0]["outputs"] == line["outputs"]
            expected = model([text])
            for output in model.outputs:
                assert len(line["outputs"][output.name]) == len(expected[output.name][0])
        assert await asyncio.to_thread(server.process.wait, 60) == 0
        assert not Path(f"/proc/{engine}").exists()
        assert "Traceback" not in server.log.read_text()

    with serving(home, "greedy", "--timeout", "60s") as server:
        asyncio.run(ask(server))


def test_curl(server: Server) -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("needs curl")
    at = f"http://127.0.0.1:{server.port}"
    command = [curl, "-sS", "--noproxy", "*", "-w", "%{http_code}", f"{at}/v1/predict"]
    said = subprocess.run([*command, "-d", TREES[0]], capture_output=True, text=True, check=True).stdout
    line, status = said.split("\n")
    assert status == "200" and json.loads(line)["outputs"]["classes"]
    upload = [*command, "-T", "-", "-X", "POST", "-H", "expect: 100-continue"]  # chunked
    done = subprocess.run(upload, input="\n".join(TREES[:5]), capture_output=True, text=True, check=True)
    assert done.stdout.endswith("200") and len(done.stdout.splitlines()) == 6


def test_wrk(server: Server, tmp_path: Path) -> None:
    wrk = shutil.which("wrk")
    if wrk is None:
        pytest.skip("needs wrk")
    trees = ", ".join(json.dumps(tree) for tree in TREES)
    script = tmp_path / "post.lua"
    script.write_text(
        f"local trees, i = {{{trees}}}, 0\n"
        "request = function()\n"
        "  i = i % #trees + 1\n"
        '  return wrk.format("POST", "/v1/predict", {}, trees[i])\n'
        "end\n"
        "done = function(summary)\n"
        "  local e = summary.errors\n"
        "  local failed = e.connect + e.read + e.write + e.status + e.timeout\n"
        '  print("FOUND " .. summary.requests .. " " .. failed)\n'
        "end\n"
    )
    before = asyncio.run(server.metric("abw_batch_instances_count"))
    command = [wrk, "-t1", "-c32", "-d1s", "-s", str(script), f"http://127.0.0.1:{server.port}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("FOUND"))
    requests, failed = map(int, line.split()[1:])
    assert requests > 32 and not failed
    batches = asyncio.run(server.metric("abw_batch_instances_count")) - before
    assert batches < requests  # they ran together


def test_a_client_of_kserves_protocol(server: Server, model: abw.LoadedModel) -> None:
    http = pytest.importorskip("tritonclient.http", reason="needs tritonclient[http]")
    client = http.InferenceServerClient(f"127.0.0.1:{server.port}")
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("treelstm")
    assert not client.is_model_ready("other")
    assert client.get_server_metadata()["name"] == "abw"
    about = client.get_model_metadata("treelstm")
    assert [tensor["name"] for tensor in about["outputs"]] == ["classes", "classes.offsets"]
    expected = model(TREES[:7])["classes"]
    for binary in (True, False):
        given = http.InferInput("instances", [7], "BYTES")
        given.set_data_from_numpy(np.array(TREES[:7], object), binary_data=binary)
        names = ("classes", "classes.offsets")
        for outputs in (None, [http.InferRequestedOutput(name, binary_data=binary) for name in names]):
            found = client.infer("treelstm", [given], outputs=outputs, request_id="r1")
            np.testing.assert_array_equal(found.as_numpy("classes.offsets"), expected.offsets)
            if binary or outputs is None:
                np.testing.assert_array_equal(found.as_numpy("classes"), expected.values)
            else:
                np.testing.assert_allclose(found.as_numpy("classes"), expected.values, rtol=1e-6)
            assert found.get_response()["id"] == "r1"
    given.set_data_from_numpy(np.array([*TREES[:6], "(3 (2"], object))
    with pytest.raises(Exception, match="instance 6, column 6: the line ends inside a tree"):
        client.infer("treelstm", [given])
    client.close()


def test_what_cannot_be_served_is_said(home: Path) -> None:
    def said(*arguments: str) -> str:
        environment = {**os.environ, "ABW_HOME": str(home)}
        command = [sys.executable, "-m", "abw", "serve", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=100)
        assert done.returncode and "Traceback" not in done.stderr
        return done.stderr

    assert "with `frequency` an instance's outputs depend on the rest of its file" in said(
        "bilstm-chars", "--port", "0"
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"cannot listen on 127.0.0.1:{port}" in said("treelstm", "--port", port)
    assert "is no time" in said("treelstm", "--timeout", "soon")
