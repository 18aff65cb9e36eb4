"""HTTP on one connection: uvicorn's protocol, with request heads bounded in size and time."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from abw.core.serve.app import Service

# The most bytes of the address or of one header, and of all headers with the address.
HEADER, HEAD = 16 << 10, 64 << 10

# Bytes passed to the parser at once: it joins a header's pieces in time quadratic in their number.
PIECE = 4 << 10

# The beginning of every answer, in two pieces.
PROBES = (b"HTTP/", b"1.1 ")
# Seconds between the two.
PROBED = 0.02


class Protocol(HttpToolsProtocol):
    """A connection to a client.

    A request's head counts towards the service's time-out. One that is too large or too slow is refused, and
    what the client still sends is thrown away, so that it can read the answer. A client that sends no more
    gets the answers to its whole requests.
    """

    def __init__(self, service: Service, **given: Any) -> None:  # noqa: ANN401 (uvicorn's)
        super().__init__(**given)
        self._service = service
        self._begun = 0.0
        self._timer: asyncio.TimerHandle | None = None  # while a head has begun and is not whole
        self._heading = False  # whether the parser is inside of a head
        self._size = 0  # bytes of the head's address and whole headers
        self._unknown = 0  # bytes since the parser last said what it found
        self._wrong: tuple[int, str] | None = None
        self._refused = False

    @property
    def _idle(self) -> bool:
        """Whether no request is waiting for its answer."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 (uvicorn's)
        """Begin to wait for a request, as long as between two requests."""
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def data_received(self, data: bytes) -> None:
        """Parse received bytes, piece by piece."""
        self._start_timer()
        for at in range(0, len(data), PIECE):
            if self._refused or self.transport.is_closing():
                return
            piece = data[at : at + PIECE]
            self._unknown += len(piece)
            super().data_received(piece)
            if self._unknown > HEADER:
                self._refuse(431, f"a header has {HEADER} bytes at most")

    def on_message_begin(self) -> None:
        """Begin a head."""
        self._heading = True
        self._size = self._unknown = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Check a part of the address."""
        super().on_url(url)
        self._count(len(url))
        if len(self.url) > HEADER:
            self._fail(414, f"an address has {HEADER} bytes at most")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Check a header, of the head or after the body."""
        self._count(len(name) + len(value) + len(b": \r\n"))
        if len(name) + len(value) > HEADER:
            self._fail(431, f"a header has {HEADER} bytes at most")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """End the head."""
        self._heading = False
        self._unknown = 0
        self._stop_timer()
        if self._idle:  # else its time begins when the request before it is answered
            self.scope["state"]["begun"] = self._begun
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Receive a part of the body."""
        self._unknown = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the request."""
        self._unknown = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse a request at which the parser has stopped: by `_fail`, or because it is not HTTP."""
        self._refuse(*(self._wrong or (400, "this is no request of HTTP")))

    def eof_received(self) -> Any:  # noqa: ANN401 (a bool, of which uvicorn's type knows nothing)
        """The client sends no more; whether the connection is kept for answers.

        A client that has gone altogether looks the same. Its system says so when it is sent something, which
        is why the first bytes of the answer go ahead.
        """
        if self._idle or self.cycle.more_body or self._refused:
            return False
        self.cycle.keep_alive = False
        if not self.pipeline and not self.cycle.response_started:
            self._probe(0)
        return True

    def on_response_complete(self) -> None:
        """Note that a request is answered; the head of the next one may have begun."""
        super().on_response_complete()
        if self._heading and self._idle:
            self._unset_keepalive_if_required()
            self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop timers when the connection has ended."""
        self._stop_timer()
        super().connection_lost(exc)

    def _count(self, size: int) -> None:
        """Count bytes of the head."""
        self._unknown = 0
        self._size += size
        if self._size > HEAD:
            self._fail(431, f"all headers have {HEAD} bytes at most")

    def _fail(self, status: int, message: str) -> None:
        """Stop the parser, so that uvicorn sends the refusal."""
        self._wrong = status, message
        raise ValueError(message)

    def _late(self) -> None:
        self._refuse(408, f"the request did not come within {self._service.limits.timeout:g} s")

    def _refuse(self, status: int, message: str) -> None:
        """Answer a request that is not read completely, and close the connection."""
        self._refused = True
        self._stop_timer()
        if not self._idle:
            if not self.cycle.more_body or self.pipeline or self.cycle.response_started:
                self.cycle.keep_alive = False  # what came before it is answered
                return
            self.cycle.disconnected = True  # it is this request's body: nobody waits for it any more
            self.cycle.message_event.set()
        self._service.dispatcher.metrics.requests.labels(str(status)).inc()
        body = orjson.dumps({"error": {"message": message}}, option=orjson.OPT_APPEND_NEWLINE)
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.write_eof()
        self._timer = self.loop.call_later(self._service.limits.timeout, self.transport.close)

    def _start_timer(self) -> None:
        """Start the time of a head, unless it has started or an earlier request is not answered yet."""
        if self._timer is None and self._idle and not self._refused:
            self._begun = self.loop.time()
            self._timer = self.loop.call_later(self._service.limits.timeout, self._late)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _probe(self, number: int) -> None:
        """Send a piece of the beginning of every answer; writing fails if the client has gone."""
        cycle: Any = self.cycle
        if cycle.response_started or self.transport.is_closing():
            return
        self.transport.write(PROBES[number])
        cycle.transport = _Begun(self, sum(map(len, PROBES[: number + 1])))
        if number + 1 < len(PROBES):
            self.loop.call_later(PROBED, self._probe, number + 1)


class _Begun:
    """The transport of an answer whose first bytes have been sent."""

    def __init__(self, protocol: Protocol, sent: int) -> None:
        self._protocol = protocol
        self._sent = sent

    def write(self, data: bytes) -> None:
        """Send the rest of the answer's head."""
        transport = self._protocol.transport
        self._protocol.cycle.transport = transport
        transport.write(data[self._sent :])

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (uvicorn's)
        return getattr(self._protocol.transport, name)
