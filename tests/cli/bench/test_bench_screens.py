"""The tables of `abw bench` at 80 and 120 columns and into a pipe, of made-up reports."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from abw.cli.reference import commands
from tests.cli.bench.reports import MODULES, REPORTS
from tests.cli.conftest import Abw
from tests.cli.test_screens import WIDTHS, plain, terminal
from tests.conftest import Golden

WITHOUT_DATA = {"cold", "cost", "models", "operations", "reading"}


def test_every_bench_has_a_screen() -> None:
    benches = {name.removeprefix("abw bench ") for name in commands() if name.startswith("abw bench ")}
    assert set(REPORTS) == set(MODULES) == benches - {"cuda"}  # which prints Markdown of its own


@pytest.mark.parametrize("width", WIDTHS)
def test_no_table_is_cut(
    width: str, abw: Abw, golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal(width, monkeypatch)
    screens = []
    for name, report in REPORTS.items():
        module = importlib.import_module(f"abw.bench.{MODULES[name]}")
        monkeypatch.setattr(module, f"bench_{name}", lambda *_, report=report, **__: report)
        data = () if name in WITHOUT_DATA else ("--data", str(tmp_path))
        done = abw("bench", name, *data)
        assert done.code == 0, (name, done.err)
        screens.append(f"$ abw bench {name}\n{plain(done.out)}")
    text = "\n".join(screens)
    golden(f"screens/bench-{width}.txt", text)
    assert "…" not in text and "\xa0" not in text
    if width != "pipe":
        assert max(map(len, text.splitlines())) <= int(width)
