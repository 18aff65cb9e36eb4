"""A server's models and clients: requests for inference, with their deadlines; what else can be asked."""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any
from urllib.parse import unquote_to_bytes

import orjson

import abw
from abw.core.base.errors import AbwError
from abw.core.serve.answers import Reply
from abw.core.serve.dispatch import Dispatcher
from abw.core.serve.http.connection import JSON, NDJSON, Connection, Exchange, written
from abw.core.serve.link import Asked
from abw.core.serve.metrics import Metrics
from abw.core.serve.queue import FullError, Waiting
from abw.core.serve.requests import BodyError, Request, of_lines, of_tensors
from abw.core.serve.settings import Limits

KSERVE_HEADER = b"inference-header-content-length"
TEXT = b"text/plain; version=0.0.4; charset=utf-8"
# The addresses that `GET /` lists.
ADDRESSES = {
    "POST /v1/predict": "instances, a line each; answers, a line each",
    "GET /v1/models": "the models, and whether they are ready",
    "POST /v1/models/{name}/predict": "the same of a model by name",
    "POST /v1/models/{name}/load": "take new weights",
    "POST /v2/models/{name}/infer": "the same as tensors, by KServe's protocol, version 2",
    "GET /v2/models/{name}": "the model's inputs and outputs",
    "GET /health/live": "200 while the process runs",
    "GET /health/ready": "200 while requests are run",
    "GET /metrics": "counts and times, for Prometheus",
}


@dataclass(slots=True, eq=False)
class Inference:
    """A request for inference: answered by an engine, refused, late, or left by its client."""

    service: Service
    model: Dispatcher
    exchange: Exchange
    request: Request
    kind: bytes
    waiting: Waiting[Asked] = field(init=False)

    def __post_init__(self) -> None:
        since = self.exchange.since
        self.waiting = Waiting(self, len(self.request), since + self.service.timeout, since)

    def answer(self, reply: Reply) -> None:
        """Send an engine's reply."""
        self.service.close(self)
        self.model.metrics.took["answered"].add(time.monotonic() - self.exchange.since)
        kind, more = self.kind, b""
        if reply.json_bytes:
            kind, more = b"application/octet-stream", b"%b: %d\r\n" % (KSERVE_HEADER, reply.json_bytes)
        self.service.count(reply.status)
        self.exchange.send(reply.status, kind, reply.body, more)

    def refuse(self, error: BodyError) -> None:
        """Say why there is no reply."""
        self.service.close(self)
        self.service.decline(self.model, self.exchange, error, self.kind)


# The head of a plain request for predictions: the model in its address, the bytes of its body. No header
# changes how the body is read, or what is answered besides it.
_HEADER = rb"(?!(?i:content-[le]|transfer-|connection|expect|upgrade))[!-9;-~]+:[^\r\n\0]*\r\n"
PLAIN = re.compile(
    rb"POST /v1/(?:models/([\w.-]+)/)?predict HTTP/1\.1\r\n"
    rb"(?:%b)*(?i:content-length): ?(\d{1,9})\r\n(?:%b)*\r\n" % (_HEADER, _HEADER)
)

# Connections whose bytes are parsed before engines are heard again.
TURN = 64
# Answers a request, given the name of a model from the address.
Handler = Callable[[Exchange, str], None]


