"""The other commands, and what holds for all of them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from tests.cli.conftest import Abw

COMMANDS = [
    "run",
    "check",
    "layout",
    "learn",
    "compare",
    "calibrate",
    "explain",
    "runs",
    "viz",
    "schema",
    "weights",
    "doctor",
    "bench",
]


def test_help_needs_no_heavy_import() -> None:
    """NumPy and numba take most of a second: `abw --help` answers before they could be loaded."""
    code = (
        "import sys, runpy; sys.argv = ['abw', '--help']\n"
        "from abw.cli.main import main\n"
        "try: main()\n"
        "except SystemExit as e: assert not e.code\n"
        "heavy = {'numpy', 'numba', 'yaml', 'llvmlite'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(command in done.stdout for command in COMMANDS)


def test_a_command_imports_no_other_and_no_validators() -> None:
    """Typer makes all commands, and asks pydantic about paths and defaults: three tenths of a second."""
    code = (
        "import sys; sys.argv = ['abw', 'weights', 'specs']\n"
        "from abw.cli.main import main\n"
        "try: main()\n"
        "except SystemExit as e: assert e.code == 1, e.code\n"
        "prefix = 'abw.cli.commands.'\n"
        "assert [name for name in sys.modules if name.startswith(prefix)] == [prefix + 'weights']\n"
        "assert 'pydantic' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == "error: specs is a folder, not a file\n", done.stderr


def test_interrupted_before_the_command_line_is_there() -> None:
    code = (
        "import sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'typer': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "from abw.__main__ import main\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(abw: Abw, command: str) -> None:
    done = abw(command, "--help")
    assert done.code == 0
    assert "Usage: abw" in done.out
    assert len(done.out.splitlines()) > 5


def test_the_help_of_run_names_every_policy(abw: Abw) -> None:
    from abw.core.policy.registry import POLICIES

    said = abw("run", "--help").out
    assert [p for p in POLICIES if p not in said] == []


@pytest.mark.parametrize("command", [c for c in COMMANDS if c not in ("runs", "bench")])
def test_no_help_loses_what_looks_like_markup(abw: Abw, command: str) -> None:
    """Rich takes [words] in square brackets for its own and drops them: help says defaults in round ones."""
    said = " ".join(abw(command, "--help").out.split())
    assert not re.search(r" [.,](\s|$)", said)


def test_the_options_name_every_encoding() -> None:
    from abw.cli import options
    from abw.core.policy.learned.states import ENCODINGS

    assert get_args(options.EncodingName) == ("best", *ENCODINGS)


def test_an_unknown_command_is_a_usage_error(abw: Abw) -> None:
    done = abw("rnu")
    assert done.code == 2
    assert "run" in done.err


def test_version(abw: Abw) -> None:
    from abw import __version__

    assert abw("--version").out == f"abw {__version__}\n"


def test_check_counts_what_a_run_counts(abw: Abw) -> None:
    flags = ("specs/lattice.yaml", "--batch", "16")
    checked = abw("check", *flags, "--json").json()
    run = abw("run", *flags, "--set", "hidden=8", "--json").json()
    for key in ("model", "instances", "mini_batches", "nodes", "lower_bound"):
        assert checked[key] == run[key]
    assert sum(t["nodes"] for t in checked["types"]) == checked["nodes"]
    assert 0 < checked["memory_bytes"] < 2**30
    done = abw("check", *flags)
    assert "ok" in done.out
    assert "the largest mini-batch takes" in done.out


def test_check_of_a_broken_spec_reports_all_its_mistakes(abw: Abw, tmp_path: Path, root: Path) -> None:
    text = (root / "specs" / "treelstm.yaml").read_text()
    text = text.replace("inputs:", "imputs:", 1).replace("batch:", "bacth:", 1)
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    done = abw("check", str(path))
    assert done.code == 1
    assert "did you mean 'inputs'?" in done.err
    assert "did you mean 'batch'?" in done.err
    assert f"{path}:" in done.err


def test_shipped_models_are_found_by_name_unless_a_file_here_has_it(
    abw: Abw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    listed = abw("specs", "--json").json()["specs"]
    assert {"treelstm", "lattice"} <= {row["name"] for row in listed} and all(r["summary"] for r in listed)
    assert "tree LSTM" in abw("specs").out
    for command in (
        ("check", "treelstm"),
        ("explain", "fig1", "--policy", "agenda"),
        ("layout", "treelstm"),
        ("weights", "lattice"),
    ):
        done = abw(*command)
        assert done.code == 0, done.err
    (tmp_path / "treelstm").write_text("model: mine\n")
    assert "has no 'types'" in abw("check", "treelstm").err
    done = abw("check", "treelsm")
    assert done.code == 1
    assert "no model of that name ships" in done.err and "did you mean 'treelstm'?" in done.err


def test_check_takes_a_cell_too(abw: Abw) -> None:
    done = abw("check", "specs/cells/linear.yaml", "--set", "in=3", "--set", "out=2")
    assert done.code == 0, done.err
    assert "[3] -> y [2]" in done.out
    assert abw("check", "specs/cells/linear.yaml", "--json").json()["parameters"] == 64 * 64 + 64


def test_check_shows_the_backward_pass(abw: Abw) -> None:
    done = abw("check", "treelstm", "--backward")
    assert done.code == 0, done.err
    assert "    d_o = g_h * d_o.1\n" in done.out
    assert "    Uil += outer(d_i.4, hl)\n" in done.out
    types = abw("check", "treelstm", "--backward", "--json").json()["types"]
    assert [t["type"] for t in types] == ["leaf", "internal", "output"]
    assert types[1]["inputs"] == ["d_hl", "d_cl", "d_hr", "d_cr"]
    shown = abw("check", "treelstm-attend", "--backward").out
    assert "  at each value\n    d = the sum of w (g v - g y) q\n" in shown
    assert "each neighbour has the gradient of the sum" in abw("check", "lattice", "--backward").out
    done = abw("check", "greedy", "--backward")
    assert done.code != 0
    assert "make their scores an output" in done.err
    (cell,) = abw("check", "specs/cells/linear.yaml", "--backward", "--json").json()["types"]
    assert cell["equations"][0] == "d_x = transpose(W) @ g_y"
    assert cell["weights"] == ["b += d_b", "W += outer(d_b, x)"]


def test_learn_writes_a_readable_policy_that_run_then_uses(abw: Abw, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    done = abw("learn", "specs/treelstm.yaml", "--encoding", "base", "-o", str(path), "--trials", "100")
    assert done.code == 0, done.err
    assert str(path) in done.out
    document = json.loads(path.read_text())
    assert document["encoding"] == "base"
    assert document["data"]["instances"] == 32
    run = abw("run", "specs/treelstm.yaml", "--policy", str(path), "--set", "hidden=8", "--json").json()
    assert run["encoding"] == "base"
    assert run["batches"] == run["lower_bound"]
    assert run["training"]["path"] == str(path)


def test_learn_says_what_was_tried_and_why_this_one(abw: Abw, home: Path) -> None:
    flags = ("specs/lattice.yaml", "--set", "hidden=8", "--batch", "2")
    shown = abw("learn", *flags)
    assert shown.code == 0, shown.err
    assert "would take longer to schedule than they save" in " ".join(shown.out.split())
    shown = abw("learn", *flags, "--executor", "blas")  # whose batches are dear
    (path,) = (home / "policies").iterdir()
    document = json.loads(path.read_text())
    assert document["version"] == 2
    assert path.stat().st_size < 1e6
    names = [" ".join(t["policies"]) for t in document["tried"] if len(t["policies"]) == 1]
    assert {"depth", "critical", "critical-reversed", "share"} <= set(names)
    assert all(name in shown.out for name in names)
    run = abw("run", *flags, "--json").json()
    assert not run["training"]["fresh"]
    assert run["picked"] in shown.out
    assert run["training"]["tried"] == len(document["tried"])
    assert abw("run", *flags[:3], "--batch", "3", "--json").json()["training"]["fresh"]  # of another size
    alone = abw("viz", str(path), "--policy")
    assert alone.code == 0 or "no state machine" in alone.err


def test_learned_weights_work_wherever_a_policy_file_does(abw: Abw, home: Path, tmp_path: Path) -> None:
    flags, path = ("specs/lattice.yaml", "--set", "hidden=8"), tmp_path / "linear.json"
    assert abw("learn", *flags, "-o", str(path)).code == 0
    document = json.loads(path.read_text())
    name = "linear-learned-reversed"
    document["tried"] = [{**document["tried"][0], "policies": [name]}]
    document["linear"] = {name: {"mass": 0.5, "next_share": 2.0, "free": 3.0}}
    path.write_text(json.dumps(document))
    run = abw("run", *flags, "--policy", str(path), "--verify", "--json").json()
    assert run["picked"] == name
    usual = abw("run", *flags, "--policy", "depth", "--json").json()
    assert run["batches"] < usual["batches"]
    shown = abw("runs", "diff", "1", "2")
    assert "the same, bit for bit" in shown.out, shown.err
    (folder, _) = sorted((home / "runs").iterdir())
    assert json.loads((folder / "policy.json").read_text())["linear"] == document["linear"]
    for command in (
        ("check", *flags, "--policy", str(path)),
        ("explain", *flags, "--policy", str(path)),
        ("compare", *flags, "--policies", f"{path},linear"),
        ("viz", *flags, "--by", str(path), "-o", str(tmp_path / "page.html")),
        ("viz", "1", "-o", str(tmp_path / "run.html")),
    ):
        done = abw(*command)
        assert done.code == 0, done.err
        assert name in done.out or command[0] != "compare"


def test_phases_learn_what_the_frontier_alone_cannot_tell(abw: Abw) -> None:
    """The paper's Fig. 10 (A.4): the types on the frontier do not say which of two trees is under way."""
    learned = {}
    for phases in ("0", "2"):
        done = abw("learn", "specs/fig10.yaml", "--encoding", "base", "--phases", phases, "--json")
        assert done.code == 0, done.err
        learned[phases] = done.json()
    assert learned["2"]["path"] != learned["0"]["path"]
    assert learned["0"]["training"]["batches"] > learned["2"]["training"]["batches"] == 12
    run = abw(
        "run", "specs/fig10.yaml", "--policy", learned["2"]["path"], "--set", "hidden=4", "--json"
    ).json()
    assert run["batches"] == run["lower_bound"] == 12
    refused = abw("learn", "specs/fig10.yaml", "--phases", "2")
    assert refused.code == 2
    assert "named encoding" in refused.err


