"""The server's process: listens, starts engines, and ends in order."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import uvloop

from abw.core.base.errors import AbwError, printable
from abw.core.base.interrupts import TERMINATING
from abw.core.serve.dispatch import Dispatcher
from abw.core.serve.fleet import Plan
from abw.core.serve.http.connection import Connection
from abw.core.serve.http.service import Service
from abw.core.serve.settings import Limits, Serving

# Is called with the models' names and a server's address.
Report = Callable[[str, str], None]
# Connections that the system keeps until they are accepted; it drops what comes beyond for a second.
BACKLOG = 2048
# Python's collector looks at what a request leaves behind only after so many objects: requests are freed as
# their references end.
COLLECTED = (50_000, 50, 100)


def serve(serving: Serving, limits: Limits, report: Report | None = None) -> bool:
    """Serve models until a signal ends it; returns whether all waiting requests were answered.

    `report` (`tell`) is called when the server listens and when it is ready, with the models' names ('' at
    first) and the server's address.

    Errors: AbwError if nobody can listen there, or a model cannot be loaded.
    """
    with _listening(serving) as listener, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(serving, limits, listener, report or tell))


def tell(name: str, address: str) -> None:
    """Print the server's address on standard error, and when it is ready."""
    said = f"listening on {address}; the model is being loaded"
    if name:
        said = f"ready: {name} at {address}/v1/predict"
    print(printable(said), file=sys.stderr, flush=True)


@contextmanager
def _listening(serving: Serving) -> Iterator[socket.socket]:
    """The socket to listen on, and the file of a Unix socket while there is one."""
    host, port, path = serving.host, serving.port, serving.uds
    try:
        if path is not None:
            listener = _unix(path)
        else:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, UnicodeError) as error:
        reason = error.strerror or str(error) if isinstance(error, OSError) else "this is no host's name"
        where = f"{host}:{port}" if path is None else path
        hint = "--host and --port name another address" if path is None else "--uds names another file"
        raise AbwError(f"cannot listen on {where}: {reason}", hint=hint) from None
    try:
        with listener:
            yield listener
    finally:
        if path is not None:
            path.unlink(missing_ok=True)


def _unix(path: Path) -> socket.socket:
    """Listen on a Unix socket; one that a dead server has left behind is replaced. Raises OSError."""
    listener = socket.socket(socket.AF_UNIX)
    try:
        if path.exists() and stat.S_ISSOCK(path.stat().st_mode):
            with socket.socket(socket.AF_UNIX) as other:
                if other.connect_ex(str(path)) == 0:
                    raise OSError(0, "another server listens there")
            path.unlink()
        listener.bind(str(path))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


async def _serve(serving: Serving, limits: Limits, listener: socket.socket, report: Report) -> bool:
    models = [
        Dispatcher(Plan(loading, limits, serving.module, serving.engines, int(serving.spare)))
        for loading in serving.models
    ]
    service = Service(models, limits, serving.names)
    server = _Server(service)
    engines = [asyncio.create_task(model.run()) for model in models]
    for task in engines:
        task.add_done_callback(lambda _: server.end())
    address = _address(listener)
    report("", address)
    reporting = asyncio.create_task(_report(service, address, report))
    reporting.add_done_callback(partial(_end_if_wrong, server))
    try:
        await server.run(listener, limits.drain)
    finally:
        for task in (reporting, *engines):
            task.cancel()
        await asyncio.gather(reporting, *engines, return_exceptions=True)
    for task in (*engines, reporting):
        if not task.cancelled() and (failed := task.exception()):
            raise failed
    return not any(model.busy for model in models)


def _end_if_wrong(server: _Server, task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        server.end()


def _address(listener: socket.socket) -> str:
    if listener.family == socket.AF_UNIX:
        return f"unix:{listener.getsockname()}"
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def _report(service: Service, address: str, report: Report) -> None:
    """Report when the server is ready. Errors: AbwError if two models have one name."""
    while not service.ready:
        await asyncio.sleep(0.02)
    names = service.names
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise AbwError(f"two models are called {twice}", hint="name each of them: --name A --name B")
    # what is there now stays, and is not looked at again
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTED)
    report(", ".join(names), address)


class _Server:
    """Accepts connections until a signal, or the death of an engine that cannot be replaced, ends it."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._ending = asyncio.Event()
        self._now = asyncio.Event()  # without waiting for anybody

    def end(self) -> None:
        """Accept no more requests, answer the waiting ones, and end."""
        self._service.draining = True
        self._ending.set()

    async def run(self, listener: socket.socket, drain: float) -> None:
        """Serve until the end."""
        loop, service = asyncio.get_running_loop(), self._service
        if listener.family == socket.AF_UNIX:
            server = await loop.create_unix_server(
                partial(Connection, service), sock=listener, backlog=BACKLOG
            )
        else:
            server = await loop.create_server(partial(Connection, service), sock=listener, backlog=BACKLOG)
        ticking = asyncio.create_task(self._tick())
        with self._signals():
            await self._ending.wait()
            server.close()
            for connection in list(service.connections):
                connection.end()
            with suppress(TimeoutError):
                async with asyncio.timeout(max(1, round(drain))):
                    while service.connections and not self._now.is_set():
                        await asyncio.sleep(0.02)
        ticking.cancel()
        for connection in list(service.connections):
            connection.abort()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self._service.tick()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """End the server in order at the first signal, at once at the second; SIGHUP loads new weights.

        Signals that are ignored (SIGHUP under `nohup`) stay ignored.
        """
        loop = asyncio.get_running_loop()
        heard = [number for number in TERMINATING if signal.getsignal(number) is not signal.SIG_IGN]
        ending = [signal.SIGINT, *heard]
        terminal = _has_terminal()
        for number in ending:
            if number == signal.SIGHUP:
                loop.add_signal_handler(number, self._hung_up, terminal)
            else:
                loop.add_signal_handler(number, self._signalled)
        try:
            yield
        finally:
            for number in ending:
                loop.remove_signal_handler(number)

    def _signalled(self) -> None:
        if self._ending.is_set():
            self._now.set()
        self.end()

    def _hung_up(self, terminal: bool) -> None:
        """Load new weights; if the terminal that there was has gone, end."""
        if terminal and not _has_terminal():
            self._signalled()
        elif not self._ending.is_set():
            self._loading = asyncio.create_task(self._load())

    async def _load(self) -> None:
        """Load all models anew, and say how that ended."""
        for name, model in zip(self._service.names, self._service.models, strict=True):
            try:
                await model.load()
            except AbwError as error:
                said = f"{name} is not loaded: {error.message} (the model before it goes on)"
            else:
                said = f"loaded: {name}"
            print(printable(said), file=sys.stderr, flush=True)


def _has_terminal() -> bool:
    """Whether this process has a controlling terminal."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
