"""How `abw bench` prints, saves, compares and stops: by a bench made up for it."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from abw.bench.options import SPECS, Hidden, SpecsDir
from abw.bench.rows import Row, Rows
from abw.cli.bench.commands import BENCHES
from abw.core.base.interrupts import STOP
from tests.cli.conftest import Abw
from tests.cli.test_screens import WIDTHS, plain, terminal
from tests.pages.cli import commands

SEEN: list[Path] = []
SECONDS = [0.002]
PRESSED: list[Callable[[], None]] = []


def probe(specs: SpecsDir = SPECS, hidden: Hidden = 64) -> Rows:
    """A bench of two tables."""
    SEEN.append(specs)
    for model in ("TreeLSTM-2Type", "BiLSTM-Tagger-withchar"):
        yield Row(
            "speed", model=model, hidden=hidden, nodes=20_040, run_seconds=SECONDS[0], of_peak_share=0.81,
            over_torch_times=2.5, weights_bytes=4_240_000, instances_per_second=12_345.0, output_error=1.1e-6,
            node_ns=18.0, torch_seconds=None, same=True,
        )  # fmt: skip
        for press in PRESSED:
            press()
    yield Row("size", model="all", nodes=3)
    yield "measured peak: 117 GFLOP/s"


@pytest.fixture
def bench(abw: Abw, monkeypatch: pytest.MonkeyPatch) -> Iterator[Abw]:
    """`abw bench one` is the bench above."""
    monkeypatch.setattr("abw.bench.whole.one.one", probe)
    from abw.cli.groups import _made

    _made.cache_clear()
    SEEN.clear()
    PRESSED.clear()
    SECONDS[0] = 0.002
    yield lambda *args: abw("bench", "one", *args)
    _made.cache_clear()


@pytest.mark.parametrize("width", WIDTHS)
def test_no_table_is_cut(width: str, bench: Abw, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal(width, monkeypatch)
    text = plain(bench("-q").out)
    assert "…" not in text and "\xa0" not in text
    for shown in ("2 ms", "81%", "2.50 x", "4.24 MB", "12.3 k", "1.1e-06", "18 ns", "yes", "117 GFLOP/s"):
        assert shown in text
    if width != "pipe":
        assert max(map(len, text.splitlines())) <= int(width)


def test_a_heading_is_a_columns_name_without_its_unit(bench: Abw) -> None:
    speed = bench("-q").out.splitlines()[0]
    assert re.split(r"\s{2,}", speed) == [
        "speed: model", "hidden", "nodes", "run", "of peak", "over torch", "weights", "instances/s", "output",
        "node", "torch", "same",
    ]  # fmt: skip


def test_one_json_document(bench: Abw) -> None:
    done = bench("--hidden", "8", "--json", "--quiet")
    document = done.json()
    assert done.err == ""
    assert (document["schema_version"], document["bench"]) == (2, "probe")
    assert document["options"]["hidden"] == 8 and document["versions"]["numba"]
    assert [row["table"] for row in document["rows"]] == ["speed", "speed", "size"]
    assert document["notes"] == ["measured peak: 117 GFLOP/s"]


def test_a_saved_document_is_compared_with(bench: Abw, tmp_path: Path) -> None:
    file = tmp_path / "before.json"
    assert bench("--save", str(file), "-q").code == 0
    assert json.loads(file.read_text())["rows"][0]["run_seconds"] == 0.002
    SECONDS[0] = 0.001
    shown = plain(bench("--compare", str(file), "-q").out)
    assert "1 ms (2.00 x)" in shown and "12.3 k (1.00 x)" in shown
    assert "(" not in plain(bench("--hidden", "8", "--compare", str(file), "-q").out)  # another size


@pytest.mark.parametrize(
    ("text", "said"),
    [("{}", "not a document"), ("[1", "not a document"), (None, "cannot read"),
     ('{"bench": "cpu", "rows": []}', "is of abw bench cpu")],
)  # fmt: skip
def test_what_cannot_be_compared_with(text: str | None, said: str, bench: Abw, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    if text is not None:
        file.write_text(text)
    done = bench("--compare", str(file))
    assert done.code == 2 and said in done.err and not SEEN


def test_what_is_measured_before_ctrl_c_is_shown(bench: Abw, tmp_path: Path) -> None:
    PRESSED.append(lambda: signal.raise_signal(signal.SIGINT))
    done = bench("--save", str(tmp_path / "x.json"), "--json")
    assert (done.code, "ended early" in done.err) == (130, True)
    tables = [row["table"] for row in done.json()["rows"]]
    assert tables == ["speed", "speed"]  # Ctrl-C came while the second row was measured
    assert done.json() == json.loads((tmp_path / "x.json").read_text())
    assert not STOP.asked  # what is benched next in this process is not ended


def test_the_specs_that_ship_are_found_where_the_folder_has_none(
    bench: Abw, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench("-q")
    monkeypatch.chdir(tmp_path)
    bench("-q")
    assert SEEN[0] == SPECS and SEEN[1].is_dir() and (SEEN[1] / "treelstm.yaml").is_file()


def test_every_bench_is_listed() -> None:
    listed = {name.removeprefix("abw bench ") for name in commands() if name.startswith("abw bench ")}
    assert listed == {*BENCHES}
