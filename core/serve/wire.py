"""Messages between the server and its engine: a JSON document followed by bytes."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any

import orjson

# The bytes of the document, and those behind it.
_HEAD = struct.Struct("<II")


def packed(document: Any, payload: bytes = b"") -> bytes:  # noqa: ANN401 (what JSON can hold)
    """Encode a message."""
    said = orjson.dumps(document)
    return b"".join((_HEAD.pack(len(said), len(payload)), said, payload))


def receive(connection: socket.socket) -> tuple[Any, bytes] | None:
    """Receive the next message; None if the other end is closed."""
    head = _exactly(connection, _HEAD.size)
    if head is None:
        return None
    sizes = _HEAD.unpack(head)
    body = _exactly(connection, sum(sizes))
    return None if body is None else (orjson.loads(body[: sizes[0]]), body[sizes[0] :])


async def receive_async(reader: asyncio.StreamReader) -> tuple[Any, bytes]:
    """Receive the next message. Raises IncompleteReadError or ConnectionError if the other end is closed."""
    sizes = _HEAD.unpack(await reader.readexactly(_HEAD.size))
    body = await reader.readexactly(sum(sizes))
    return orjson.loads(body[: sizes[0]]), body[sizes[0] :]


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    parts = []
    while size:
        part = connection.recv(min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
