"""`abw join`: the parts of an output put together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from abw.cli import options
from abw.cli.console import amount, counted, print_json, say


def join(
    output: Annotated[
        Path, typer.Argument(metavar="OUTPUT", help="The --output of the shards, for example out.jsonl.")
    ],
    keep: Annotated[bool, typer.Option("--keep", help="Keep the folder of parts, OUTPUT.parts.")] = False,
    as_json: options.Json = False,
) -> None:
    """Combine the parts that `abw run --shard` wrote into the output of a single run, byte for byte.

    Writes nothing if parts are missing, damaged or of another run, and names them.
    """
    from abw.core.store import shard_files

    report = shard_files.join(output)
    if not keep:
        shard_files.discard(output)
    if as_json:
        print_json(report)
        return
    skipped = f", {amount(report['skipped'])} left out" if report["skipped"] else ""
    say(
        f"{output}: {counted(report['instances'], 'instance')}{skipped} of {counted(report['parts'], 'part')}"
    )
