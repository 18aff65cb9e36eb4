"""What commands print at 80 and 120 columns and into a pipe, as golden text.

Documents are those of real commands, with all that a clock or the machine says made the same.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from abw.cli.commands import check, compare, explain, layout, machine, precision, runs, specs, weights
from abw.cli.report import print_run
from abw.core.exec.cuda.available import Finding
from abw.core.store.runs import StoredRun
from tests.cli.conftest import Abw
from tests.conftest import Golden
from tests.pages.cli import commands

WIDTHS = ("80", "120", "pipe")
STATE = "tests/golden/torch/torch-lstm.safetensors"
LATTICE = ("specs/lattice.yaml", "--batch", "16", "--set", "hidden=8")


def steady(found: Any, root: Path, tmp: Path | None = None, key: str = "") -> Any:  # noqa: ANN401 (JSON)
    """The document with times, bytes of processes, paths and versions that are the same everywhere."""
    if isinstance(found, dict):
        return {k: steady(v, root, tmp, k) for k, v in found.items()}
    if isinstance(found, list):
        return [steady(v, root, tmp, key) for v in found]
    if isinstance(found, str):
        found = found.replace(f"{tmp}/", "tmp/")
        return re.sub(r"\S*(/abw-home|/abw(?=/specs))", lambda m: m[1][1:], found.replace(f"{root}/", ""))
    if key == "agree":  # of nearly equal scores the largest is another on another processor
        return 600
    if key == "max_error":  # a larger one is explained in other words
        return 1.23e-7 if found is not None else None
    if key in ("ratio", "worst_ratio", "mean_rows", "at_least") or not isinstance(found, (int, float)):
        return found
    if isinstance(found, float):
        return 0.0123
    measured = key.endswith("_bytes") or key in (
        "total",
        "at_rest",
        "available",
        "weights",
        "instances_bytes",
    )
    return 123_456_789 if measured and not isinstance(found, bool) else found


def compared(report: dict[str, Any]) -> None:
    compare._print(report, None)


def listed(report: dict[str, Any]) -> None:
    from abw.cli.console import show

    stored = [
        StoredRun(
            Path(run["path"]), {**run, "date": "2026-01-02T03:04:05+00:00"}, "", run["note"], run["tags"]
        )
        for run in report["runs"]
    ]
    show(runs._table(stored))


SCREENS: dict[str, tuple[Callable[[dict[str, Any]], None], tuple[str, ...]]] = {
    "run": (print_run, ("run", *LATTICE, "--policy", "agenda", "--threads", "1", "--verify")),
    "profile": (print_run, ("run", *LATTICE, "--policy", "depth", "--threads", "1", "--profile")),
    "check": (check._print, ("check", *LATTICE, "--policy", "agenda")),
    "compare": (compared, ("compare", *LATTICE, "--policies", "depth,agenda,critical,search", "-q")),
    "compare-precision": (precision._print, ("compare-precision", *LATTICE, "-q")),
    "explain": (explain._print, ("explain", *LATTICE, "--policy", "agenda")),
    "layout": (layout._print, ("layout", "specs/cells/gru.yaml")),
    "weights": (weights._print, ("weights", "specs/lattice.yaml")),
    "weights-file": (
        weights._print,
        ("weights", "specs/torch-lstm.yaml", STATE, *("--set", "hidden=5", "--set", "embed=6")),
    ),
    "check-cell": (check._print_cell, ("check", "specs/cells/lstm.yaml")),
    "check-backward": (check._print_backward, ("check", "specs/lattice-gru.yaml", "--backward")),
    "check-growth": (check._print, ("check", "specs/greedy.yaml", "--limit", "4")),
    "explain-growth": (explain._print, ("explain", "specs/greedy.yaml", "--limit", "8", "--set", "hidden=8")),
    "calibrate": (machine._print_costs, ("calibrate", "specs/fig1.yaml", "--output", "TMP/costs.yaml")),
    "specs": (specs._print_specs, ("specs",)),
}


@pytest.fixture(scope="module")
def documents() -> dict[str, Any]:
    """Those of the commands, made once."""
    return {}


def shown(
    width: str,
    say: Callable[[dict[str, Any]], None],
    report: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> str:
    """What is printed on a terminal of a width, or into a pipe whatever COLUMNS says."""
    terminal(width, monkeypatch)
    capsys.readouterr()
    say(report)
    return plain(capsys.readouterr().out)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", SCREENS)
def test_a_screen(
    name: str,
    width: str,
    abw: Abw,
    root: Path,
    tmp_path: Path,
    documents: dict[str, Any],
    golden: Golden,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    say, command = SCREENS[name]
    if name not in documents:
        done = abw(*(word.replace("TMP", str(tmp_path)) for word in command), "--json")
        assert done.code == 0, done.err
        documents[name] = steady(done.json(), root, tmp_path)
        if name == "specs":  # others come
            kept = ("attention-nmt", "fig1", "lattice", "words")
            documents[name]["specs"] = [s for s in documents[name]["specs"] if s["name"] in kept]
    text = shown(width, say, documents[name], monkeypatch, capsys)
    golden(f"screens/{name}-{width}.txt", text)
    assert "…" not in text and "\xa0" not in text
    if width != "pipe":  # paths and commands alone may be longer than a line: a shell takes them as they are
        long = [line for line in text.splitlines() if len(line) > int(width)]
        assert all("/" in line or "`" in line or ": " in line or " = " in line for line in long)


@pytest.mark.parametrize("width", WIDTHS)
def test_lists_of_runs_and_what_differs(
    width: str,
    abw: Abw,
    root: Path,
    golden: Golden,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for policy, note in (("depth", "the slow one"), ("agenda", "")):
        flags = ("--policy", policy, "--threads", "1", *(("--note", note, "--tag", "base") if note else ()))
        assert abw("run", *LATTICE, "-q", *flags).code == 0
    for name, say, command in (
        ("runs", listed, ("runs",)),
        ("diff", runs._print_diff, ("runs", "diff", "1", "2")),
    ):
        report = steady(abw(*command, "--json").json(), root)
        golden(f"screens/{name}-{width}.txt", shown(width, say, report, monkeypatch, capsys))


def terminal(width: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands print as on a terminal of a width, or into a pipe whatever COLUMNS says."""
    importlib.import_module("typer.rich_utils")  # it reads FORCE_COLOR once: not what is set here
    monkeypatch.setenv("COLUMNS", "40" if width == "pipe" else width)
    monkeypatch.setenv("NO_COLOR", "1")
    if width != "pipe":
        monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("TZ", "UTC")


