"""Command lines over all pairs of options, with right and wrong values: an exit code, no traceback."""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Literal, get_args, get_origin
from unittest.mock import patch

from abw.cli.groups import declared
from abw.cli.main import main
from tests.fuzz.pairs import all_pairs
from tests.fuzz.target import ROOT, put, target
from tests.fuzz.worker import unshowable
from tests.pages.cli import commands

# The exit codes that can come here; the others are those of Ctrl-C and of a reader that is gone.
CODES = (0, 1, 2)
ABSENT = ""
SPEC = b"""\
model: small
dims: {hidden: 4, classes: 3}
data: {format: trees, path: trees.txt, batch: 2}
tables: {words: {dim: hidden, rows: 50}}
types:
  leaf: {per: leaf, cell: linear.yaml, dims: {in: hidden, out: hidden}, inputs: {x: "words[word]"}}
  inner: {per: internal, cell: pair.yaml, inputs: {l: left.y, r: right.y}}
  top: {per: instance, cell: linear.yaml, dims: {in: hidden, out: classes}, inputs: {x: root.y}}
outputs: {classes: top.y}
"""
FILES = {
    "model.yaml": SPEC,
    "wrong.yaml": SPEC.replace(b"right.y", b"rihgt.y"),
    "linear.yaml": (ROOT / "specs/cells/linear.yaml").read_bytes(),
    "pair.yaml": b"cell: pair\ndims: [hidden]\ninputs: {l: hidden, r: hidden}\n"
    b"params: {W: [hidden, hidden]}\nequations: y = tanh(W @ l + r)\noutputs: {y: y}\n",
    "trees.txt": b"(3 (2 It) (4 (3 works) (2 well)))\n(2 Fine)\n(1 (1 a) (2 b))\n",
    "wrong.txt": b"(3 (2 It) (4 works)\n(2 Fine)\n(\x1b[2J\n(1 (1 a) (2 b))\n",
    "empty.txt": b"",
    "junk": bytes(range(256)),
    "junk.json": b'{"format": "abw-policy", "version": 99}',
    "junk.npz": b"PK\x03\x04 no archive",
}
_Values = tuple[Sequence[str], Sequence[str]]
NUMBERS: _Values = ((ABSENT, "1", "2"), ("0", "-1", "x", "99999999999999999999"))
SPECS = (("model.yaml",), ("linear.yaml", "wrong.yaml", "missing.yaml", ".", "junk"))
POLICIES = ((ABSENT, "fsm", "agenda", "depth", "policy.json"), ("junk.json", "missing.json", "nope"))
OUTPUTS = (
    (ABSENT,),
    (
        *("out.jsonl", "out.npz", "out.safetensors", "out.json", "out.svg", "out.html", "out.dot", "-"),
        *("out.nope", "no/folder.npz", "no/folder.json", "."),
    ),
)
# Values by a parameter's name where its type does not say them: those that go with all right ones of the
# other parameters, and the rest, most of them wrong.
VALUES: dict[str, _Values] = {
    "spec": SPECS,
    "target": (("model.yaml",), (ABSENT, "1", "nope", "[/red]", "wrong.yaml", "missing.yaml", ".", "junk")),
    "name": (("1", "0001-small"), ("nope", "\x1b[2J")),
    "files": SPECS,
    "file": ((ABSENT,), ("junk.npz", "junk", "missing.npz")),
    "folder": (("new",), ("junk", ".")),
    "data": ((ABSENT, "trees.txt"), ("-", "wrong.txt", "empty.txt", "junk", "missing.txt", ".", "/dev/null")),
    "output": OUTPUTS,
    "plot": ((ABSENT, "plot.svg"), ("plot.nope", "no/folder.svg")),
    "svg": ((ABSENT, "layout.svg"), ("layout.nope", ".")),
    "cost": ((ABSENT,), ("junk.json", "missing.json", "junk")),
    "weights": ((ABSENT,), ("junk.npz", "junk", "missing.npz", ".")),
    "sizes": ((ABSENT, "hidden=3"), ("hidden=0", "nope=3", "hidden", "classes=x")),
    "size": ((ABSENT, "1", "2"), ("0", "-1", "x", "99999999999999999999")),
    "batch": ((ABSENT, "1", "2"), ("0", "-1", "x", "99999999999999999999")),
    "batches": ((ABSENT, "1,2"), ("0", "x")),
    "memory": ((ABSENT,), ("500M", "1", "x")),  # goes with --batch auto alone
    "policy": POLICIES,
    "policies": ((ABSENT, "agenda", "agenda,depth"), ("nope", ",")),
    "by": POLICIES,
    "against": ((ABSENT, "agenda"), ("nope",)),
    "executor": ((ABSENT, "cpu"), ("blas", "reference", "cuda", "nope")),
    "encoding": ((ABSENT,), ("best", "base", "max", "sort", "critical", "nope")),
    "precision": ((ABSENT,), ("float32", "bf16", "int8", "nope")),
    "precisions": ((ABSENT, "int8", "bf16,int8"), ("nope", ",")),
    "phases": ((ABSENT,), ("1", "0", "x")),
    "scheme": ((ABSENT,), ("auto", "batch", "plan", "nope")),
    "preset": ((ABSENT, "vanilla-dynet", "cavs-dynet", "ed-batch", "abw"), ("nope",)),
    "trials": (("3", "1"), ("0", "x")),
    "train_limit": (("2", "1"), ("0", "x")),
    "seeds": ((ABSENT, "1"), ("0", "x")),
    "seed": ((ABSENT, "0", "3"), ("-1", "x", "99999999999999999999")),
    "threads": ((ABSENT, "1", "2"), ("0", "x", "1000000")),
}
# Flags that do not go with every other option.
PARTICULAR = ("html", "svg", "dot", "png", "text", "profile", "no_tensor_cores", "table", "batches")
NOT_HERE = ("open_it",)  # opens a browser


