"""What `.ci/size.py` counts, and when it fails."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TEXT = '''"""A docstring."""

# a comment
def f(x: int) -> int:
    """Another."""
    return x + 1


NAME = "text"
"""What stands behind a constant."""
'''


@pytest.fixture(scope="module")
def size(root: Path) -> dict[str, Any]:
    return runpy.run_path(str(root / ".ci/size.py"))


def test_comments_and_docstrings_are_lines_but_no_tokens(size: dict[str, Any]) -> None:
    # def f ( x : int ) -> int : return x + 1 NAME = "text"
    assert size["sizes"]([("core/ir/cell.py", TEXT)]) == {"core/ir": (10, 17)}


def test_files_belong_to_rooms(size: dict[str, Any]) -> None:
    files = [
        (name, "x\n") for name in ("core/api.py", "core/exec/cpu/a.py", "cli/run.py", "tests/a.py", "a.py")
    ]
    assert size["sizes"](files) == {"core": (1, 1), "core/exec": (1, 1), "cli": (1, 1)}


@pytest.mark.parametrize(("budget", "code"), [("(2, 4)", 0), ("(1, 4)", 1), ("(2, 3)", 1)])
def test_a_room_over_its_budget_fails(root: Path, tmp_path: Path, budget: str, code: int) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a", *words], cwd=tmp_path, check=True)

    script = tmp_path / ".ci/size.py"
    script.parent.mkdir()
    head, _, rest = (root / ".ci/size.py").read_text().partition("BUDGETS = {\n")
    after = rest.partition("}\n")[2]
    script.write_text(f'{head}BUDGETS = {{"cli": {budget}}}\n{after}')
    (tmp_path / "cli").mkdir()
    git("init", "-q")
    for text in ("x\n", "x\na.b\n"):
        (tmp_path / "cli/a.py").write_text(text)
        git("add", "-A")
        git("commit", "-q", "-m", "more")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert ("over budget: cli" in done.stderr) == (code == 1)
    told = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}
    assert told["cli"][:2] == ["2", "+1"] and told["all"][0] == "2"
