"""`abw serve`: a model behind HTTP."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from abw.cli import options, programs
from abw.cli.console import print_json
from abw.cli.groups import filled, flag, group, option, without

if TYPE_CHECKING:
    from abw.core.serve.settings import Loading


@group
class Engine:
    """How instances are run."""

    format: options.DataFormat | None = options.FORMAT
    policy: str | None = option("As for `abw run`; policies are learned on the spec's data.", shown="auto")
    executor: str | None = option(
        "cpu, cuda, blas or reference.", None, "--executor", "--device", shown="cpu"
    )
    precision: options.PrecisionName | None = options.PRECISION
    dedup: options.DedupName | None = options.DEDUP
    threads: int | None = option(
        "Number of each engine's threads.", "N", least=1, shown="all cores but one, divided by --engines"
    )
    engines: int = option(
        "Processes that run a model's requests, each with threads of its own.", "N", default=1, least=1
    )
    spare: bool = flag("Keep one more engine ready to replace one that dies.")


@group
class Server:
    """Where the server listens, and how much it takes at once."""

    host: str = option("Address to listen on.", "ADDRESS", default="127.0.0.1")
    port: int = option("Port to listen on; 0: any free port.", default=8000, least=0, most=65535)
    uds: Path | None = option("Listen on this Unix socket instead.", "FILE")
    name: list[str] | None = option(
        "The model's name in addresses; of several models in their order.", shown="spec's"
    )
    max_batch: int = option("Instances in a mini-batch.", "N", default=64, least=1)
    max_nodes: int = option(
        "Vertices (in programs nodes) in a mini-batch; larger instances run alone.",
        "N",
        default=16384,
        least=1,
    )
    max_wait: str = option(
        "How long an idle engine waits for more instances, for example 2ms.", "TIME", default="0ms"
    )
    queue: int = option(
        "Length of the queue in instances; beyond it requests get 429.", "N", default=1024, least=1
    )
    timeout: str = option("Time limit of a request; then it gets 504.", "TIME", default="1s")
    max_body: str = option("Size limit of a request; beyond it, it gets 413.", "SIZE", default="1M")
    drain: str = option("Time for waiting requests when the server ends.", "TIME", default="30s")


def serve(
    specs: options.SpecsOrPrograms,
    changes: Annotated[options.Changes, without("limit", "batch")],
    engine: Engine,
    server: Server,
    output: options.Output,
) -> None:
    """Serve models over HTTP, batched across requests (docs/serving.md). Needs the extra `serve`.

    With program.py:function an engine runs the file's code, and the function once for each instance.
    """
    from abw.core.run.batchsize import parse_bytes
    from abw.core.serve.settings import Limits, Serving

    if engine.format and not any(map(options.is_program, specs)):
        programs.refuse_format(engine.format)
    if len(specs) > 1:
        for option, given in (("--weights", changes.weights), ("--data", changes.data)):
            if given:
                said = f"one of {len(specs)} models has it: each spec names its own"
                raise typer.BadParameter(said, param_hint=option)
    names = tuple(server.name or ())
    if names and len(names) != len(specs):
        said = f"{len(names)} names of {len(specs)} models"
        raise typer.BadParameter(said, param_hint="--name")
    limits = Limits(
        batch=server.max_batch,
        nodes=server.max_nodes,
        queue=server.queue,
        wait=_seconds(server.max_wait, "--max-wait"),
        timeout=_seconds(server.timeout, "--timeout"),
        body=parse_bytes(server.max_body),
        drain=_seconds(server.drain, "--drain"),
    )
    serving = Serving(
        tuple(_loading(spec, changes, engine) for spec in specs),
        server.host,
        server.port,
        server.uds,
        names,
        engine.engines,
        engine.spare,
    )
    if not _serve(serving, limits, partial(_report, output)):
        raise typer.Exit(1)


def _loading(spec: Path, changes: options.Changes, engine: Engine) -> Loading:
    """What an engine of a model loads."""
    overrides = changes.overrides()
    from abw.core.base.parallel import usable_cores
    from abw.core.script.items import format_of
    from abw.core.serve.settings import Loading

    executor, data = engine.executor, changes.data
    format, policy = None, engine.policy
    if options.is_program(spec):
        programs.refuse_options(engine)
        policy = programs.policy_of(engine.policy)
        format = engine.format or (format_of(data, None) if data else "json")
    free = max(1, (usable_cores() - 1) // engine.engines)
    return filled(
        Loading,
        changes,
        engine,
        target=str(spec),
        format=format,
        weights=str(changes.weights) if changes.weights else None,
        data=str(data) if data else None,
        dims=overrides.dims,
        policy=policy,
        threads=engine.threads or (free if executor in (None, "cpu") else None),
    )


def _report(output: options.Output, name: str, address: str) -> None:
    """Report where the server is: for programs, a document when it is ready."""
    from abw.core.serve.server import tell

    if output.as_json and name:
        first, *others = name.split(", ")
        more = {"models": [first, *others]} if others else {}
        print_json({"schema_version": 1, "model": first, **more, "address": address})
        sys.stdout.flush()
    elif not (output.as_json or output.quiet):
        tell(name, address)


def _serve(*given: Any) -> bool:  # noqa: ANN401 (as `abw.core.serve.server.serve`)
    """Serve; where the extra is not installed, say so."""
    import os

    from abw.core.base.errors import AbwError, install

    if os.name == "nt":
        raise AbwError("abw serve does not run on Windows: its engine is handed a socket as Unix does it")
    try:
        from abw.core.serve.server import serve as run
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
        if missing == "abw":
            raise
        raise AbwError(f"abw serve needs {missing}", hint=install("serve")) from None
    return run(*given)


def _seconds(text: str, option: str) -> float:
    """A time as 20ms, 1.5s, 2min; a number alone is seconds."""
    for unit, seconds in (("ms", 1e-3), ("min", 60.0), ("s", 1.0), ("", 1.0)):
        number = text.removesuffix(unit)
        if text.endswith(unit) and number.replace(".", "", 1).isdecimal():
            return float(number) * seconds
    raise typer.BadParameter(f"'{text}' is no time, as 20ms or 1s", param_hint=option)