class Service:
    """What all connections share; answers requests."""

    def __init__(self, models: Sequence[Dispatcher], limits: Limits, names: Sequence[str] = ()) -> None:
        """`names`: the models' names in addresses, by default those of their specs."""
        self.models, self.limits = models, limits
        self.timeout, self.most = limits.timeout, limits.body
        self.metrics = Metrics()
        self.connections: set[Connection] = set()
        self.draining = False
        self.date = b""
        self._late: deque[Connection] = deque()
        self._parsed = 0  # connections, in this turn
        self._names = names
        self._open: dict[Inference, None] = {}  # by their deadlines
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._refusals: dict[Dispatcher, tuple[int, bytes]] = {}  # for so many waiting instances
        self._fixed: dict[str, tuple[bytes, Handler]] = {
            "/": (b"GET", self._addresses),
            "/v1/predict": (b"POST", self._predict),
            "/v1/models": (b"GET", self._list),
            "/v2": (b"GET", self._server),
            "/metrics": (b"GET", self._metrics),
            "/health/live": (b"GET", self._live),
            "/v2/health/live": (b"GET", self._live),
            "/health/ready": (b"GET", self._ready),
            "/v2/health/ready": (b"GET", self._ready),
        }
        self.tick()

    @property
    def names(self) -> list[str]:
        """The models' names in addresses; '' until a name is known."""
        given = [*self._names, *[""] * len(self.models)]
        about = (model.about["name"] if model.about else "" for model in self.models)
        return [name or found for name, found in zip(given, about, strict=False)]

    @property
    def ready(self) -> bool:
        """Whether requests are run: kernels are compiled, weights packed."""
        return not self.draining and all(model.ready for model in self.models)

    def find(self, name: str) -> Dispatcher | None:
        """The model with a name; without one the first."""
        return dict(zip(self.names, self.models, strict=True)).get(name) if name else self.models[0]

    def tick(self) -> None:
        """Do what is due about once a second."""
        self.date = b"date: %b\r\n" % formatdate(usegmt=True).encode()
        self._refusals.clear()
        now = time.monotonic()
        for connection in list(self.connections):
            connection.sweep(now)
        for model in self.models:
            model.tick()

    # What connections say.

    def shed(self, data: bytes) -> bytes:
        """The answer to a plain request that is refused because there is no room; empty for any other.

        Under overload most requests are such.
        """
        full = [model for model in self.models if model.queue.full]
        if not full or self.draining or (found := PLAIN.match(data)) is None:
            return b""
        model = self.find(found[1].decode()) if found[1] else self.models[0]
        if model not in full or len(data) - found.end() != (size := int(found[2])) or size > self.most:
            return b""
        model.metrics.took["refused"].add(0.0)
        self.count(429)
        waiting, refusal = self._refusals.get(model, (0, b""))
        if waiting != model.queue.small:
            headers = self.date + _again(model)
            refusal = written(429, NDJSON, _why(self._full(model), NDJSON), headers)
            self._refusals[model] = model.queue.small, refusal
        return refusal

    def later(self, connection: Connection) -> bool:
        """Whether what a connection has received is parsed later, because much else has arrived.

        So the engines are heard, and get their next requests, however many clients there are.
        """
        if not self._parsed:
            asyncio.get_running_loop().call_soon(self._turn)
        self._parsed += 1
        if self._parsed <= TURN:
            return False
        self._late.append(connection)
        return True

    def _turn(self) -> None:
        """Parse some of what was kept for later."""
        self._parsed = 0
        for _ in range(min(TURN, len(self._late))):
            self._late.popleft().parse()
        if self._late:
            self._parsed = TURN  # those before come first
            asyncio.get_running_loop().call_soon(self._turn)

    def begin(self, exchange: Exchange) -> None:
        """Answer a request, now or later."""
        method, handler, name = self._route(exchange.target)
        if method == exchange.method or (method == b"GET" and exchange.method == b"HEAD"):
            handler(exchange, name)
        else:
            where = f"{exchange.method.decode()} {_path(exchange.target)} (GET / lists the addresses)"
            status, wrong = (405, "method not allowed") if method else (404, "not found")
            allowed = b"allow: %b\r\n" % method.replace(b"GET", b"GET, HEAD") if method else b""
            _say(exchange, {"error": {"message": f"{wrong}: {where}"}}, status, allowed)

    def refuse(self, exchange: Exchange, status: int, message: str) -> None:
        """Answer a request whose body is not there, now."""
        kind = JSON if self._route(exchange.target)[1] == self._infer else NDJSON
        self.decline(None, exchange, BodyError(status, message), kind)

    def leave(self, exchange: Exchange) -> None:
        """Note that nobody is waiting for the answer any more."""
        if isinstance(exchange.asked, Inference):
            self.count(499)
            self.close(exchange.asked)

    def count(self, status: int) -> None:
        """Count a request for inference, or one that had no whole head."""
        self.metrics.count(status)

    # Inference.

    def _predict(self, exchange: Exchange, name: str) -> None:
        """`POST /v1/predict`: a line for each instance, a line for each answer."""

        def parse(model: Dispatcher, about: Mapping[str, Any]) -> Request:
            kind = exchange.headers.get(b"content-type", b"").decode("latin-1")
            return of_lines(exchange.body, kind, about["format"])

        self._run(exchange, name, parse, NDJSON)

    def _infer(self, exchange: Exchange, name: str) -> None:
        """`POST /v2/models/NAME/infer`: a tensor of texts, tensors of outputs."""

        def parse(model: Dispatcher, about: Mapping[str, Any]) -> Request:
            size = exchange.headers.get(KSERVE_HEADER, b"")
            json_bytes = int(size) if size.isdigit() and len(size) < 20 else None
            return of_tensors(exchange.body, json_bytes, name)

        self._run(exchange, name, parse, JSON)

    def _run(
        self,
        exchange: Exchange,
        name: str,
        parse: Callable[[Dispatcher, Mapping[str, Any]], Request],
        kind: bytes,
    ) -> None:
        """Queue a request, or refuse it."""
        model = self.find(name)
        try:
            if self.draining:
                raise BodyError(503, "the server is shutting down")
            if model is None and "" not in self.names:
                raise BodyError(404, self._unknown(name))
            if model is None or model.about is None:
                raise BodyError(503, "the model is not ready yet")
            if (coding := exchange.headers.get(b"content-encoding", b"identity")) != b"identity":
                said = coding.decode("latin-1")
                raise BodyError(415, f"content-encoding {said} is not supported")
            if model.queue.full:
                raise self._full(model)
            request = parse(model, model.about)
            if len(request) > self.limits.queue:
                raise BodyError(413, f"{len(request)} instances; at most {self.limits.queue} may wait")
            asked = Inference(self, model, exchange, request, kind)
            try:
                model.put(asked.waiting)
            except FullError:
                raise self._full(model) from None
        except BodyError as error:
            self.decline(model, exchange, error, kind)
            return
        exchange.asked = asked
        self._open[asked] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.timeout, self._expire)

    def _full(self, model: Dispatcher) -> BodyError:
        waiting = model.queue.small if model.queue.full else model.queue.instances
        return BodyError(429, f"{waiting} instances are waiting; at most {model.queue.room} may")

    def close(self, asked: Inference) -> None:
        """Run nothing more for a request."""
        self._open.pop(asked, None)
        asked.exchange.asked = None
        asked.model.queue.leave(asked.waiting)

    def decline(self, model: Dispatcher | None, exchange: Exchange, error: BodyError, kind: bytes) -> None:
        """Answer a request for inference by an error."""
        more = _again(model) if error.status in (429, 503) else b""
        if model is not None:
            result = "late" if error.status == 504 else "refused"
            model.metrics.took[result].add(time.monotonic() - exchange.since)
        self.count(error.status)
        exchange.send(error.status, kind, _why(error, kind), more)

    def _expire(self) -> None:
        """Answer requests whose time is over."""
        now = time.monotonic()
        self._timer = None
        late = []
        for asked in self._open:
            if asked.waiting.deadline > now:
                wait = asked.waiting.deadline - now
                self._timer = asyncio.get_running_loop().call_later(wait, self._expire)
                break
            late.append(asked)
        for asked in late:
            asked.refuse(BodyError(504, f"no answer within {self.timeout:g} s"))

    # Everything else.

    def _route(self, target: bytes) -> tuple[bytes, Handler, str]:
        """The method of an address, what answers it, and the model's name in it; method '' for none."""
        path = _path(target)
        if found := self._fixed.get(path):
            return *found, ""
        match path.split("/")[1:]:
            case ["v1", "models", name, "predict"]:
                return b"POST", self._predict, name
            case ["v1", "models", name, "load"] | ["v2", "repository", "models", name, "load"]:
                return b"POST", self._load, name
            case ["v2", "models", name, "infer"] | ["v2", "models", name, "versions", "1", "infer"]:
                return b"POST", self._infer, name
            case ["v2", "models", name, "ready"] | ["v2", "models", name, "versions", "1", "ready"]:
                return b"GET", self._model_ready, name
            case ["v2", "models", name] | ["v2", "models", name, "versions", "1"]:
                return b"GET", self._model, name
        return b"", self._live, ""

    def _unknown(self, name: str) -> str:
        names = [name for name in self.names if name]
        return f"no model is called '{name}': {', '.join(names) or 'it is not ready yet'}"

    def _addresses(self, exchange: Exchange, _: str) -> None:
        names = [name or "NAME" for name in self.names]
        told = {address.format(name=name): what for name in names for address, what in ADDRESSES.items()}
        _say(exchange, {"name": "abw", "version": abw.__version__, "addresses": told})

    def _list(self, exchange: Exchange, _: str) -> None:
        models = zip(self.names, self.models, strict=True)
        _say(exchange, {"models": [{"name": name, "ready": model.ready} for name, model in models]})

    def _live(self, exchange: Exchange, _: str) -> None:
        _say(exchange, {"live": True})

    def _ready(self, exchange: Exchange, _: str) -> None:
        _say(exchange, {"ready": self.ready}, 200 if self.ready else 503)

    def _model_ready(self, exchange: Exchange, name: str) -> None:
        model = self.find(name)
        if model is None and "" not in self.names:
            _say(exchange, {"error": self._unknown(name)}, 404)
            return
        ready = model is not None and model.ready and not self.draining
        _say(exchange, {"ready": ready}, 200 if ready else 503)

    def _server(self, exchange: Exchange, _: str) -> None:
        extensions = ["binary_tensor_data", "model_repository"]
        _say(exchange, {"name": "abw", "version": abw.__version__, "extensions": extensions})

    def _model(self, exchange: Exchange, name: str) -> None:
        model = self.find(name)
        if model is None or model.about is None:
            _say(exchange, {"error": self._unknown(name)}, 404)
            return
        inputs = [{"name": "instances", "datatype": "BYTES", "shape": [-1]}]
        described = {"inputs": inputs, "outputs": model.about["outputs"]}
        _say(exchange, {"name": name, "versions": ["1"], "platform": "abw", **described})

    def _metrics(self, exchange: Exchange, _: str) -> None:
        self.metrics.connections = len(self.connections)
        names = (name or f"model {n + 1}" for n, name in enumerate(self.names))
        measured = {name: model.measured() for name, model in zip(names, self.models, strict=True)}
        exchange.send(200, TEXT, self.metrics.text(measured).encode())

    def _load(self, exchange: Exchange, name: str) -> None:
        """`POST .../load`: answer when new weights are served."""
        model = self.find(name)
        if model is None or model.about is None:
            _say(exchange, {"error": self._unknown(name)}, 404)
            return
        task = asyncio.get_running_loop().create_task(self._loaded(exchange, name, model))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _loaded(self, exchange: Exchange, name: str, model: Dispatcher) -> None:
        try:
            await model.load()
        except AbwError as error:
            hint = f" ({error.hint})" if error.hint else ""
            _say(exchange, {"error": f"{error.message}{hint}: the model before it goes on"}, 500)
        else:
            _say(exchange, {"loaded": name})


def _again(model: Dispatcher | None) -> bytes:
    """The header with the seconds after which a refused request may come again."""
    return b"retry-after: %d\r\n" % (model.soon if model else 1)


def _why(error: BodyError, kind: bytes) -> bytes:
    """Why there is no reply, as `kind` (the content type) has it."""
    said = {"error": str(error)} if kind == JSON else {"error": {"message": str(error), **error.place}}
    return orjson.dumps(said, option=orjson.OPT_APPEND_NEWLINE)


def _path(target: bytes) -> str:
    """The path of an address, decoded; a slash at its end does not count."""
    path = target.partition(b"?")[0]
    if b"://" in path:
        path = b"/" + path.partition(b"://")[2].partition(b"/")[2]
    text = unquote_to_bytes(path).decode("utf-8", "replace") if b"%" in path else path.decode("latin-1")
    return text.rstrip("/") or "/"


def _say(exchange: Exchange, document: Any, status: int = 200, more: bytes = b"") -> None:  # noqa: ANN401
    """Answer by a document, which is not counted as inference."""
    exchange.send(status, JSON, orjson.dumps(document), more)
