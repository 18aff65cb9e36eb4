"""Connections whose clients break the rules, or keep them in unusual ways."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.core.serve.client import Reply, Server, parsed, serving, stopped

pytest.importorskip("httptools", reason='needs the extra serve: pip install ".[serve]"')
pytest.importorskip("uvloop", reason='needs the extra serve: pip install ".[serve]"')

TREE = "(3 (2 It) (4 works))"
ASK = f"POST /v1/predict HTTP/1.1\r\nhost: x\r\ncontent-length: {len(TREE)}\r\n\r\n{TREE}".encode()
LIVE = b"GET /health/live HTTP/1.1\r\nhost: x\r\n"
KB = 1 << 10
# Seconds that the server waits for a request.
KEPT = 5


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[Server]:
    with serving(home, "treelstm", "--set", "hidden=16", "--timeout", "60s") as found:
        yield found


@pytest.fixture(scope="module")
def strict(home: Path) -> Iterator[Server]:
    with serving(home, "treelstm", "--set", "hidden=16", "--timeout", "1s") as found:
        yield found


async def said(server: Server, *sent: bytes, end: bool = False) -> bytes:
    """All that the server says to what is sent, until it ends the connection; `end`: no more will come."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        for part in sent:
            writer.write(part)
            await writer.drain()
        if end:
            writer.write_eof()
        return await reader.read()
    finally:
        writer.close()


def test_a_header_without_end_is_refused_and_stops_nobody(server: Server) -> None:
    async def attack() -> None:
        assert (await server.predict(TREE)).status == 200
        before = server.resident()
        flood = asyncio.create_task(said(server, LIVE + b"x: ", *[b"a" * 64 * KB] * 1024))
        others = [await server.predict(TREE) for _ in range(20)]
        assert {reply.status for reply in others} == {200}
        reply = parsed(await flood)
        assert reply.status == 431 and reply.headers["connection"] == "close"
        assert "16384 bytes" in reply.lines[0]["error"]["message"]
        assert server.resident() - before < 16 << 20
        assert await server.metric('abw_requests_total{status="431"}') >= 1

    asyncio.run(attack())


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (LIVE + b"x: %s\r\n" % (b"a" * (16 * KB - 1)), 200),
        (LIVE + b"x: %s\r\n" % (b"a" * 16 * KB), 431),
        (LIVE + b"x: %s\r\n" % (b"a" * 15 * KB) * 4, 200),
        (LIVE + b"x: %s\r\n" % (b"a" * 15 * KB) * 5, 431),
        (LIVE + b"x: y\r\n" * 12 * KB, 431),
        (b"GET /%s HTTP/1.1\r\n" % (b"a" * 15 * KB), 404),
        (b"GET /%s HTTP/1.1\r\n" % (b"a" * 17 * KB), 414),
        (b"neither this\r\n", 400),
    ],
)
def test_a_head_is_bounded(server: Server, head: bytes, status: int) -> None:
    assert parsed(asyncio.run(said(server, head + b"connection: close\r\n\r\n"))).status == status


def test_what_is_behind_a_body_is_bounded_too(server: Server) -> None:
    head = b"POST /v1/predict HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n5\r\n(2 a)\r\n0\r\n"
    assert parsed(asyncio.run(said(server, head, b"x: ", b"a" * 128 * KB))).status == 431
    assert parsed(asyncio.run(said(server, head.replace(b"0\r\n", b"neither\r\n")))).status == 400


@pytest.mark.parametrize("half", [b"\r\n", b"POST", LIVE + b"x: y", ASK[:-9]])
def test_half_a_request_is_told_that_it_is_late(strict: Server, half: bytes) -> None:
    reply = parsed(asyncio.run(said(strict, half)))
    assert reply.status == 408 and "within 1 s" in reply.lines[0]["error"]["message"]


def test_a_request_before_a_wrong_one_is_answered(server: Server, strict: Server) -> None:
    large = asyncio.run(said(server, ASK + LIVE + b"x: %s" % (b"a" * 32 * KB)))
    assert parsed(large).status == 200 and large.count(b"HTTP/1.1 ") == 1
    late = asyncio.run(said(strict, ASK + LIVE + b"x: y"))
    assert parsed(late).status == 200 and late.count(b"HTTP/1.1 408 ") == 1


def test_a_client_that_sends_no_more_gets_its_answers(server: Server) -> None:
    async def ask() -> None:
        for sent in [ASK] * 50:
            reply = parsed(await said(server, sent, end=True))
            assert reply.status == 200 and reply.lines[0]["outputs"]
        many = await said(server, ASK * 3, end=True)
        assert many.count(b"HTTP/1.1 200 OK") == many.count(b'"outputs"') == 3
        assert await said(server, ASK[:-9], end=True) == b""

    asyncio.run(ask())


def test_a_client_that_sends_no_more_waits_for_its_answer(server: Server) -> None:
    async def ask() -> Reply:
        async with stopped(server, TREE):
            waiting = asyncio.create_task(said(server, ASK, end=True))
            await server.until("abw_queue_instances", 1)
        return parsed(await waiting)

    reply = asyncio.run(ask())
    assert reply.status == 200 and reply.lines[0]["outputs"]


def test_a_connection_without_a_request_is_closed(server: Server) -> None:
    async def wait() -> None:
        at_once, after_one = await asyncio.wait_for(asyncio.gather(said(server), said(server, ASK)), 2 * KEPT)
        assert at_once == b"" and after_one.count(b"HTTP/1.1 200 OK") == 1

    asyncio.run(wait())


def test_clients_cannot_write_into_the_log(server: Server) -> None:
    async def send() -> None:
        assert b" 400 " in await said(server, b"\x00\xff\r\n\r\n", end=True)
        upgrade = LIVE + b"connection: upgrade\r\nupgrade: websocket\r\n\r\n"
        assert b" 200 " in await said(server, upgrade, end=True)
        java = b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMA\r\nhost"
        asked = ASK.replace(b"host", java)
        twice = await said(server, asked + asked[:40], asked[40:], end=True)
        assert twice.count(b" 200 OK") == twice.count(b'"outputs"') == 2
        assert b" 400 " in await said(server, b"CONNECT x:80 HTTP/1.1\r\nhost: x\r\n\r\n")

    before = server.log.read_text()
    asyncio.run(send())
    assert server.log.read_text() == before


def test_the_root_lists_the_addresses(server: Server) -> None:
    async def ask() -> None:
        listed = (await server.ask("/")).lines[0]["addresses"]
        assert "POST /v1/predict" in listed and "POST /v2/models/treelstm/infer" in listed
        for address in listed:
            method, path = address.split()
            reply = await server.ask(path, TREE.encode() if method == "POST" else None)
            assert reply.status in (200, 400)
        for path, status in (("/nothing", 404), ("/v1/predict", 405)):
            reply = await server.ask(path)
            assert reply.status == status
            assert "GET / lists the addresses" in reply.lines[0]["error"]["message"]

    asyncio.run(ask())


def test_a_hangup_that_is_ignored_stays_so(home: Path) -> None:
    async def ask(server: Server) -> None:
        os.kill(server.process.pid, signal.SIGHUP)
        assert (await server.predict(TREE)).status == 200

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does, for its children
    try:
        with serving(home, "treelstm", "--set", "hidden=16") as found:
            asyncio.run(ask(found))
    finally:
        signal.signal(signal.SIGHUP, before)
