"""`abw serve`: a model behind HTTP."""

from __future__ import annotations

from typing import Annotated

import typer

from abw.cli import options, programs


def serve(
    spec: options.SpecOrProgram,
    weights: options.Weights = None,
    data: options.Data = None,
    format: programs.Format = None,
    sizes: options.Set = None,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            help="As for `abw run`; policies are learned on the spec's data.",
            show_default="auto",
        ),
    ] = None,
    executor: Annotated[
        str | None,
        typer.Option("--executor", "--device", help="cpu, cuda, blas or reference.", show_default="cpu"),
    ] = None,
    precision: options.Precision = None,
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads",
            min=1,
            metavar="N",
            help="Number of the engine's threads.",
            show_default="all but one",
        ),
    ] = None,
    seed: options.Seed = None,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0: any free port.")
    ] = 8000,
    name: Annotated[
        str | None,
        typer.Option("--name", help="The model's name in /v2/models/NAME.", show_default="spec's"),
    ] = None,
    max_batch: Annotated[
        int, typer.Option("--max-batch", min=1, metavar="N", help="Instances in a mini-batch.")
    ] = 64,
    max_nodes: Annotated[
        int,
        typer.Option(
            "--max-nodes",
            min=1,
            metavar="N",
            help="Vertices (in programs nodes) in a mini-batch; larger instances run alone.",
        ),
    ] = 16384,
    max_wait: Annotated[
        str,
        typer.Option(
            "--max-wait",
            metavar="TIME",
            help="How long an idle engine waits for more instances, for example 2ms.",
        ),
    ] = "0ms",
    queue: Annotated[
        int,
        typer.Option(
            "--queue",
            min=1,
            metavar="N",
            help="Length of the queue in instances; beyond it requests get 429.",
        ),
    ] = 1024,
    timeout: Annotated[
        str, typer.Option("--timeout", metavar="TIME", help="Time limit of a request; then it gets 504.")
    ] = "1s",
    max_body: Annotated[
        str,
        typer.Option("--max-body", metavar="SIZE", help="Size limit of a request; beyond it, it gets 413."),
    ] = "1M",
    drain: Annotated[
        str,
        typer.Option("--drain", metavar="TIME", help="Time for waiting requests when the server ends."),
    ] = "30s",
    allow_outside: options.AllowOutside = False,
) -> None:
    """Serve a model over HTTP, batched across requests (docs/serving.md). Needs the extra `serve`.

    With program.py:function the engine runs the file's code, and the function once for each instance.
    """
    changes = options.overrides(data, None, None, sizes, seed, weights=weights, allow_outside=allow_outside)
    from abw.core.base.cores import usable_cores
    from abw.core.run.batchsize import parse_bytes
    from abw.core.script.items import format_of
    from abw.core.serve.settings import ENGINE, PROGRAM_ENGINE, Limits, Loading, LoadingProgram

    own = threads or (max(1, usable_cores() - 1) if executor in (None, "cpu") else None)
    told = (str(weights) if weights else None, str(data) if data else None, changes.dims)
    loading: Loading | LoadingProgram
    if options.is_program(spec):
        module, chosen = PROGRAM_ENGINE, programs.policy_of(policy)
        form = format or (format_of(data, None) if data else "json")
        loading = LoadingProgram(
            str(spec), form, *told, chosen, executor, precision, own, seed, allow_outside
        )
    else:
        programs.refuse_format(format)
        module, chosen = ENGINE, policy or "auto"
        loading = Loading(
            str(spec), *told, chosen, executor or "cpu", precision or "float32", own, seed, allow_outside
        )
    limits = Limits(
        batch=max_batch,
        nodes=max_nodes,
        queue=queue,
        wait=_seconds(max_wait, "--max-wait"),
        timeout=_seconds(timeout, "--timeout"),
        body=parse_bytes(max_body),
        drain=_seconds(drain, "--drain"),
    )
    if not _serve(loading, limits, host, port, name, module):
        raise typer.Exit(1)


def _serve(*given: object) -> bool:
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
    return run(*given)  # type: ignore[arg-type]


def _seconds(text: str, option: str) -> float:
    """A time as 20ms, 1.5s, 2min; a number alone is seconds."""
    for unit, seconds in (("ms", 1e-3), ("min", 60.0), ("s", 1.0), ("", 1.0)):
        number = text.removesuffix(unit)
        if text.endswith(unit) and number.replace(".", "", 1).isdecimal():
            return float(number) * seconds
    raise typer.BadParameter(f"'{text}' is no time, as 20ms or 1s", param_hint=option)
