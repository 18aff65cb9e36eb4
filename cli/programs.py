"""`program.py:function` where a spec may stand: which options go with it, and why others do not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from abw.cli.groups import chosen, filled
from abw.cli.options import Changes

if TYPE_CHECKING:
    from abw.core.ir.network import Granularity
    from abw.core.program.session import ProgramGranularity
    from abw.core.script.run import ProgramOptions

_LEARNED = ("auto", "fsm")


def refuse_options(*groups: Any) -> None:  # noqa: ANN401 (groups of options)
    """Refuse what was chosen and does not go with a program. Errors: a usage error with the reason."""
    for name, info in chosen(*groups):
        if reason := vars(info).get("program"):
            raise typer.BadParameter(f"not available for a program: {reason}", param_hint=name)


def refuse_format(format: str | None) -> None:
    """Refuse a format of data for a spec. Errors: a usage error."""
    if format:
        raise typer.BadParameter("a spec says what its data are: data: {format: …}", param_hint="--format")


def of_spec(granularity: ProgramGranularity) -> Granularity:
    """The granularity of a spec. Errors: a usage error for one that programs alone have."""
    if granularity == "graph":
        raise typer.BadParameter("graph is for programs; of a spec cell or op", param_hint="--granularity")
    return granularity


def policy_of(name: str | None) -> str | None:
    """The policy of a program. Errors: a usage error for one that is learned."""
    if name in _LEARNED or (name and name.endswith(".json")):
        reason = "it is learned from graphs before anything runs, and a program has none then"
        said = f"not available for a program: {reason}; the default is critical"
        raise typer.BadParameter(said, param_hint="--policy")
    return name


def batch_of(batch: str | None, *, program: bool) -> int | None:
    """The number of --batch; None if it is `auto` or missing. Errors: a usage error."""
    if batch == "auto" and program:
        reason = "rates are predicted for graphs, and a program has none before it runs"
        raise typer.BadParameter(
            f"auto is not available for a program: {reason}; give a number", param_hint="--batch"
        )
    if batch in (None, "auto"):
        return None
    if not batch.isdecimal() or int(batch) < 1:
        wanted = "no number from 1 on" if program else "neither a number from 1 on nor auto"
        raise typer.BadParameter(f"'{batch}' is {wanted}", param_hint="--batch")
    return int(batch)


def program_options(changes: Changes, *groups: Any, batch: int | None, **more: Any) -> ProgramOptions:  # noqa: ANN401
    """How to run a program: what `changes` and other groups say, and `more` fields. Errors: usage errors."""
    from abw.core.script.run import ProgramOptions

    if changes.data is None:
        said = "a program needs instances: --data FILE (- is standard input)"
        raise typer.BadParameter(said, param_hint="--data")
    return filled(ProgramOptions, changes, *groups, dims=changes.dims, batch=batch or 64, **more)
