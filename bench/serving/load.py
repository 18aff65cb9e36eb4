"""A client that asks as fast as it is answered over some connections, or so many times a second."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

TIMEOUT = 30.0


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes) -> int:
    """Send a request and read its answer; the status."""
    head = b"POST /v1/predict HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(body)
    writer.write(head + body)
    said = await reader.readuntil(b"\r\n\r\n")
    at = said.lower().index(b"content-length: ") + 16
    await reader.readexactly(int(said[at : said.index(b"\r", at)]))
    return int(said[9:12])


async def closed(port: int, bodies: list[bytes], connections: int, seconds: float) -> dict[str, Any]:
    """Each connection asks again as soon as it is answered."""
    took: list[float] = []
    wrong = 0
    end = time.perf_counter() + seconds

    async def client(number: int) -> None:
        nonlocal wrong
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        at = number
        while (begun := time.perf_counter()) < end:
            wrong += await ask(reader, writer, bodies[at % len(bodies)]) != 200
            took.append(time.perf_counter() - begun)
            at += connections
        writer.close()

    begun = time.perf_counter()
    await asyncio.gather(*map(client, range(connections)))
    return told(took, wrong, time.perf_counter() - begun)


async def fixed(port: int, bodies: list[bytes], rate: float, seconds: float) -> dict[str, Any]:
    """Requests at fixed times, on a connection that is free; what one takes counts from when it was due."""
    took: list[float] = []
    wrong = 0
    free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def one(number: int, due: float) -> None:
        nonlocal wrong
        pair = free.pop() if free else await asyncio.open_connection("127.0.0.1", port)
        wrong += await ask(*pair, bodies[number % len(bodies)]) != 200
        took.append(time.perf_counter() - due)
        free.append(pair)

    begun = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for number in range(int(rate * seconds)):
            due = begun + number / rate
            if (early := due - time.perf_counter()) > 0:
                await asyncio.sleep(early)
            tasks.create_task(one(number, due))
    for _, writer in free:
        writer.close()
    return told(took, wrong, time.perf_counter() - begun)


def told(took: list[float], wrong: int, seconds: float) -> dict[str, Any]:
    """What came of it: requests a second, seconds of the median and of the slowest hundredth."""
    took.sort()
    count = len(took)
    return {
        "requests": count,
        "failed": wrong,
        "per_second": count / seconds,
        "p50": took[count // 2],
        "p99": took[count * 99 // 100],
    }


def main() -> None:
    """A process of its own: arguments are port, file of instances, `closed` or `fixed`, how many, seconds."""
    port, path, how, number, seconds = sys.argv[1:]
    with open(path, "rb") as file:  # noqa: PTH123
        bodies = file.read().splitlines()
    run = {"closed": closed, "fixed": fixed}[how]
    print(json.dumps(asyncio.run(run(int(port), bodies, int(number), float(seconds)))))


if __name__ == "__main__":
    main()
