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


class Frames:
    """Splits a stream of bytes into messages."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._wanted = _HEAD.size  # bytes until the next message may be whole

    def add(self, data: bytes) -> Iterator[tuple[Any, bytes]]:
        """Add bytes; yields the messages that are complete."""
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


def messages(connection: socket.socket) -> Iterator[tuple[Any, bytes]]:
    """Yield the messages of a connection until it is closed."""
    frames = Frames()
    while data := connection.recv(1 << 16):
        yield from frames.add(data)
