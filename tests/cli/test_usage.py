"""A wrong command line is told as every other error is, and what users typed is never obeyed."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated

import pytest

from abw.cli.groups import chosen, flag, flattened, group, option, without
from tests.cli.conftest import Abw
from tests.pages.cli import commands

SMALL = ("--set", "hidden=4", "--threads", "1", "--quiet")


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("frob", "abw has no command 'frob'", "one of: bench, "),
        ("rnu", "abw has no command 'rnu'", "did you mean 'run'?"),
        ("runs frob", "abw runs has no command 'frob'", "one of: diff, "),
        ("run", "abw run needs SPEC", "`abw specs` lists the models that ship"),
        ("train", "abw train needs SPEC or --resume", "`abw specs` lists the models that ship"),
        ("new tree", "abw new needs FOLDER", "`abw new --help`"),
        ("new forest x", "TEMPLATE does not take 'forest'", "one of: chain, "),
        ("run sst --no-kep", "abw run has no option --no-kep", "did you mean --no-keep?"),
        ("run sst --granularity cel", "--granularity does not take 'cel'", "one of: cell, op, graph"),
        ("run sst --limit many", "--limit takes a whole number, not 'many'", ""),
        ("run sst --limit 0", "--limit takes a whole number from 1, not '0'", ""),
        ("serve sst --port 99999", "--port takes a whole number from 0 to 65535, not '99999'", ""),
        ("train sst --checkpoint soon", "--checkpoint takes a number, not 'soon'", ""),
        ("viz sst --mini-batch -1", "--mini-batch takes a whole number from 0, not '-1'", ""),
        ("run sst --skip-bad true", "got unexpected extra argument(s) (true)", "`abw run --help`"),
        ("run sst --batch some", "--batch: 'some' is neither a number from 1 on nor auto", ""),
        ("compare sst --policies deep", "--policies does not take 'deep'", "did you mean 'depth'?"),
    ],
)
def test_wrong_command_lines_are_errors_as_all_others(abw: Abw, line: str, message: str, hint: str) -> None:
    done = abw(*line.split())
    assert done.code == 2 and done.out == ""
    first, *rest = done.err.splitlines()
    assert first == f"error: {message}"
    assert len(rest) == bool(rest) <= 1
    assert rest[0].startswith(f"  hint: {hint}") if hint else not rest


def test_help_is_no_error(abw: Abw) -> None:
    for line in ([], ["--help"], ["run", "-h"], ["bench"]):
        done = abw(*line)
        assert "Usage: abw" in done.out + done.err and "error" not in done.err


def test_flags_have_no_value_in_help(abw: Abw) -> None:
    for command in (["run"], ["train"], ["viz"], ["runs"], ["runs", "diff"], ["bench", "cold"]):
        said = abw(*command, "--help").out
        assert "bool" not in said and "--json" in said


ESCAPE = "\x1b[31mred\x1b[0m\nerror: forged\x9b"


@pytest.mark.parametrize(
    "line",
    [
        ["ESC"],
        ["run", "ESC"],
        ["run", "sst", "ESC"],
        ["run", "sst", "--ESC"],
        ["run", "sst", "--limit", "ESC"],
        ["run", "sst", "--policy", "ESC"],
        ["run", "sst", "--set", "ESC"],
        ["run", "sst", "--data", "ESC"],
        ["run", "sst", "--weights", "ESC"],
        ["run", "sst", "--tag", "ESC"],
        ["run", "sst", "--batch", "auto", "--memory", "ESC"],
        ["new", "tree", "ESC"],
        ["new", "ESC", "x"],
        ["runs", "show", "ESC"],
        ["viz", "ESC"],
        ["viz", "sst", "-o", "ESC"],
        ["serve", "sst", "--host", "ESC"],
        ["serve", "sst", "--timeout", "ESC"],
        ["join", "ESC"],
    ],
    ids=" ".join,
)
def test_what_users_type_is_shown_and_not_obeyed(abw: Abw, line: list[str], tmp_path: Path) -> None:
    typed = str(tmp_path / "a\x1b\x9b") if line == ["new", "tree", "ESC"] else ESCAPE
    done = abw(*(word.replace("ESC", typed) for word in line))
    said = done.out + done.err
    assert said
    assert not [c for c in said if (ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160]
    assert "\nerror: forged" not in said


def test_a_trainings_name_is_its_weights(abw: Abw, home: Path, tmp_path: Path) -> None:
    assert abw("train", "sst", *SMALL, "--epochs", "1").code == 0
    best = str(home / "training" / "0001-sst" / "best.safetensors")
    size = ("--set", "hidden=4")
    for name in ("t1", str(Path(best).parent), best):
        assert (
            abw("run", "sst", *size, "--weights", name, "--no-keep", "--json").json()["weights"]["path"]
            == best
        )
    assert abw("weights", "sst", "t1", *size, "--json").json()["file"]["path"] == best
    assert abw("train", "sst", *SMALL, "--weights", "t1", "--epochs", "1").code == 0
    wrong = abw("run", "sst", "--weights", "t7")
    assert wrong.code == 1 and "there is no training 't7'" in wrong.err
    Path(best).unlink()
    early = abw("run", "sst", "--weights", "t1")
    assert early.code == 1 and "training t1 has no epoch yet" in early.err


def test_quiet_commands_print_nothing_but_what_was_asked_for(abw: Abw, tmp_path: Path) -> None:
    size, few = ("--set", "hidden=4"), ("--limit", "8")
    out, page = str(tmp_path / "out.jsonl"), str(tmp_path / "graph.svg")
    for line in (
        ["run", "sst", *size],
        ["run", "sst", *size, *few, "-o", out],
        ["learn", "sst", *size, "-o", str(tmp_path / "policy.json")],
        ["calibrate", "sst", *size, *few, "-o", str(tmp_path / "costs.json")],
        ["train", "sst", *size, *few, "--epochs", "2"],
        ["train", "sst", "--set", "hidden=2", "--limit", "1", "--check"],
        ["viz", "sst", *size, "--limit", "2", "--graph", "-o", page],
    ):
        done = abw(*line, "--quiet")
        assert (done.code, done.out, done.err) == (0, "", "")
    assert Path(out).is_file() and Path(page).is_file()
    lines = abw("run", "sst", *size, *few, "-o", "-", "--quiet")
    assert lines.code == 0 and lines.err == ""
    assert abw("run", "sst", *size, *few, "--json", "--quiet").json()["instances"] == 8
    assert "lower bound" in abw("compare", "sst", *size, *few, "--quiet").out


def test_every_command_takes_quiet_and_json() -> None:
    for name, command in commands().items():
        for name_of_flag in ("--quiet", "--json"):
            has = any(name_of_flag in param.opts for param in command.params)
            assert has or getattr(command, "commands", None), (name, name_of_flag)


def test_commands_that_change_something_report_it_as_json(abw: Abw, tmp_path: Path) -> None:
    made = abw("new", "tree", str(tmp_path / "made"), "--json").json()
    assert str(tmp_path / "made" / "model.yaml") in made["paths"]
    assert abw("run", "sst", *SMALL, "--limit", "4").code == 0
    noted = abw("runs", "note", "1", "first", "--tag", "x", "--json").json()
    assert (noted["note"], noted["tags"]) == ("first", ["x"])
    assert abw("runs", "prune", "--keep", "0", "--json").json()["removed"] == []
    removed = abw("runs", "rm", "1", "--json").json()
    assert removed["removed"] == [noted["path"]] and removed["bytes"] > 0


@group
class Sizes:
    """Options of a command for tests."""

    small_size: int = option("The size.", "N", "-s", default=3, least=1)
    other: str | None = option("Another.", program="because")
    on: bool = flag("A flag.", "--switch")


def test_options_of_a_group_are_parameters_of_the_command() -> None:
    seen = []

    def command(sizes: Annotated[Sizes, without("other")], name: str) -> None:
        seen.append((sizes, name))

    flat = flattened(command)
    parameters = inspect.signature(flat).parameters
    assert list(parameters) == ["small_size", "on", "name"]
    assert parameters["small_size"].default.param_decls == ("--small-size", "-s")
    assert parameters["on"].default.param_decls == ("--switch",)
    flat(small_size=5, on=True, name="x")
    assert seen == [(Sizes(small_size=5, other=None, on=True), "x")]
    assert [name for name, _ in chosen(seen[0][0])] == ["--small-size", "--switch"]
    assert not list(chosen(Sizes()))


@pytest.mark.parametrize("command", [("specs",), ("check", "lattice"), ("doctor",), ("runs", "show")])
def test_quiet_where_there_is_nothing_to_leave_out(abw: Abw, command: tuple[str, ...]) -> None:
    plain = abw(*command)
    for quiet in ("--quiet", "-q"):
        assert abw(*command, quiet) == plain
