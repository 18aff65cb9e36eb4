"""`abw join`: the parts of an output put together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from abw.cli import options
from abw.cli.console import amount, counted, say
from abw.cli.groups import flag, group, option


@group
class Parts:
    """What becomes of the parts."""

    keep: bool = flag("Keep the folder of parts, OUTPUT.parts.")
    leave_parts: bool = flag("Only list the parts in a manifest, for abw.open_outputs to read as one.")
    shard: str | None = option(
        "Copy a share of the parts, beside other processes; then join without it.", "I/N"
    )


def join(
    path: Annotated[
        Path, typer.Argument(metavar="OUTPUT", help="The --output of the shards, for example out.jsonl.")
    ],
    parts: Parts,
    output: options.Output,
) -> None:
    """Combine the parts that `abw run --shard` wrote into the output of a single run, byte for byte.

    Writes nothing if parts are missing, damaged or of another run, and names them.
    """
    from abw.core.store import shard_files

    if shard := options.shard_of(parts.shard):
        report = shard_files.join_share(path, shard.number, shard.shards)
    elif parts.leave_parts:
        report = shard_files.leave(path)
    else:
        report = shard_files.join(path)
        if not parts.keep:
            shard_files.discard(path)
    skipped = f", {amount(report['skipped'])} left out" if report["skipped"] else ""
    counts = f"{counted(report['instances'], 'instance')}{skipped} of {counted(report['parts'], 'part')}"
    output.give(report, lambda _: say(f"{path}: {counts}"))
