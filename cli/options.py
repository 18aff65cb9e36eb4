"""Arguments and options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from abw.cli import completion
from abw.cli.usage import one_of

if TYPE_CHECKING:
    from abw.core.run.shards import Shard as Shard_
    from abw.core.spec.load import Overrides
    from abw.core.store.runs import StoredRun


def is_program(target: str | Path | None) -> bool:
    """Whether a target is a Python file, with or without a function."""
    return target is not None and bool(re.search(r"\.py(:|$)", str(target)))


def found(spec: Path) -> Path:
    """A spec that is named; `treelstm` is the one that ships, where there is no such file."""
    from abw.core.base.errors import AbwError
    from abw.core.spec.shipped import find_spec

    if is_program(spec):
        hint = "abw run, serve, viz and explain take program.py:function (docs/programs.md)"
        raise AbwError(f"{spec} is a program, and this is for specs", hint=hint, exit_code=2)
    return find_spec(spec)


def found_or_program(spec: Path) -> Path:
    """The same, or a program as it is named."""
    return spec if is_program(spec) else found(spec)


def found_or_program_or_none(spec: Path | None) -> Path | None:
    """The same for one that may be left out."""
    return found_or_program(spec) if spec else None


def _words(tags: list[str] | None) -> list[str] | None:
    """Tags as they are given; errors for what lists with blanks between tags could not show."""
    for tag in tags or ():
        if tag.split() != [tag]:
            raise typer.BadParameter(f"'{tag}' is no tag: a tag is one word")
    return tags


def found_or_none(spec: Path | None) -> Path | None:
    """The same for a spec that may be left out."""
    return found(spec) if spec else None


Spec = Annotated[
    Path,
    typer.Argument(
        metavar="SPEC",
        help="The model's YAML file, or the name of a shipped one (`abw specs`).",
        callback=found,
        autocompletion=completion.specs,
    ),
]
SpecOrProgram = Annotated[
    Path,
    typer.Argument(
        metavar="SPEC",
        help="The model's YAML file, the name of a shipped one, or program.py:function (docs/programs.md).",
        callback=found_or_program,
        autocompletion=completion.specs_and_programs,
    ),
]
SpecOrNone = Annotated[
    Path | None,
    typer.Argument(
        metavar="[SPEC]",
        help="The model's YAML file, or the name of a shipped one.",
        callback=found_or_none,
        autocompletion=completion.specs,
    ),
]
Data = Annotated[
    Path | None,
    typer.Option("--data", metavar="PATH", help="Read instances from this file instead of the spec's."),
]
DataOrPipe = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="PATH",
        help="Read instances from this file instead of the spec's; - is standard input.",
    ),
]
Limit = Annotated[
    int | None, typer.Option("--limit", min=1, metavar="N", help="Use only the first N instances.")
]
TrainLimit = Annotated[
    int, typer.Option("--train-limit", min=1, metavar="N", help="Learn from the first N instances.")
]
Trials = Annotated[int, typer.Option("--trials", min=1, metavar="N", help="Maximum number of trials.")]
Batch = Annotated[int | None, typer.Option("--batch", min=1, metavar="B", help="Instances in a mini-batch.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="DIM=SIZE", help="Change a dim of the spec, for example hidden=256; repeatable."
    ),
]


def trained(weights: Path | None) -> Path | None:
    """The file of weights that is named, by its path or by a training's name."""
    if weights is None:
        return None
    from abw.core.store.trainings import weights_of

    return weights_of(weights)