def plain(text: str) -> str:
    """A text without styles and without blanks at the ends of lines."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


SESSION: tuple[tuple[str, ...], ...] = (
    ("doctor",),
    (
        "learn",
        "specs/lattice.yaml",
        "--encoding",
        "base",
        "--trials",
        "5",
        "--output",
        "TMP/p.json",
    ),
    ("train", "specs/sst.yaml", "--epochs", "2", "--limit", "8", "--set", "hidden=4"),
    ("runs",),
    ("runs", "show", "t1"),
    ("run", "specs/fig1.yaml", "--policy", "agenda", "--note", "of the paper", "--tag", "fig"),
    ("runs", "note", "1", "of the paper, agenda"),
    ("viz", "specs/fig1.yaml", "--by", "agenda"),
    ("viz", "specs/fig1.yaml", "--by", "agenda", "--model"),
    ("runs", "rm", "1"),
    ("runs", "prune", "--keep", "1"),
    ("runs",),
    ("new", "chain", "TMP/mine"),
    ("run", "TMP/none.yaml"),
    ("run", "specs/fig1.yaml", "--policy", "agneda"),
)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_session(
    width: str,
    abw: Abw,
    root: Path,
    home: Path,
    tmp_path: Path,
    golden: Golden,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All that other commands print, one after the other, as it is seen."""
    found = [
        Finding("python", True, "3.11.7 on Linux"),
        Finding("gpu", False, "no NVIDIA driver (libcuda) found", "install NVIDIA's driver, 580 or newer"),
    ]
    monkeypatch.setattr("abw.core.tools.doctor.examine", lambda: found)
    monkeypatch.setattr("abw.cli.commands.learn.duration", lambda _: "12.3 ms")
    terminal(width, monkeypatch)
    screens = []
    for words in SESSION:
        done = abw(*(word.replace("TMP", str(tmp_path)) for word in words))
        said = plain(done.out) + (plain(done.err) if done.code else "")
        if words[0] == "run" and not done.code:  # the rest is a screen of its own
            said = said.splitlines()[-1] + "\n"
        if words[0] == "train":  # its curves are shown below, with the numbers of any machine
            said = "".join(f"{line}\n" for line in said.splitlines() if re.match(r"sst: \d|weights", line))
        screens.append(f"$ abw {' '.join(words)}\n{said}")
        if words[0] == "train":
            curve = home / "training" / "0001-sst" / "curve.json"
            told = json.loads(curve.read_text())
            for number, row in enumerate(told["rows"]):  # what another machine computes otherwise
                row |= {"instances_per_second": 1234.5, "loss": 1.5 - number, "accuracy": 0.25 + number / 2}
            curve.write_text(json.dumps(told))
    text = "\n".join(screens)
    for path, name in ((str(home), "home"), (str(tmp_path), "tmp"), (f"{root}/", "")):
        text = text.replace(path, name)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "2026-01-02 03:04", text)
    text = re.sub(r"removed: [\d,]+ B", "removed: 1,234 B", text)
    text = re.sub(r"versions: .*", "versions: ...", text)
    text = text.replace("{SPEC}", "SPEC")  # as older versions of Typer write it
    golden(f"screens/session-{width}.txt", text)


def test_no_help_is_cut_or_wider_than_the_terminal(abw: Abw, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal("80", monkeypatch)
    for name in commands():
        said = plain(abw(*name.split()[1:], "--help").out)
        assert name.removeprefix("abw ") in said and "…" not in said, name
        assert max(map(len, said.splitlines())) <= 80, name


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1", "utf-8"])
def test_what_an_encoding_lacks_is_written_in_ascii(encoding: str) -> None:
    import io

    from abw.cli.console import Outlet, amount, duration

    raw = io.BytesIO()
    before = io.TextIOWrapper(raw, encoding=encoding)
    out = Outlet(before)
    out.write(f"3 × {amount(12345, 'B')} {duration(1e-5)} … → ▁█ ⠁⠀ 漢\n")
    out.flush()
    said = raw.getvalue().decode(encoding)
    if encoding == "ascii":
        assert said == "3 x 12.3 kB 10 us ... -> 1# *  \\u6f22\n"
    out.detach()
    assert ("×" in said) == (encoding != "ascii")
