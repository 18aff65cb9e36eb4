"""Messages between the server and its engine: a JSON document followed by bytes."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
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


class Frames:
    """Messages out of a stream of bytes, of which any number arrive at once."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._wanted = _HEAD.size  # bytes until the next message may be whole

    def add(self, data: bytes) -> Iterator[tuple[Any, bytes]]:
        """Yield the messages that are whole now."""
        held = self._held
        held += data
        while len(held) >= self._wanted:
            document, payload = _HEAD.unpack_from(held)
            end = _HEAD.size + document + payload
            self._wanted = end
            if len(held) < end:
                return
            middle = _HEAD.size + document
            message = orjson.loads(held[_HEAD.size : middle]), bytes(held[middle:end])
            del held[:end]
            self._wanted = _HEAD.size
            yield message


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    parts = []
    while size:
        part = connection.recv(min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
