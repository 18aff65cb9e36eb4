"""`program.py:function` where a spec may stand: the options that go with it, and why others do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from abw.cli import options

if TYPE_CHECKING:
    from abw.core.base.progress import Progress
    from abw.core.exec.interface import Executor
    from abw.core.ir.network import Granularity
    from abw.core.program.session import ProgramGranularity
    from abw.core.script.run import ProgramOptions

Format = Annotated[
    Literal["trees", "lattice", "tags", "pairs", "words", "json"] | None,
    typer.Option(
        "--format",
        help="Data format of a program; json: one JSON value on each line.",
        show_default="by the file's ending",
    ),
]

_WHOLE = "graphs are looked at as wholes, and a program's comes to be while it runs"
_FILE = "a program's cells are as its file has them"
# Options by their parameters: what they are called, and why they do not go with a program.
REFUSED: Mapping[str, tuple[str, str]] = {
    "grown": ("--grown", "programs return what they make: --output has it"),
    "memory": ("--memory", "it limits what --batch auto chooses, and that is for specs"),
    "encoding": (
        "--encoding",
        "fsm is learned from graphs before anything runs, and a program has none then",
    ),
    "train_limit": ("--train-limit", "nothing is learned for a program: --policy critical, depth, …"),
    "layout": ("--layout", f"{_FILE}, their variables as planned"),
    "hoist": ("--hoist", f"{_WHOLE}; compute such products in a cell of their own"),
    "fuse": ("--fuse", "a program has no reductions: sums are operations of its cells"),
    "group": ("--group", f"types are grouped where {_WHOLE}"),
    "preset": ("--preset", "presets are of specs; --policy, --granularity and --executor can be said alone"),
    "profile": ("--profile", "it runs plans as wholes again, and a program's pieces go on from each other"),
    "engine": ("--engine", "its file would run on every machine; --shard I/N and abw join do it"),
    "trace": ("--trace", f"it notes plans that are made ahead: {_WHOLE}"),
}
_LEARNED = ("auto", "fsm")


def refuse_options(context: typer.Context) -> None:
    """Refuse what was given and does not go with a program. Errors: a usage error with the reason."""
    for name, (option, reason) in REFUSED.items():
        if name in context.params and given(context, name):
            raise typer.BadParameter(f"not with a program: {reason}", param_hint=option)


def given(context: typer.Context, name: str) -> bool:
    """Whether an option was given."""
    source = context.get_parameter_source(name)
    return source is not None and source.name not in ("DEFAULT", "DEFAULT_MAP")


def refuse_for_spec(context: typer.Context) -> None:
    """Refuse, with a spec, what goes with programs alone. Errors: a usage error."""
    refuse_format(context.params.get("format") or context.params.get("format_of_data"))


def refuse_format(format: str | None) -> None:
    """The same of its data's format alone."""
    if format:
        raise typer.BadParameter("a spec says what its data are: data: {format: …}", param_hint="--format")


def of_spec(granularity: ProgramGranularity) -> Granularity:
    """The granularity of a spec. Errors: a usage error for one that programs alone have."""
    if granularity == "graph":
        raise typer.BadParameter("graph is for programs; of a spec cell or op", param_hint="--granularity")
    return granularity


def policy_of(name: str | None) -> str | None:
    """The policy of a program. Errors: a usage error for one that is learned."""
    if name is None:
        return None
    if name in _LEARNED or name.endswith(".json"):
        reason = "it is learned from graphs before anything runs, and a program has none then"
        raise typer.BadParameter(
            f"not with a program: {reason}; critical is the usual", param_hint="--policy"
        )
    return name


def data_of(data: Path | None) -> Path:
    """The data of a program. Errors: a usage error where there are none."""
    if data is None:
        raise typer.BadParameter(
            "a program needs instances: --data FILE (- is standard input)", param_hint="--data"
        )
    return Path(data)  # older versions of Typer have texts among the context's parameters


def whole_number(batch: str | None) -> int:
    """The number of --batch. Errors: a usage error for what is none."""
    if batch == "auto":
        reason = "rates are predicted for graphs, and a program has none before it runs"
        raise typer.BadParameter(f"auto not with a program: {reason}; say a number", param_hint="--batch")
    if batch is None:
        return 64
    if not batch.isdecimal() or int(batch) < 1:
        raise typer.BadParameter(f"'{batch}' is no number from 1 on", param_hint="--batch")
    return int(batch)


def common(params: Mapping[str, Any]) -> dict[str, Any]:
    """What the parameters of `abw run` say of specs and programs alike, as `CommonOptions` has it."""
    own = {name: params[name] for name in ("kernels", "precision", "scheme")}
    own["tensor_cores"] = False if params["no_tensor_cores"] else None
    same = ("threads", "verify", "check_finite", "skip_bad", "note")
    return {name: params[name] for name in same} | {
        "told": {name: value for name, value in own.items() if value is not None},
        "output": params["output"] and Path(params["output"]),
        "keep": not params["no_keep"],
        "tags": tuple(params["tags"] or ()),
        "shard": options.shard_of(params["shard"]),
    }


def run(
    params: Mapping[str, Any],
    *,
    progress: Progress,
    command: str,
    prepared: Callable[[Executor], None],
) -> dict[str, Any]:
    """Run the program that the parameters of `abw run` say. Errors: usage errors, AbwError."""
    from abw.core.script.run import ProgramOptions, run_program

    policy = policy_of(params["policy"])
    if policy:
        options.require_policy(policy, "--policy")
    to_stdout = str(params["output"]) == "-" or params["as_json"] or params["show_kernels"] is not None
    changes = options.overrides(None, params["limit"], None, params["sizes"], params["seed"])
    chosen = ProgramOptions(
        data=data_of(params["data"]),
        format=params["format"],
        limit=params["limit"],
        batch=whole_number(params["batch"]),
        policy=policy,
        executor=params["executor"],
        granularity=params["granularity"] or "cell",
        dims=changes.dims,
        weights=params["weights"] and Path(params["weights"]),
        seed=params["seed"],
        stdout=to_stdout,
        allow_outside=params["allow_outside"],
        **common(params),
    )
    return run_program(str(params["spec"]), chosen, progress=progress, command=command, prepared=prepared)


def looked_at(params: Mapping[str, Any]) -> ProgramOptions:
    """What `abw viz` and `abw explain` run to look at a program. Errors: usage errors."""
    from abw.core.script.run import ProgramOptions

    data = data_of(params["data"])
    changes = options.overrides(data, params["limit"], params["batch"], params["sizes"], params["seed"])
    return ProgramOptions(
        data=data,
        format=params.get("format") or params.get("format_of_data"),
        limit=params["limit"],
        batch=params["batch"] or 64,
        granularity=params["granularity"],
        dims=changes.dims,
        weights=params["weights"] and Path(params["weights"]),
        seed=params["seed"],
        allow_outside=params["allow_outside"],
    )
