"""Arguments, options and groups of options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from abw.cli import completion
from abw.cli.console import print_json, progress
from abw.cli.groups import filled, flag, group, option, without
from abw.cli.usage import one_of

if TYPE_CHECKING:
    from abw.core.base.progress import Progress
    from abw.core.spec.load import Overrides
    from abw.core.store.runs import StoredRun

EncodingName = Literal["best", "base", "max", "sort", "critical"]
PrecisionName = Literal["float32", "bf16", "int8"]
DedupName = Literal["auto", "on", "off"]
DataFormat = Literal["trees", "lattice", "tags", "pairs", "words", "plans", "json"]


def is_program(target: str | Path | None) -> bool:
    """Whether a target is a Python file, with or without a function."""
    return target is not None and bool(re.search(r"\.py(:|$)", str(target)))


def found(spec: Path | None) -> Path | None:
    """The path of a spec; `treelstm` is the shipped one if there is no such file. Errors: AbwError."""
    from abw.core.base.errors import AbwError
    from abw.core.spec.shipped import find_spec

    if spec is None:
        return None
    if is_program(spec):
        hint = "abw run, train, serve, viz and explain take program.py:function (docs/programs.md)"
        raise AbwError(f"{spec} is a program, and this command takes only specs", hint=hint, exit_code=2)
    return find_spec(spec)


def found_or_program(spec: Path | None) -> Path | None:
    """The path of a spec as `found` returns it, or a program as it was typed."""
    return spec if is_program(spec) else found(spec)


def found_or_programs(specs: list[Path]) -> list[Path]:
    """The same of several."""
    return [path for spec in specs if (path := found_or_program(spec)) is not None]


def trained(weights: Path | None) -> Path | None:
    """The path of a file of weights, or of the best weights of a training that is named (t1)."""
    if weights is None:
        return None
    from abw.core.store.trainings import weights_of

    return weights_of(weights)


def words(tags: list[str] | None) -> list[str] | None:
    """Check that each tag is one word. Errors: a usage error."""
    for tag in tags or ():
        if tag.split() != [tag]:
            raise typer.BadParameter(f"'{tag}' is no tag: a tag is one word")
    return tags


def _spec(help: str, callback: Callable[..., Any], metavar: str = "SPEC") -> Any:  # noqa: ANN401
    complete = completion.specs if callback is found else completion.specs_and_programs
    return typer.Argument(metavar=metavar, help=help, callback=callback, autocompletion=complete)


_ANY = "The model's YAML file, the name of a shipped one, or program.py:function (docs/programs.md)."
_SHIPPED = "The model's YAML file, or the name of a shipped one"
_SEVERAL = "YAML files, names of shipped models, or program.py:function (docs/programs.md)."
Spec = Annotated[Path, _spec(f"{_SHIPPED} (`abw specs`).", found)]
SpecOrNone = Annotated[Path | None, _spec(f"{_SHIPPED}.", found, "[SPEC]")]
SpecOrProgram = Annotated[Path, _spec(_ANY, found_or_program)]
SpecOrProgramOrNone = Annotated[Path | None, _spec(_ANY, found_or_program, "[SPEC]")]
SpecsOrPrograms = Annotated[list[Path], _spec(_SEVERAL, found_or_programs, "SPEC...")]

# How policies are named everywhere: by a name, a learned one's .json, your own class or .py file.
POLICY = "NAME|FILE|MODULE:CLASS"
ENCODING_HELP = "Encoding of the FSM's states; best: the best of base, sort and critical in training."

GRANULARITY = option("Whether a node is a cell or an operation (as in vanilla DyNet).", default="cell")
NODES_HELP = (
    "Whether a node is a cell or an operation (as in vanilla DyNet); graph: a program's instances of equal "
    "structure share a schedule."
)
NODES = option(NODES_HELP, shown="cell")
NODES_OF_ANY = option(NODES_HELP, default="cell")
# Why some options cannot be used with programs.
WHOLE = "graphs are looked at as wholes, and a program's graph grows while it runs"
FSM_LATER = "fsm is learned from graphs before anything runs, and a program has none then"
ENCODING = option(ENCODING_HELP, shown="best", program=FSM_LATER)
FORMAT = option("Data format of a program; json: one JSON value on each line.", shown="by the file's ending")
FUSE = flag(
    "Let cells read reductions in place, if nothing else reads them.",
    program="a program has no reductions: sums are operations of its cells",
)
GROUP = flag(
    "Batch types that differ only in parameters in one launch.",
    program=f"types are grouped where {WHOLE}",
)
DEDUP_HELP = "Compute equal nodes of a mini-batch once: always, never, or where it pays (docs/policies.md)."
DEDUP = option(DEDUP_HELP, shown="auto")
PRECISION = option(
    "Store the weights of matrix products in fewer bits: faster, less exact (docs/cpu.md).", shown="float32"
)
NO_TENSOR_CORES = flag(
    "Use float32 units only, instead of tensor cores for large products (3xTF32, as accurate as float32)."
)
TRIALS = option("Maximum number of trials.", "N", default=1000, least=1)
THREADS = option("Number of threads (all cores).", "N", least=1)
ADDRESS = option(
    "Address of a running Ray cluster; auto: the local one.",
    "HOST:PORT",
    envvar="RAY_ADDRESS",
    shown="one started for the run",
)
TAGS = option("Tag the run; repeatable.", "WORD", "--tag", callback=words)


@group
class Changes:
    """What the command line says instead of the spec."""

    data: Path | None = option("Read instances from this file instead of the spec's.", "PATH")
    limit: int | None = option("Use only the first N instances.", "N", least=1)
    batch: int | None = option("Instances in a mini-batch.", "B", least=1)
    sizes: list[str] | None = option(
        "Change a dim of the spec, for example hidden=256; repeatable.", "DIM=SIZE", "--set"
    )
    weights: Path | None = option(
        "Use these weights instead of the spec's: a .safetensors, .npz or .pt file, or a training (t1).",
        "FILE",
        callback=trained,
    )
    seed: int | None = option(
        "Random seed of policy learning, untrained weights (0) and the field `coin` (the spec's)."
    )
    allow_outside: bool = flag("Let the spec read files outside its folder.")

    @property
    def dims(self) -> dict[str, int]:
        """The sizes of --set. Errors: a usage error."""
        dims = {}
        for text in self.sizes or ():
            name, sign, value = text.partition("=")
            if sign and name.strip() and value.removeprefix("-").isdecimal() and int(value) < 1:
                raise typer.BadParameter(f"'{text}': sizes are from 1", param_hint="--set")
            if not sign or not value.isdecimal():
                said = f"'{text}' is not of the form DIM=SIZE, as in hidden=256"
                raise typer.BadParameter(said, param_hint="--set")
            dims[name.strip()] = int(value)
        return dims

    def overrides(self, **more: Any) -> Overrides:  # noqa: ANN401 (fields)
        """Convert to core's overrides. Errors: a usage error for a wrong `--set`, or data from a pipe."""
        from abw.core.spec.load import Overrides

        if str(more.get("data", self.data)) == "-":
            raise typer.BadParameter("only `abw run` reads from a pipe: name a file", param_hint="--data")
        return filled(Overrides, self, dims=self.dims, **more)


