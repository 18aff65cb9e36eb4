"""The server's addresses: predictions, KServe's protocol, health, metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

import abw
from abw.core.serve.answers import Reply
from abw.core.serve.dispatch import Asked, Dispatcher
from abw.core.serve.queue import FullError, Waiting
from abw.core.serve.requests import BodyError, Request, of_lines, of_tensors

NDJSON, JSON = b"application/x-ndjson", b"application/json"
KSERVE_HEADER = b"inference-header-content-length"
# The addresses that `GET /` lists.
ADDRESSES = {
    "POST /v1/predict": "instances, a line each; answers, a line each",
    "POST /v2/models/{name}/infer": "the same as tensors, by KServe's protocol, version 2",
    "GET /v2/models/{name}": "the model's inputs and outputs",
    "GET /health/live": "200 while the process runs",
    "GET /health/ready": "200 while requests are run",
    "GET /metrics": "counts and times, for Prometheus",
}
Parse = Callable[[bytes, dict[bytes, bytes]], Request]


class Gone(Exception):  # noqa: N818 (no error)
    """The client has disconnected."""


class Service:
    """The state that all addresses share."""

    def __init__(self, dispatcher: Dispatcher, name: str | None = None) -> None:
        """`name`: the model's name in addresses, by default its spec's."""
        self.dispatcher = dispatcher
        self.limits = dispatcher.limits
        self.draining = False
        self._name = name

    @property
    def name(self) -> str:
        """The model's name in addresses; '' until it is known."""
        about = self.dispatcher.about
        return self._name or (about["name"] if about else "")

    def unknown(self, name: str) -> str:
        """The message about a name that is not the model's."""
        return f"no model is called '{name}': {self.name or 'it is not ready yet'}"

    @property
    def ready(self) -> bool:
        """Whether requests are run: kernels are compiled, weights packed."""
        return self.dispatcher.ready and not self.draining

    async def answer(self, scope: Scope, receive: Receive, send: Send, parse: Parse, kind: bytes) -> None:
        """Answer a request for inference, also if it fails."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        headers: list[tuple[bytes, bytes]] = []
        try:
            until = scope["state"].get("begun", begun) + self.limits.timeout
            reply = await self._reply(dict(scope["headers"]), receive, parse, until)
        except BodyError as error:
            reply = _refusal(error, kind)
            if error.status in (429, 503):
                headers.append((b"retry-after", b"1"))
            if error.status in (408, 413):  # what is left of the request is not read
                headers.append((b"connection", b"close"))
        except Gone:
            self.dispatcher.metrics.requests.labels("499").inc()
            return
        if reply.json_bytes:
            kind = b"application/octet-stream"
            headers.append((KSERVE_HEADER, str(reply.json_bytes).encode()))
        headers += [(b"content-type", kind), (b"content-length", str(len(reply.body)).encode())]
        self.dispatcher.metrics.requests.labels(str(reply.status)).inc()
        self.dispatcher.metrics.took.observe(loop.time() - begun)
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": reply.body})

    async def _reply(
        self, headers: dict[bytes, bytes], receive: Receive, parse: Parse, until: float
    ) -> Reply:
        """The engine's reply to a request that must be complete by `until`, a time of the loop's clock.

        Raises BodyError if the request is refused or not answered in time; Gone.
        """
        body = await self._body(headers, receive, until)
        if self.draining or self.dispatcher.about is None:
            raise BodyError(503, "the server is ending" if self.draining else "the model is not ready yet")
        if (coding := headers.get(b"content-encoding", b"identity")) != b"identity":
            raise BodyError(
                415, f"requests are not decompressed: content-encoding {coding.decode('latin-1')}"
            )
        request = parse(body, headers)
        if len(request) > self.limits.queue:
            raise BodyError(413, f"{len(request)} instances: {self.limits.queue} may wait at once")
        loop = asyncio.get_running_loop()
        now = loop.time()
        asked = Asked(request, loop.create_future())
        waiting = Waiting(asked, len(request), now + self.limits.timeout, now)
        try:
            self.dispatcher.put(waiting)
        except FullError:
            message = f"{self.dispatcher.queue.instances} instances wait, {self.limits.queue} may"
            raise BodyError(429, message) from None
        late = BodyError(504, f"not done within {self.limits.timeout:g} s")
        timer = loop.call_at(waiting.deadline, _fail, asked.reply, late)
        watch = loop.create_task(_disconnected(receive, asked.reply))
        try:
            return await asked.reply
        finally:
            self.dispatcher.queue.leave(waiting)
            timer.cancel()
            watch.cancel()

    async def _body(self, headers: dict[bytes, bytes], receive: Receive, until: float) -> bytes:
        """Read a request's body within the limits of size and time. Raises BodyError, Gone."""
        most, size, more = self.limits.body, int(headers.get(b"content-length", b"0")), True
        large = BodyError(413, f"a request has {most} bytes at most")
        if size > most and b"expect" in headers:
            raise large
        parts = []
        try:
            async with asyncio.timeout_at(until):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Gone
                    parts.append(message.get("body", b""))
                    more = message.get("more_body", False)
                    if size > most or (size := sum(map(len, parts))) > most:
                        parts.clear()  # a client that is still sending would not see the refusal
        except TimeoutError:
            if size > most:
                raise large from None
            raise BodyError(408, f"the request did not come within {self.limits.timeout:g} s") from None
        if size > most:
            raise large
        return b"".join(parts)


