"""`abw join`: the parts of an output put together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from abw.cli import options
from abw.cli.console import amount, counted, print_json


def join(
    output: Annotated[
        Path, typer.Argument(metavar="OUTPUT", help="What --output of the shards was, as out.jsonl.")
    ],
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the folder of the parts, OUTPUT.parts.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Put the parts that `abw run --shard` wrote together: byte for byte what one run of all writes.

    Parts that are missing, damaged or of another run are named, and nothing is written.
    """
    from abw.core.store import parts

    report = parts.join(output)
    if not keep:
        parts.discard(output)
    if as_json:
        print_json(report)
        return
    skipped = f", {amount(report['skipped'])} left out" if report["skipped"] else ""
    print(
        f"{output}: {counted(report['instances'], 'instance')}{skipped} of {counted(report['parts'], 'part')}"
    )
