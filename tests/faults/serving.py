"""Kills of engines amid requests: each answer must be the right one, for the right client."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from abw.bench.serving.load import Asker, request_of
from tests.core.serve.client import Server, parsed, repeating
from tests.faults.kills import Tally

# Connections that ask at the same time.
CLIENTS = 32
# The most instances of a request, and how many requests have but one for each that has more.
MOST, FEW = 300, 7


def texts_of(i: int, requests: int) -> list[str]:
    """The instances of request `i`, which no other request has."""
    more = i * 37 % MOST if i % FEW == 0 else 0
    return [f"request {i} of {requests}", *(f"{i}.{k}" for k in range(more))]


def kill(folder: Path, requests: int, seed: int) -> Tally:
    """Ask `requests` different things, and kill an engine once in 500; two engines and a spare."""
    with repeating(folder, engines=2, spare=True, limits={"timeout": 60.0, "queue": 100_000}) as server:
        ends, wrong = asyncio.run(asked(server, requests, texts_of, max(1, requests // 500), seed))
    return Tally(Counter(ends), wrong)


async def asked(
    server: Server, requests: int, texts_of: Callable[[int, int], list[str]], kills: int, seed: int
) -> tuple[dict[str, int], list[str]]:
    """How requests ended, and all that was wrong, while engines are killed."""
    wrong: list[str] = []
    ends: Counter[str] = Counter()
    numbers = iter(range(requests))
    draw = random.Random(seed)

    async def client() -> None:
        loop = asyncio.get_running_loop()
        _, asker = await loop.create_connection(Asker, "127.0.0.1", server.port)
        for i in numbers:
            texts = texts_of(i, requests)
            answered: asyncio.Future[tuple[int, bytes]] = loop.create_future()

            def done(
                status: int, answer: bytes, answered: asyncio.Future[tuple[int, bytes]] = answered
            ) -> None:
                answered.set_result((status, answer))

            asker.ask(request_of("\n".join(texts).encode()), done)
            status, answer = await asyncio.wait_for(answered, 120)
            lines = parsed(answer).lines if status == 200 else []
            said = [(line["id"], line["said"]) for line in lines]
            if said != list(enumerate(texts)):
                wrong.append(f"request {i}: {status}, {said[:3]} instead of {texts[:3]}")
            ends[str(status)] += 1
        asker.close()

    async def killer() -> None:
        for n in range(kills):
            while sum(ends.values()) < (n + draw.random()) * requests / kills:
                await asyncio.sleep(0.001)
            before = await server.metric("abw_engine_restarts_total")
            while not (engines := server.engines):  # Linux may miss some while others end
                await asyncio.sleep(0.001)
            with contextlib.suppress(ProcessLookupError):
                os.kill(draw.choice(engines), signal.SIGKILL)
            end = time.monotonic() + 60
            while await server.metric("abw_engine_restarts_total") == before and time.monotonic() < end:
                await asyncio.sleep(0.01)
        ends["kills"] = int(await server.metric("abw_engine_restarts_total"))

    await asyncio.gather(killer(), *(client() for _ in range(CLIENTS)))
    return ends, wrong