def _fail(reply: asyncio.Future[Reply], error: Exception) -> None:
    if not reply.done():
        reply.set_exception(error)


async def _disconnected(receive: Receive, reply: asyncio.Future[Reply]) -> None:
    """Wait until the client disconnects, then fail the reply."""
    while (await receive())["type"] != "http.disconnect":
        pass
    _fail(reply, Gone())


def _refusal(error: BodyError, kind: bytes) -> Reply:
    """The reply to a request that is not run; KServe's protocol requires a text."""
    said = {"error": str(error)} if kind == JSON else {"error": {"message": str(error), **error.place}}
    return Reply(error.status, orjson.dumps(said, option=orjson.OPT_APPEND_NEWLINE))


class _Predict:
    """`POST /v1/predict`: a line for each instance, a line for each answer."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._service.answer(scope, receive, send, self._parse, NDJSON)

    def _parse(self, body: bytes, headers: dict[bytes, bytes]) -> Request:
        about = self._service.dispatcher.about or {}
        return of_lines(body, headers.get(b"content-type", b"").decode("latin-1"), about["format"])


class _Infer:
    """`POST /v2/models/NAME/infer`: a tensor of texts, tensors of outputs."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = scope["path_params"]["name"]

        def parse(body: bytes, headers: dict[bytes, bytes]) -> Request:
            if name != self._service.name:
                raise BodyError(404, self._service.unknown(name))
            size = headers.get(KSERVE_HEADER, b"")
            return of_tensors(body, int(size) if size.isdigit() and len(size) < 20 else None, name)

        await self._service.answer(scope, receive, send, parse, JSON)


def make_app(service: Service) -> Starlette:
    """The server as an ASGI application."""

    def said(document: Any, status: int = 200) -> Response:  # noqa: ANN401
        return Response(orjson.dumps(document), status, media_type="application/json")

    def unknown(name: str) -> Response:
        return said({"error": service.unknown(name)}, 404)

    async def addresses(_: HttpRequest) -> Response:
        told = {address.format(name=service.name or "NAME"): what for address, what in ADDRESSES.items()}
        return said({"name": "abw", "version": abw.__version__, "addresses": told})

    async def wrong(request: HttpRequest, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        where = f"{request.method} {request.url.path}"
        message = f"{error.detail.lower()}: {where} (GET / lists the addresses)"
        answer = said({"error": {"message": message}}, error.status_code)
        answer.headers.update(error.headers or {})
        return answer

    async def live(_: HttpRequest) -> Response:
        return said({"live": True})

    async def ready(_: HttpRequest) -> Response:
        return said({"ready": service.ready}, 200 if service.ready else 503)

    async def model_ready(request: HttpRequest) -> Response:
        name = request.path_params["name"]
        return await ready(request) if not service.name or name == service.name else unknown(name)

    async def server(_: HttpRequest) -> Response:
        return said({"name": "abw", "version": abw.__version__, "extensions": ["binary_tensor_data"]})

    async def model(request: HttpRequest) -> Response:
        name, about = request.path_params["name"], service.dispatcher.about
        if about is None or name != service.name:
            return unknown(name)
        inputs = [{"name": "instances", "datatype": "BYTES", "shape": [-1]}]
        described = {"inputs": inputs, "outputs": about["outputs"]}
        return said({"name": name, "versions": ["1"], "platform": "abw", **described})

    async def metrics(_: HttpRequest) -> Response:
        text = service.dispatcher.metrics.text()
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    routes = [Route("/", addresses), Route("/v1/predict", _Predict(service), methods=["POST"])]
    routes += [Route(f"/{at}/live", live) for at in ("health", "v2/health")]
    routes += [Route(f"/{at}/ready", ready) for at in ("health", "v2/health")]
    routes += [Route("/metrics", metrics), Route("/v2", server)]
    for at in ("/v2/models/{name}", "/v2/models/{name}/versions/1"):
        routes += [Route(at, model), Route(f"{at}/ready", model_ready)]
        routes.append(Route(f"{at}/infer", _Infer(service), methods=["POST"]))
    return Starlette(routes=routes, exception_handlers={HTTPException: wrong})
