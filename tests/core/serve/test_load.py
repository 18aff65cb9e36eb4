"""A server under more load than it can take, whose engines die, and whose weights change."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from itertools import chain
from pathlib import Path
from statistics import median

import pytest

from abw.bench.serving.load import asked, request_of
from tests.core.serve.client import Reply, Server, parsed, repeating, stopped
from tests.faults import serving

pytest.importorskip("httptools", reason='needs the extra serve: pip install ".[serve]"')
pytest.importorskip("uvloop", reason='needs the extra serve: pip install ".[serve]"')


@pytest.mark.parametrize("times", [2, 4])
def test_a_server_that_is_offered_too_much_answers_what_it_can(tmp_path: Path, times: int) -> None:
    each, seconds = 0.004, 2.0
    capacity = 1 / each
    with repeating(tmp_path, seconds=each, limits={"batch": 8, "timeout": 0.5}) as server:
        offer = asked(server.port, [b"a b"], 1000, seconds, times * capacity)
        found, unsent = asyncio.run(offer)
        could = asyncio.run(server.metric("abw_instances_run_total"))
        answered = asyncio.run(server.metric("abw_instances_total"))
        refused = asyncio.run(server.metric('abw_requests_total{status="429"}'))
    assert not unsent and set(found) <= {200, 429, 504}
    # sleep takes longer than it is told: what the engine did in this time is what it could
    assert len(found[200]) > 0.6 * capacity * seconds and len(found[200]) >= 0.9 * could
    assert answered == len(found[200]) and refused == len(found[429])
    assert median(found[429]) < median(found[200]) and median(found[429]) < 0.3
    assert len(found[504]) < 0.1 * could
    assert all(0.4 < took < 1.5 for took in found[504])


def test_refusals_say_when_to_come_again_and_504_comes_on_time(tmp_path: Path) -> None:
    async def ask(server: Server) -> list[tuple[Reply, float]]:
        async def one() -> tuple[Reply, float]:
            begun = time.monotonic()
            return await server.predict("a"), time.monotonic() - begun

        return await asyncio.gather(*(one() for _ in range(12)))

    with repeating(tmp_path, seconds=1.0, limits={"batch": 1, "timeout": 0.5, "queue": 4}) as server:
        replies = asyncio.run(ask(server))
    found = Counter(reply.status for reply, _ in replies)
    assert found[429] >= 6 and found[504] >= 4 and found[429] + found[504] == 12
    for reply, took in replies:
        assert reply.status != 429 or int(reply.headers["retry-after"]) >= 1
        assert reply.status != 504 or 0.45 < took < 1.5


def test_a_refusal_is_the_same_however_the_request_is_parsed(tmp_path: Path) -> None:
    plain = request_of(b"x")
    kept = plain.replace(b"\r\n\r\n", b"\r\nconnection: keep-alive\r\n\r\n")
    named = plain.replace(b"/v1/", b"/v1/models/stub/").replace(b"content-", b"Content-type: a/b\r\nContent-")
    ways = (
        [plain],
        [kept],
        [named],
        [plain[:-9], plain[-9:]],
        [plain + kept],
        [named + plain[:50], plain[50:]],
    )

    async def ask(server: Server) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)

        async def answer() -> bytes:
            head = await reader.readuntil(b"\r\n\r\n")
            size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
            lines = [line for line in head.splitlines() if not line.startswith(b"date: ")]
            return b"\n".join(lines) + await reader.readexactly(size)

        async with stopped(server, "a"):
            waiting = [asyncio.create_task(server.predict("a")) for _ in range(2)]
            await server.until("abw_queue_instances", 2)
            for sent in ways:
                for part in sent:
                    writer.write(part)
                    await asyncio.sleep(0.02)
                said = [await answer() for _ in range(sum(map(len, sent)) // len(plain))]
                assert said[0].startswith(b"HTTP/1.1 429 ") and b"retry-after: 1" in said[0]
                assert b'{"error":{"message":"2 instances are waiting; at most 2 may"}}' in said[0]
                assert len(set(said)) == 1
            assert await server.metric('abw_requests_total{status="429"}') == 8
            assert await server.metric('abw_request_seconds_count{model="stub",result="refused"}') == 8
        assert {reply.status for reply in await asyncio.gather(*waiting)} == {200}
        writer.write(plain)
        assert (await answer()).startswith(b"HTTP/1.1 200 ")
        writer.close()

    with repeating(tmp_path, limits={"batch": 1, "queue": 2, "timeout": 60.0}) as server:
        asyncio.run(ask(server))


def test_large_requests_take_turns_with_small_ones(tmp_path: Path) -> None:
    large = "\n".join(f"large {i}" for i in range(500))

    async def ask(server: Server) -> tuple[float, float]:
        ended = asyncio.Event()

        async def whole() -> None:
            while not ended.is_set():
                reply = await server.predict(large)
                assert [line["said"] for line in reply.lines] == large.split("\n")
                assert [line["id"] for line in reply.lines] == list(range(500))

        async def singles(count: int) -> list[float]:
            took = []
            for i in range(count):
                begun = time.monotonic()
                assert (await server.predict(f"single {i}")).lines[0]["said"] == f"single {i}"
                took.append(time.monotonic() - begun)
            return took

        async def clients() -> float:
            return median(chain.from_iterable(await asyncio.gather(*(singles(12) for _ in range(8)))))

        alone = await clients()
        beside = [asyncio.create_task(whole()) for _ in range(2)]
        await asyncio.sleep(0.1)
        together = await clients()
        ended.set()
        await asyncio.gather(*beside)
        return alone, together

    with repeating(tmp_path, seconds=0.001, limits={"timeout": 60.0, "queue": 2000}) as server:
        alone, together = asyncio.run(ask(server))
    assert together < 6 * alone  # a request of 500 takes 50 times as long


def test_each_answer_is_the_right_one_while_engines_die(tmp_path: Path) -> None:
    tally = serving.kill(tmp_path, 1500, seed=0)
    assert not tally.wrong, tally.wrong[:3]
    assert tally.ends == {"200": 1500, "kills": 3}


def test_what_hundreds_send_at_once_in_pieces_is_answered_in_order(tmp_path: Path) -> None:
    async def ask(server: Server) -> None:
        opened = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(300)]
        sent = [b"".join(request_of(b"%d of %d" % (k, n)) for k in range(3)) for n in range(len(opened))]
        for part in range(3):
            for (_, writer), data in zip(opened, sent, strict=True):
                size = len(data) // 3 + 1
                writer.write(data[part * size : (part + 1) * size])
            await asyncio.sleep(0)
        for n, (_, writer) in enumerate(opened):
            if n % 2:
                writer.write_eof()
        for n, (reader, writer) in enumerate(opened):
            for k in range(3):
                said = parsed(await reader.readuntil(b"}\n"))
                assert said.status == 200 and said.lines[0]["said"] == f"{k} of {n}"
            if n % 2:
                assert await reader.read() == b""
            writer.close()

    with repeating(tmp_path, limits={"timeout": 60.0}) as server:
        asyncio.run(ask(server))


def test_a_spare_takes_over_before_anybody_is_late(tmp_path: Path) -> None:
    async def kill(server: Server) -> None:
        for died in range(2):
            await server.until("abw_engines", 2)  # with the spare
            os.kill(server.engines[0], signal.SIGKILL)  # the first one is the older
            replies = await asyncio.gather(*(server.predict("a") for _ in range(8)))
            assert {reply.status for reply in replies} == {200}
            await server.until("abw_engine_restarts_total", died + 1)

    with repeating(tmp_path, start=3.0, spare=True, limits={"timeout": 2.5}) as server:
        asyncio.run(kill(server))


@pytest.mark.parametrize("how", ["post", "signal"])
def test_new_weights_are_taken_without_losing_a_request(tmp_path: Path, how: str) -> None:
    weights = tmp_path / "weights"
    weights.write_text("old")
    several = "\n".join("abcdefghij" * 3)

    async def ask(server: Server) -> list[str]:
        seen: list[str] = []
        ended = asyncio.Event()

        async def client() -> None:
            while not ended.is_set():
                reply = await server.predict(several)
                assert reply.status == 200
                (one,) = {line["weights"] for line in reply.lines}  # never of both
                seen.append(one)

        await server.until("abw_engines", 2)  # both have read the weights
        clients = [asyncio.create_task(client()) for _ in range(4)]
        weights.write_text("bad")
        reply = await server.ask("/v1/models/stub/load", b"")
        assert reply.status == 500 and "the weights are bad (take good ones)" in reply.lines[0]["error"]
        weights.write_text("new")
        if how == "signal":
            server.process.send_signal(signal.SIGHUP)
        else:
            assert (await server.ask("/v2/repository/models/stub/load", b"{}")).status == 200
        await server.until("abw_loads_total", 1)
        after = await server.predict("now")
        assert after.lines[0]["weights"] == "new"
        ended.set()
        await asyncio.gather(*clients)
        return seen

    limits = {"timeout": 60.0, "batch": 8}
    with repeating(tmp_path, seconds=0.001, weights=str(weights), engines=2, limits=limits) as server:
        seen = asyncio.run(ask(server))
        for _ in range(200):
            if len(server.engines) == 2:
                break
            time.sleep(0.01)
        assert len(server.engines) == 2
        assert "Traceback" not in server.log.read_text()
    assert "old" in seen and set(seen) <= {"old", "new"}
    assert "new" not in seen[: seen.index("new")] if "new" in seen else True


def test_an_engine_that_dies_after_weights_have_changed_never_answers_beside_old_ones(tmp_path: Path) -> None:
    weights, written = tmp_path / "weights", tmp_path / "written"
    weights.write_text("old")
    several = "\n".join("abcdefghij" * 3)

    def write(text: str) -> None:
        written.write_text(text)
        written.replace(weights)

    async def ask(server: Server) -> None:
        async def once() -> str:
            reply = await server.predict(several)
            (one,) = {line["weights"] for line in reply.lines}
            return str(one)

        await server.until("abw_engines", 2)
        assert await once() == "old"
        write("new")
        assert await once() == "old"
        os.kill(server.engines[0], signal.SIGKILL)
        for _ in range(1000):
            if await once() == "new":
                break
        assert await server.metric("abw_loads_total") == 1
        await server.until("abw_engines", 2)
        write("bad")
        os.kill(server.engines[0], signal.SIGKILL)
        await server.until("abw_engine_restarts_total", 2)
        for _ in range(1000):
            assert await once() == "new"
            if "an engine could not be replaced: the weights are bad" in server.log.read_text():
                return
            await asyncio.sleep(0.01)
        raise AssertionError("nothing is said of the bad weights")

    limits = {"timeout": 60.0, "batch": 8}
    with repeating(tmp_path, seconds=0.001, weights=str(weights), engines=2, limits=limits) as server:
        asyncio.run(ask(server))
        assert "Traceback" not in server.log.read_text()


def test_several_models_by_name(tmp_path: Path) -> None:
    async def ask(server: Server) -> None:
        for path, model in (
            ("/v1/predict", "a"),
            ("/v1/models/a/predict", "a"),
            ("/v1/models/b/predict", "b"),
        ):
            assert (await server.ask(path, b"x")).lines == [
                {"id": 0, "said": "x", "weights": "", "model": model}
            ]
        reply = await server.ask("/v1/models/c/predict", b"x")
        assert reply.status == 404 and "no model is called 'c': a, b" in reply.lines[0]["error"]["message"]
        listed = json.loads((await server.ask("/v1/models")).body)["models"]
        assert listed == [{"name": "a", "ready": True}, {"name": "b", "ready": True}]
        assert (await server.ask("/v2/models/b/ready")).status == 200
        addresses = (await server.ask("/")).lines[0]["addresses"]
        assert {"POST /v1/models/a/predict", "POST /v1/models/b/predict"} <= addresses.keys()
        assert await server.metric('abw_instances_total{model="b"}') == 1

    with repeating(tmp_path, models=["a", "b"]) as server:
        asyncio.run(ask(server))
    with repeating(tmp_path, models=["x", "x"], names=["a", "b"]) as server:
        assert asyncio.run(server.ask("/v1/models/b/predict", b"x")).lines[0]["model"] == "x"
    options = json.dumps({"models": ["x", "x"]})
    command = [sys.executable, "-m", "tests.core.serve.stub", options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "two models are called x" in done.stderr and "--name A --name B" in done.stderr


def test_a_unix_socket_that_is_in_use_is_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "s"

    def ask() -> bytes:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            connection.sendall(request_of(b"x").replace(b"\r\n", b"\r\nconnection: close\r\n", 1))
            said = b""
            while more := connection.recv(1 << 16):
                said += more
            return said

    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))  # as a killed server leaves it
    with repeating(tmp_path, uds=str(path)) as server:
        assert f"unix:{path}" in server.log.read_text()
        assert parsed(ask()).lines[0]["said"] == "x"
        options = json.dumps({"uds": str(path)})
        command = [sys.executable, "-m", "tests.core.serve.stub", options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert "another server listens there" in done.stderr and "--uds names another file" in done.stderr
        assert parsed(ask()).status == 200
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(20) == 0
    assert not path.exists()