def test_runs_lists_and_shows(abw: Abw) -> None:
    assert "no runs" in abw("runs").out
    missing = abw("runs", "show")
    assert missing.code == 1
    assert "abw run" in missing.err
    for limit in ("3", "4"):
        assert abw("run", "specs/fig1.yaml", "--limit", limit).code == 0
    listed = abw("runs", "--json").json()["runs"]
    assert [r["instances"] for r in listed] == [min(3, listed[0]["instances"]), listed[1]["instances"]]
    shown = abw("runs", "show", "1")
    assert "command: abw run specs/fig1.yaml --limit 3" in shown.out
    assert "outputs.npz" in shown.out
    assert abw("runs", "show", "2", "--json").json()["path"].endswith("0002-fig1")
    assert "abw runs" in abw("runs", "show", "7").err


def test_a_damaged_run_is_listed_and_hides_no_other(abw: Abw, home: Path) -> None:
    for _ in range(2):
        abw("run", "specs/fig1.yaml", "-q", "--policy", "agenda")
    (home / "runs" / "0001-fig1" / "run.json").write_text("{")
    listed = abw("runs")
    assert (listed.code, "damaged" in listed.out, "agenda" in listed.out) == (0, True, True)
    first, second = abw("runs", "--json").json()["runs"]
    assert "run.json is damaged" in first["damage"]
    assert second["policy"] == "agenda"
    assert abw("runs", "show").code == abw("explain").code == 0
    for command in (("runs", "show", "1"), ("explain", "1"), ("viz", "1")):
        refused = abw(*command)
        assert (refused.code, "run 1 is damaged" in refused.err) == (1, True)


def test_doctor_finds_what_is_here(abw: Abw) -> None:
    found = {f["name"]: f for f in abw("doctor", "--json").json()["findings"]}
    assert found.keys() >= {"python", "numpy", "numba", "processor", "blas", "gpu", "cuda compiler", "dot"}
    assert found["numba"]["ok"]
    assert found["kernels"]["ok"]
    assert "kernels: " in found["kernels"]["value"]
    assert "of at most 256 MiB" in found["kernels"]["value"]
    assert all(f["hint"] for f in found.values() if not f["ok"])
    assert "numba" in abw("doctor").out


def test_schema_is_the_one_that_ships(abw: Abw, root: Path) -> None:
    assert abw("schema").json() == json.loads((root / "specs" / "abw.schema.json").read_text())


def test_bench_without_its_data_says_how_to_give_it(abw: Abw, tmp_path: Path) -> None:
    done = abw("bench", "cpu", "--data", str(tmp_path))
    assert done.code == 1
    assert "--data" in done.err