def _values(name: str, kind: Any, is_flag: bool) -> _Values:  # noqa: ANN401
    if name in VALUES:
        return VALUES[name]
    if is_flag:
        return ((ABSENT,), ("yes",)) if name in PARTICULAR else ((ABSENT, "yes"), ())
    if get_origin(kind) is Literal:
        return (ABSENT, *map(str, get_args(kind))), ("nope",)
    return NUMBERS if kind is int else ((ABSENT,), ("junk", "missing.txt", "1", "."))


@cache
def command_lines() -> list[list[str]]:
    """All command lines, in an order of their own: all pairs of right values, and each wrong one with every
    right value of every other option.

    The commands of `abw bench` measure for minutes, and are no part.
    """
    found = []
    for name, command in commands().items():
        if getattr(command, "commands", None) or name.startswith("abw bench"):
            continue
        kinds = {name: kind for name, (kind, _) in declared(command).items()}
        params = {p.name: p for p in command.params if p.name not in NOT_HERE}
        values = {n: _values(n, kinds[n], bool(getattr(p, "is_flag", False))) for n, p in params.items()}
        right = {n: good for n, (good, _) in values.items()}
        rng = Random(name)
        rows = [*(all_pairs(right, rng) or [{}]), *_wrong_rows(values, rng)]
        found += [_line(name, params, row) for row in rows]
    Random(0).shuffle(found)
    return found


def _wrong_rows(values: Mapping[str, _Values], rng: Random) -> Iterator[dict[str, str]]:
    for name, (_, wrong) in values.items():
        others = {n: rng.sample(good, len(good)) for n, (good, _) in values.items() if n != name}
        for value in wrong:
            for number in range(max(map(len, others.values()), default=1)):
                yield {n: value if n == name else others[n][number % len(others[n])] for n in values}


def _line(name: str, params: Mapping[str, Any], row: Mapping[str, str]) -> list[str]:
    line = name.split()[1:]
    for key, value in row.items():
        option, is_flag = params[key].opts[0], getattr(params[key], "is_flag", False)
        if value != ABSENT:
            line += [option] if is_flag else [option, value] if option.startswith("-") else [value]
    return line


@cache
def _prepared() -> Path:
    """A folder with the files, and a run and its policy."""
    folder = Path(tempfile.mkdtemp(prefix="abw-fuzz-prepared-"))
    put(folder, FILES)
    with _inside(folder):
        code, said = _run(["run", "model.yaml", "-q"])
        assert code == 0, said
        shutil.copyfile(next(folder.glob(".abw/policies/**/*.json")), folder / "policy.json")
    return folder


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        with patch.dict(os.environ):
            os.environ.pop("ABW_HOME", None)  # what is written goes into this folder
            yield
    finally:
        os.chdir(before)


def _run(line: Sequence[str]) -> tuple[int, str]:
    """A command's exit code, and all that it printed."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with patch.object(sys, "argv", ["abw", *line]), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    return code, "".join(bytes(s.buffer.getvalue()).decode() for s in (out, err))


@target(
    "commands",
    lambda: [["--help"]],
    damage=lambda rng, cases, number: command_lines()[number % len(command_lines())],
    share=0.02,
    seconds=60.0,
    memory=1 << 30,
)
def command(case: list[str], folder: Path) -> None:
    shutil.copytree(_prepared(), folder, dirs_exist_ok=True)
    code, said = _run(case)
    assert code in CODES, f"exit code {code}: {said[-500:]}"
    assert not unshowable(said), f"printed {unshowable(said)}"
    assert code == 0 or said.strip(), "failed, and said nothing"
