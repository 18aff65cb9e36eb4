"""HTTP/1.1 on one connection: whole requests in, one write an answer; heads bounded in size and time."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import NoReturn, Protocol, cast

import httptools
import orjson

# The most bytes of the address or of one header, and of all headers with the address.
HEADER, HEAD = 16 << 10, 64 << 10

# Bytes passed to the parser at once: it joins a header's pieces in time quadratic in their number.
PIECE = 4 << 10

# The beginning of every answer, in two pieces.
PROBES = (b"HTTP/", b"1.1 ")
# Seconds between the two.
PROBED = 0.02
# Seconds that a connection is kept open without a request.
KEPT = 5.0

# The first line of an answer.
LINES = {s.value: f"HTTP/1.1 {s.value} {s.phrase}\r\n".encode() for s in HTTPStatus}
LINES[499] = b"HTTP/1.1 499 Client Closed Request\r\n"
NDJSON, JSON = b"application/x-ndjson", b"application/json"
CLOSE = b"connection: close\r\n"


def written(status: int, kind: bytes, body: bytes, headers: bytes) -> bytes:
    """Write an answer. `kind`: the content type; `headers`: further ones, a line each."""
    form = b"%b%bcontent-type: %b\r\ncontent-length: %d\r\n\r\n%b"
    return form % (LINES[status], headers, kind, len(body), body)


@dataclass(slots=True, eq=False)
class Exchange:
    """A whole request of HTTP, which is answered once.

    `headers` have lower-case names; `alive`: whether the connection stays open; `since`: when the request was
    whole, by `time.monotonic`; `asked`: what the site keeps with it while it is not answered.
    """

    connection: Connection
    method: bytes
    target: bytes
    headers: Mapping[bytes, bytes]
    body: bytes
    alive: bool
    since: float = field(default_factory=time.monotonic)
    asked: object = None

    def send(self, status: int, kind: bytes, body: bytes, more: bytes = b"") -> None:
        """Answer. `kind`: the content type; `more`: further headers, a line each."""
        self.connection.answer(self, status, kind, body, more)


class Site(Protocol):
    """The server behind connections, which answers requests.

    A request must be whole within `timeout` seconds, and has a body of `most` bytes at most. `date`: the
    header with the time, as a line.
    """

    timeout: float
    most: int
    date: bytes
    connections: set[Connection]

    def shed(self, data: bytes) -> bytes:
        """The answer to a plain request that is refused because there is no room; empty for any other."""

    def later(self, connection: Connection) -> bool:
        """Whether what a connection has received is parsed later (`parse`), because much else has arrived."""

    def begin(self, exchange: Exchange) -> None:
        """Answer a request, now or later."""

    def refuse(self, exchange: Exchange, status: int, message: str) -> None:
        """Answer a request whose body is not there, now."""

    def leave(self, exchange: Exchange) -> None:
        """Note that nobody is waiting for the answer any more."""

    def count(self, status: int) -> None:
        """Count a request that had no whole head."""


class Connection(asyncio.Protocol):
    """A connection to a client.

    Requests are answered one after the other. One that is too large or comes too slowly is refused, and what
    the client still sends is thrown away, so that it can read the answer. A client that sends no more gets
    the answers to its whole requests.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self.idle_since = time.monotonic()
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport = asyncio.Transport()  # until there is one
        self._current: Exchange | None = None  # the request that is being answered
        self._behind: deque[Exchange] = deque()  # whole requests behind it
        self._full = False  # whether the client does not read its answers
        self._held: list[bytes] = []  # received, and parsed later
        self._timer: asyncio.TimerHandle | None = None  # while a request has begun and is not whole
        self._wrong: tuple[int, str] | None = None
        # what arrives is thrown away; the last answer is being read; no more requests; `_advance` runs
        self._deaf = self._lingering = self._ending = self._advancing = self._paused = False
        self._ahead = 0  # bytes of the next answer that have been sent
        self._unknown = 0  # bytes since the parser last said what it found
        # of the request that is being parsed
        self._inside = self._whole = self._in_body = self._too_large = self._continue = False
        self._target = b""
        self._headers: dict[bytes, bytes] = {}
        self._size = self._body_size = 0  # bytes of the head's address and whole headers, and of the body
        self._body: list[bytes] = []

    # What the client does.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the time limit for a first request."""
        self._transport = cast(asyncio.Transport, transport)
        self._site.connections.add(self)

    def data_received(self, data: bytes) -> None:
        """Take received bytes."""
        if self._held:
            self._held.append(data)
        elif self._shed(data):
            return
        elif self._site.later(self):
            self._held = [data]
        else:
            self._parse(data)

    def parse(self) -> None:
        """Parse what was kept for later."""
        held, self._held = self._held, []
        if held and not self._shed(data := b"".join(held)):
            self._parse(data)

    def _shed(self, data: bytes) -> bool:
        """Refuse a request for which there is no room, unless another one comes before it."""
        if self._inside or self._current is not None or self._timer is not None or self._held:
            return False
        if self._deaf or self._full or self._ending or not (said := self._site.shed(data)):
            return False
        self._transport.write(said)
        self.idle_since = time.monotonic()
        return True

    def _parse(self, data: bytes) -> None:
        """Parse bytes, piece by piece."""
        if self._deaf:
            return
        self._whole = False
        if len(data) <= PIECE:
            self._feed(data)
        else:
            for at in range(0, len(data), PIECE):
                self._feed(data[at : at + PIECE])
                if self._deaf or self._transport.is_closing():
                    return
        if self._inside or not self._whole:
            self._start_timer()
        if self._behind and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def _feed(self, piece: bytes) -> None:
        self._unknown += len(piece)
        try:
            self._parser.feed_data(piece)
        except httptools.HttpParserUpgrade as upgrade:  # to what is not spoken here
            self._stay(piece[upgrade.args[0] :])
            return
        except httptools.HttpParserError:
            self._refuse(*(self._wrong or (400, "this is not an HTTP request")))
            return
        if self._unknown > HEADER:
            self._refuse(431, f"a header has {HEADER} bytes at most")

    def _stay(self, rest: bytes) -> None:
        """Parse a request again without its wish to go on in another protocol; `rest` follows its head."""
        method = self._parser.get_method()
        if method == b"CONNECT":
            self._refuse(400, "this is not an HTTP request")
            return
        self._parser = httptools.HttpRequestParser(self)
        kept = {k: v for k, v in self._headers.items() if k not in (b"connection", b"upgrade")}
        head = b"".join(b"%b: %b\r\n" % header for header in kept.items())
        self._feed(b"%b %b HTTP/1.1\r\n%b\r\n%b" % (method, self._target, head, rest))

    def eof_received(self) -> bool:
        """The client sends no more; whether the connection is kept for answers.

        A client that has gone altogether looks the same. Its system says so when it is sent something, which
        is why the first bytes of the answer go ahead.
        """
        self.parse()
        if self._current is None:
            return False
        (self._behind[-1] if self._behind else self._current).alive = False
        if not self._behind:
            self._probe(0)
        return True

    def connection_lost(self, _: Exception | None) -> None:
        """Cancel the requests of a client that has gone."""
        self._stop_timer()
        self._held.clear()
        self._site.connections.discard(self)
        if self._current is not None:
            self._site.leave(self._current)
        self._current = None
        self._behind.clear()

    def pause_writing(self) -> None:
        """Start no further requests while the client does not read."""
        self._full = True

    def resume_writing(self) -> None:
        """Go on."""
        self._full = False
        self._advance()

    # What the parser finds.

    def on_message_begin(self) -> None:
        """Begin a head."""
        self._inside, self._in_body, self._too_large = True, False, False
        self._size = self._unknown = self._body_size = 0
        self._target = b""
        self._headers = {}
        self._body = []

    def on_url(self, url: bytes) -> None:
        """Take a part of the address."""
        self._target += url
        self._count(len(url))
        if len(self._target) > HEADER:
            self._fail(414, f"an address has {HEADER} bytes at most")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, of the head or after the body."""
        self._count(len(name) + len(value) + 4)  # with ": " and the line's end
        if len(name) + len(value) > HEADER:
            self._fail(431, f"a header has {HEADER} bytes at most")
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        """End the head."""
        self._unknown = 0
        self._in_body = True
        self._too_large = int(self._headers.get(b"content-length", 0)) > self._site.most
        if b"expect" in self._headers:
            if self._too_large:
                self._fail(413, self._large())
            self._continue = True
            if self._current is None:
                self._say_continue()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body; one that is too large is received, and not kept.

        A client that is still sending would not see the refusal.
        """
        self._unknown = 0
        self._body_size += len(body)
        if self._body_size > self._site.most:
            self._too_large = True
        if self._too_large:
            self._body.clear()
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        """Answer a request, or line it up behind those before it."""
        if self._parser.should_upgrade():
            return
        if self._too_large:
            self._fail(413, self._large())
        self._unknown = 0
        self._inside, self._whole, self._continue = False, True, False
        if self._timer is not None:
            self._stop_timer()
        parts = self._body
        self._behind.append(self._exchange(parts[0] if len(parts) == 1 else b"".join(parts)))
        if self._current is None:
            self._advance()

    def _exchange(self, body: bytes) -> Exchange:
        parser = self._parser
        alive = parser.should_keep_alive() and parser.get_http_version() == "1.1"
        return Exchange(self, parser.get_method(), self._target, self._headers, body, alive)

    def _count(self, size: int) -> None:
        """Count bytes of the head."""
        self._unknown = 0
        self._size += size
        if self._size > HEAD:
            self._fail(431, f"all headers have {HEAD} bytes at most")

    def _fail(self, status: int, message: str) -> NoReturn:
        """Stop the parser, and refuse the request."""
        self._wrong = status, message
        raise ValueError(message)

    def _large(self) -> str:
        return f"a request has {self._site.most} bytes at most"

    # Answers.

    def answer(self, exchange: Exchange, status: int, kind: bytes, body: bytes, more: bytes = b"") -> None:
        """Send an answer, if anybody waits for it, in one piece."""
        if exchange is not self._current:
            return
        self._current = None
        alive = exchange.alive and not (self._ending and not self._behind)
        headers = self._site.date + more if alive else self._site.date + more + CLOSE
        said = written(status, kind, body, headers)
        if exchange.method == b"HEAD":
            said = said[: len(said) - len(body)]
        self._transport.write(said[self._ahead :] if self._ahead else said)
        self._ahead = 0
        if alive:
            self.idle_since = time.monotonic()
            if self._behind or self._inside or self._paused:
                self._advance()
        elif not self._lingering:
            self._behind.clear()
            self._transport.close()

    def _advance(self) -> None:
        """Begin the next requests, unless one is being answered or the client does not read."""
        if self._advancing:
            return
        self._advancing = True
        while self._behind and self._current is None and not self._full:
            self._current = self._behind.popleft()
            self._site.begin(self._current)
        self._advancing = False
        if self._current is None and not self._behind and not self._transport.is_closing():
            if self._paused:
                self._paused = False
                self._transport.resume_reading()
            if self._inside:
                self._start_timer()
                if self._continue:
                    self._say_continue()

    def _say_continue(self) -> None:
        self._continue = False
        self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _refuse(self, status: int, message: str) -> None:
        """Answer a request that is not read completely, and close the connection."""
        self._deaf = True
        self._stop_timer()
        if self._current is not None:  # what came before it is answered
            (self._behind[-1] if self._behind else self._current).alive = False
            return
        self._lingering = True
        if self._in_body:
            self._current = self._exchange(b"")
            self._current.alive = False
            self._site.refuse(self._current, status, message)
        else:
            self._site.count(status)
            body = orjson.dumps({"error": {"message": message}}, option=orjson.OPT_APPEND_NEWLINE)
            self._transport.write(written(status, JSON, body, self._site.date + CLOSE))
        self._transport.write_eof()
        self._timer = self._loop.call_later(self._site.timeout, self._transport.close)

    def _start_timer(self) -> None:
        """Start the time of a request, unless it has started or an earlier one is not answered yet."""
        if self._timer is None and self._current is None and not self._deaf:
            self._timer = self._loop.call_later(self._site.timeout, self._late)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        if self._too_large:
            self._refuse(413, self._large())
        else:
            self._refuse(408, f"the request was not complete within {self._site.timeout:g} s")

    def _probe(self, number: int) -> None:
        """Send a piece of the beginning of every answer; writing fails if the client has gone."""
        if self._current is None or self._transport.is_closing():
            return
        self._transport.write(PROBES[number])
        self._ahead += len(PROBES[number])
        if number + 1 < len(PROBES):
            self._loop.call_later(PROBED, self._probe, number + 1)

    def end(self) -> None:
        """Close the connection once its requests are answered."""
        self._ending = True
        if self._current is None and not self._behind and not self._deaf:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    def sweep(self, now: float) -> None:
        """Close a connection that has been without a request for `KEPT` seconds."""
        if self._current is None and self._timer is None and now - self.idle_since > KEPT:
            if self._full:  # the client has not read its answer either
                self._transport.abort()
            else:
                self._transport.close()
