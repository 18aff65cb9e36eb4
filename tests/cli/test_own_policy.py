"""A policy of one's own, named in every command; and the one way to name policies."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Abw

SMALL = ("specs/lattice.yaml", "--batch", "16", "--limit", "32")


@pytest.fixture(scope="module")
def mine(root: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The file that docs/policies.md shows."""
    page = (root / "docs" / "policies.md").read_text()
    text = page.split("```python\n# mine.py\n")[1].split("```")[0]
    path = tmp_path_factory.mktemp("own") / "mine.py"
    path.write_text(text)
    return str(path)


def test_every_command_takes_it(abw: Abw, mine: str) -> None:
    run = abw("run", *SMALL, "--set", "hidden=8", "--policy", mine, "--verify", "--json").json()
    assert run["policy"] == mine
    compared = abw("compare", *SMALL, "--policies", f"critical,agenda-reversed,{mine}", "-q", "--json").json()
    by_name = {p["policy"]: p["batches"] for p in compared["policies"]}
    assert run["batches"] == by_name[mine] <= min(by_name.values())
    checked = abw("check", *SMALL, "--policy", mine, "--json").json()
    assert (checked["batches"], checked["policy"]) == (run["batches"], mine)
    explained = abw("explain", *SMALL, "--policy", f"{mine}:Mine", "--json").json()
    assert abw("explain", "1", "--json").json()["batches"] == explained["batches"]
    drawn = abw("viz", "1", "--by", "depth", "--against", mine, "--batches", "--json").json()
    lanes = {lane["policy"]: len(lane["type"]) for lane in drawn["batches"][0]["lanes"]}
    assert list(lanes) == ["depth", mine] and lanes[mine] == explained["batches"]


def test_a_run_is_explained_under_another_policy(abw: Abw, tmp_path: Path) -> None:
    learned = str(tmp_path / "p.json")
    assert abw("learn", *SMALL[:3], "--encoding", "base", "-o", learned, "--trials", "20", "-q").code == 0
    assert abw("run", *SMALL, "--set", "hidden=8", "--policy", "depth", "-q").code == 0
    own = abw("explain", "1", "--json").json()["batches"]
    for name in ("critical", learned):
        other = abw("explain", "1", "--policy", name, "--json").json()
        of_spec = abw("explain", *SMALL, "--policy", name, "--json").json()
        assert other["batches"] == of_spec["batches"] < own
    refused = abw("explain", "1", "--policy", "fsm")
    assert (refused.code, "learned first" in refused.err) == (1, True)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("run", *SMALL, "--policy", "agneda"), "did you mean 'agenda'"),
        (("check", *SMALL, "--policy", "agneda"), "did you mean 'agenda'"),
        (("explain", *SMALL, "--policy", "agneda"), "did you mean 'agenda'"),
        (("compare", *SMALL, "--policies", "depth,fsm-bsae"), "did you mean 'fsm-base'"),
        (("viz", SMALL[0], "--by", "agneda"), "did you mean 'agenda'"),
        (("viz", SMALL[0], "--against", "agneda"), "did you mean 'agenda'"),
        (("viz", SMALL[0], "--policy", "critical"), "did you mean --by critical?"),
        (("viz", "--policy", "mine.py"), "did you mean --by mine.py?"),
        (("viz", SMALL[0], "--by", "depth", "--encoding", "base"), "goes with --by fsm"),
    ],
)
def test_wrong_names_are_usage_errors(abw: Abw, command: tuple[str, ...], said: str) -> None:
    done = abw(*command)
    assert (done.code, done.out) == (2, "")
    assert said in " ".join(done.err.replace("│", "").split())


def test_its_own_mistakes_have_their_place(abw: Abw, tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text("class Bad:\n    def schedule(self, dag):\n        return dag.nodes\n")
    for command in (("run", "--set", "hidden=8"), ("compare", "-q"), ("explain",)):
        option = "--policies" if command[0] == "compare" else "--policy"
        done = abw(command[0], *SMALL, *command[1:], option, str(path))
        assert done.code == 1
        assert f"error: {path}:3: AttributeError" in done.err


@pytest.mark.parametrize("line", ["raise SystemExit(3)", "raise KeyError('x')"])
def test_what_it_raises_is_told_with_its_line(abw: Abw, tmp_path: Path, line: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(f"class A:\n    def schedule(self, dag):\n        {line}\n")
    done = abw("run", *SMALL, "--policy", str(path), "--no-keep", "-q")
    assert done.code == 1 and f"mine.py:3: {line.split()[1].split('(')[0]}: " in done.err