# Changes of sizes alone.
Sizes = Annotated[Changes, without("data", "limit", "batch", "weights", "seed")]


@group
class Passes:
    """What is done to graphs before they are scheduled."""

    fuse: bool = FUSE
    group: bool = GROUP
    dedup: DedupName | None = DEDUP


@group
class Output:
    """What a command prints."""

    quiet: bool = flag("Print only errors and requested output: no progress, no summary.", "-q")
    as_json: bool = flag("Print one JSON document and nothing else to standard output.", "--json")

    def progress(self) -> AbstractContextManager[Progress]:
        """Progress on standard error, unless quiet."""
        return progress(self.quiet)

    def give(self, report: dict[str, Any], show: Callable[[dict[str, Any]], None]) -> None:
        """Print a report that was asked for: as JSON, or for people, by `show`."""
        if self.as_json:
            print_json(report)
        else:
            show(report)

    def summarize(self, report: dict[str, Any], show: Callable[[dict[str, Any]], None]) -> None:
        """Print a report on what was done: as JSON, or for people, by `show`, unless quiet."""
        if self.as_json or not self.quiet:
            self.give(report, show)


def run_or_spec(help: str) -> Any:  # noqa: ANN401 (as typer.Argument)
    """The argument of commands that take a run, a spec or a program."""
    return typer.Argument(metavar="[RUN|SPEC]", help=help, autocompletion=completion.runs_and_specs)


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


def shard_of(text: str | None) -> Any:  # noqa: ANN401 (core's)
    """The shard of --shard. Errors: a usage error."""
    if text is None:
        return None
    from abw.core.run.options import Shard

    found = re.fullmatch(r"(\d{1,5})/(\d{1,5})", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise typer.BadParameter(f"'{text}' is no shard, as 3/8: the third of eight", param_hint="--shard")
    return Shard(int(found[1]), int(found[2]))


def policy_option(help: str, *names: str, **more: Any) -> Any:  # noqa: ANN401 (as `option`)
    """An option that names a policy."""
    return option(help, POLICY, *names, autocompletion=completion.policies, **more)


def require_policy(name: str, option: str, *more: str) -> None:
    """Refuse an unknown policy; one of the user's own is loaded. Errors: a usage error, AbwError."""
    from abw.core.policy.registry import NAMES, REVERSED, get_policy
    from abw.core.policy.user_policy import is_user_policy

    if is_user_policy(name.removesuffix(REVERSED)):
        get_policy(name)
    elif not name.endswith(".json"):
        one_of(name, (*NAMES, *more), option)