Weights = Annotated[
    Path | None,
    typer.Option(
        "--weights",
        metavar="FILE",
        help="Use these weights instead of the spec's: a .safetensors, .npz or .pt file, or a training (t1).",
        callback=trained,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        help="Random seed of policy learning, untrained weights (0) and the field `coin` (the spec's).",
    ),
]
# How policies are named everywhere: by a name, a learned one's .json, your own class or .py file.
POLICY = "NAME|FILE|MODULE:CLASS"
ENCODING_HELP = "Encoding of the FSM's states; best: the best of base, sort and critical in training."
GRANULARITY_HELP = "Whether a node is a cell or an operation (as in vanilla DyNet)."
GRAPH_HELP = f"{GRANULARITY_HELP[:-1]}; graph: a program's instances of equal structure share a schedule."
Encoding = Annotated[
    Literal["best", "base", "max", "sort", "critical"],
    typer.Option("--encoding", help=ENCODING_HELP),
]
GranularityOrGraph = Annotated[
    Literal["cell", "op", "graph"],
    typer.Option("--granularity", help=GRAPH_HELP),
]
Granularity = Annotated[
    Literal["cell", "op"],
    typer.Option("--granularity", help=GRANULARITY_HELP),
]
Hoist = Annotated[
    bool,
    typer.Option(
        "--hoist", help="Compute products that depend on no state in advance, for all steps at once."
    ),
]
Fuse = Annotated[
    bool, typer.Option("--fuse", help="Let cells read reductions in place, if nothing else reads them.")
]
Group = Annotated[
    bool, typer.Option("--group", help="Batch types that differ only in parameters in one launch.")
]
Threads = Annotated[
    int | None, typer.Option("--threads", min=1, metavar="N", help="Number of threads (all cores).")
]
Tags = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="WORD", help="Tag the run; repeatable.", callback=_words),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document and nothing else to standard output.")
]
AllowOutside = Annotated[
    bool,
    typer.Option("--allow-outside", help="Let the spec read files outside its folder."),
]
Shard = Annotated[
    str | None,
    typer.Option(
        "--shard",
        metavar="I/N",
        help="Run only part I (from 1) of N; `abw join` combines the parts (docs/scale.md).",
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        envvar="RAY_ADDRESS",
        help="Address of a running Ray cluster; auto: the local one.",
        show_default="one started for the run",
    ),
]
Precision = Annotated[
    Literal["float32", "bf16", "int8"] | None,
    typer.Option(
        "--precision",
        help="Store the weights of matrix products in fewer bits: faster, less exact (docs/cpu.md).",
        show_default="float32",
    ),
]
NoTensorCores = Annotated[
    bool,
    typer.Option(
        "--no-tensor-cores",
        help="Use float32 units only, instead of tensor cores for large products (3xTF32, as "
        "accurate as float32).",
    ),
]
QuietFlag = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        help="Print only errors and requested output: no progress, no summary.",
    ),
]


def shard_of(text: str | None) -> Shard_ | None:
    """The shard of --shard. Errors: a usage error."""
    if text is None:
        return None
    from abw.core.run.shards import Shard as Shard_

    found = re.fullmatch(r"(\d{1,5})/(\d{1,5})", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise typer.BadParameter(f"'{text}' is no shard, as 3/8: the third of eight", param_hint="--shard")
    return Shard_(int(found[1]), int(found[2]))


def overrides(
    data: Path | None,
    limit: int | None,
    batch: int | None,
    sizes: Sequence[str] | None,
    seed: int | None,
    hoist: bool = False,
    weights: Path | None = None,
    allow_outside: bool = False,
) -> Overrides:
    """What the command line changes of a spec; a wrong `--set`, or data from a pipe, is a usage error."""
    from abw.core.spec.load import Overrides

    if str(data) == "-":
        raise typer.BadParameter("only `abw run` reads from a pipe: name a file", param_hint="--data")
    dims = {}
    for text in sizes or ():
        name, sign, value = text.partition("=")
        if sign and name.strip() and value.removeprefix("-").isdecimal() and int(value) < 1:
            raise typer.BadParameter(f"'{text}': sizes are from 1", param_hint="--set")
        if not sign or not value.isdecimal():
            raise typer.BadParameter(
                f"'{text}' is not of the form DIM=SIZE, as in hidden=256", param_hint="--set"
            )
        dims[name.strip()] = int(value)
    return Overrides(
        dims=dims,
        data=data,
        limit=limit,
        batch=batch,
        seed=seed,
        hoist=hoist,
        weights=weights,
        allow_outside=allow_outside,
    )


def run_of(name: str | None) -> StoredRun:
    """A stored run; the hint for a name that is none includes models of a similar name. Errors: AbwError."""
    from abw.core.base.errors import AbwError
    from abw.core.spec.shipped import nearest
    from abw.core.store.runs import find_run

    try:
        return find_run(name)
    except AbwError as error:
        if name and (near := nearest(name)):
            raise AbwError(error.message, hint=f"{near} {error.hint}") from None
        raise


def policies(help: str, *names: str, metavar: str = POLICY) -> Any:  # noqa: ANN401 (as typer.Option)
    """An option that names a policy."""
    return typer.Option(*names, metavar=metavar, help=help, autocompletion=completion.policies)


def require_policy(name: str, option: str, *more: str) -> None:
    """Refuse a policy that nobody knows; one of your own is loaded. Errors: a usage error, AbwError."""
    from abw.core.policy.registry import NAMES, REVERSED, get_policy
    from abw.core.policy.user_policy import is_own

    if is_own(name.removesuffix(REVERSED)):
        get_policy(name)
    elif not name.endswith(".json"):
        one_of(name, (*NAMES, *more), option)
