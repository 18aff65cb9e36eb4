"""The server's process: listens, starts an engine, and ends in order."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import uvicorn
import uvloop

from abw.core.base.errors import AbwError, printable
from abw.core.base.interrupts import TERMINATING
from abw.core.serve.app import Service, make_app
from abw.core.serve.dispatch import Dispatcher
from abw.core.serve.protocol import Protocol
from abw.core.serve.settings import Limits, Loading

# Is called with a model's name and a server's address.
Report = Callable[[str, str], None]
# Seconds that a connection is kept open without a request.
KEPT = 5


def serve(
    loading: Loading,
    limits: Limits,
    host: str,
    port: int,
    name: str | None = None,
    module: str = "",
    report: Report | None = None,
) -> bool:
    """Serve a model until a signal ends it; returns whether all waiting requests were answered.

    `name`: what it is called in addresses, if not as its spec has it; `module`: what the engine runs instead
    of the loading's. `report` (`tell`) is called when the server listens and when it is ready, with the
    model's name ('' at first) and the server's address.

    Errors: AbwError if nobody can listen there, or the model cannot be loaded.
    """
    with _listening(host, port) as listener, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(loading, limits, listener, name, module, report or tell))


def tell(name: str, address: str) -> None:
    """Print on standard error where the server is, and when it is ready."""
    said = f"listening on {address}; the model is being loaded"
    if name:
        said = f"ready: {name} at {address}/v1/predict"
    print(printable(said), file=sys.stderr, flush=True)


@contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "this is no host's name"
        message = f"cannot listen on {host}:{port}: {reason}"
        raise AbwError(message, hint="--host and --port name another address") from None
    with listener:
        yield listener


async def _serve(
    loading: Loading, limits: Limits, listener: socket.socket, name: str | None, module: str, report: Report
) -> bool:
    dispatcher = Dispatcher(loading, limits, module)
    service = Service(dispatcher, name)
    protocol: Any = partial(Protocol, service)  # uvicorn calls it; its type wants a class
    config = uvicorn.Config(
        make_app(service),
        http=protocol,
        ws="none",
        log_config=None,
        log_level="error",  # what clients do wrong is counted, not written
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_keep_alive=KEPT,
        timeout_graceful_shutdown=max(1, round(limits.drain)),
    )
    server = _Server(config, service)
    engine = asyncio.create_task(dispatcher.run())
    engine.add_done_callback(lambda _: server.end())
    reporting = asyncio.create_task(_report(service, listener, report))
    try:
        await server.serve(sockets=[listener])
    finally:
        reporting.cancel()
        if not engine.done():
            engine.cancel()
        await asyncio.gather(engine, reporting, return_exceptions=True)
    if not engine.cancelled() and (failed := engine.exception()):
        raise failed
    return not dispatcher.busy


async def _report(service: Service, listener: socket.socket, report: Report) -> None:
    """Report where the server is, and when it is ready."""
    host, port = listener.getsockname()[:2]
    at = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    report("", at)
    while not service.ready:
        await asyncio.sleep(0.02)
    report(service.name, at)


class _Server(uvicorn.Server):
    """uvicorn's server, but ending in order, with its own exit code, at SIGTERM, SIGINT and SIGHUP."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    def end(self) -> None:
        """Accept no more requests, answer the waiting ones, and end."""
        self._service.draining = True
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End the server in order at the first signal, at once at the second.

        Signals that are ignored (SIGHUP under `nohup`) stay ignored.
        """
        loop = asyncio.get_running_loop()
        heard = [number for number in TERMINATING if signal.getsignal(number) is not signal.SIG_IGN]
        ending = [signal.SIGINT, *heard]
        for number in ending:
            loop.add_signal_handler(number, self._signalled)
        try:
            yield
        finally:
            for number in ending:
                loop.remove_signal_handler(number)

    def _signalled(self) -> None:
        if self.should_exit:
            self.force_exit = True
        self.end()
