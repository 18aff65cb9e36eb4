"""What commands print at 80 and 120 columns and into a pipe, as golden text.

Documents are those of real commands, with all that a clock or the machine says made the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from abw.cli.commands import check, compare, explain, layout, runs, specs, weights
from abw.cli.report import print_run
from abw.core.store.runs import StoredRun
from tests.cli.conftest import Abw
from tests.conftest import Golden

WIDTHS = ("80", "120", "pipe")
LATTICE = ("specs/lattice.yaml", "--batch", "16", "--set", "hidden=8")


def steady(found: Any, root: Path, key: str = "") -> Any:  # noqa: ANN401 (JSON)
    """The document with times, bytes of processes, paths and versions that are the same everywhere."""
    if isinstance(found, dict):
        return {k: steady(v, root, k) for k, v in found.items()}
    if isinstance(found, list):
        return [steady(v, root, key) for v in found]
    if isinstance(found, str):
        return re.sub(r"\S*(/abw-home|/abw(?=/specs))", lambda m: m[1][1:], found.replace(f"{root}/", ""))
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
    "explain": (explain._print, ("explain", *LATTICE, "--policy", "agenda")),
    "layout": (layout._print, ("layout", "specs/cells/gru.yaml")),
    "weights": (weights._print, ("weights", "specs/lattice.yaml")),
    "specs": (specs._print, ("specs",)),
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
    monkeypatch.setenv("COLUMNS", "40" if width == "pipe" else width)
    monkeypatch.setenv("NO_COLOR", "1")
    if width != "pipe":
        monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("TZ", "UTC")
    capsys.readouterr()
    say(report)
    text = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", SCREENS)
def test_a_screen(
    name: str,
    width: str,
    abw: Abw,
    root: Path,
    documents: dict[str, Any],
    golden: Golden,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    say, command = SCREENS[name]
    if name not in documents:
        done = abw(*command, "--json")
        assert done.code == 0, done.err
        documents[name] = steady(done.json(), root)
        if name == "specs":  # others come
            kept = ("attention-nmt", "fig1", "lattice", "words")
            documents[name]["specs"] = [s for s in documents[name]["specs"] if s["name"] in kept]
    text = shown(width, say, documents[name], monkeypatch, capsys)
    golden(f"screens/{name}-{width}.txt", text)
    assert "…" not in text and "\xa0" not in text
    if width != "pipe":  # paths and commands alone may be longer than a line: a shell takes them as they are
        long = [line for line in text.splitlines() if len(line) > int(width)]
        assert all("/" in line or "`" in line or ": " in line for line in long)


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
