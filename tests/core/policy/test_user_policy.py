"""Policies of one's own by their names: found, checked, and what is wrong with them told with its place."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from abw.core.base.errors import AbwError
from abw.core.policy.registry import get_policy, require_name
from abw.core.policy.reverse import reversed_dag
from abw.core.policy.user_policy import is_user_policy
from tests.core.policy import graphs

DAG = graphs.dag("ab", [0, 0, 0, 1], [(0, 2), (2, 3)])

WIDE = """
from __future__ import annotations
from dataclasses import dataclass
import helper_of_wide
from abw.core.policy.registry import get_policy
from abw.core.policy.schedule import Schedule

@dataclass(frozen=True, slots=True)
class Wide:
    speed: int = 1
    def schedule(self, dag):
        found = get_policy("depth").schedule(dag)
        return Schedule(found.type.astype("i8"), found.ptr.tolist(), helper_of_wide.same(found.nodes))
"""
OTHERS = """
class Twice:
    def schedule(self, dag):
        from abw.core.policy.schedule import Schedule
        return Schedule([0, 0, 1], [0, 2, 3, 4], [0, 1, 2, 2])

class Broken:
    def schedule(self, dag):
        return self.divided()
    def divided(self):
        return 1 / 0

class Asks:
    def __init__(self, speed):
        pass
    def schedule(self, dag):
        pass

made = Twice()
number = 3
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with policies, in which Python stands; what is imported from there is forgotten after."""
    (tmp_path / "wide.py").write_text(WIDE)
    (tmp_path / "helper_of_wide.py").write_text("same = list\n")
    (tmp_path / "others.py").write_text(OTHERS)
    (tmp_path / "typo.py").write_text("x = 1\nclass Typo\n")
    (tmp_path / "none.py").write_text("x = 1\n")
    (tmp_path / "needs.py").write_text("x = 1\nimport not_there_at_all\n")
    monkeypatch.chdir(tmp_path)
    for name in ("wide", "others", "typo", "none", "needs", "helper_of_wide"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


@pytest.mark.parametrize("name", ["wide.py", "wide.py:Wide", "wide:Wide", "./wide.py"])
def test_a_policy_is_found_by_its_place_and_its_arrays_are_made_right(name: str) -> None:
    before = list(sys.path)
    found, right = get_policy(name).schedule(DAG), get_policy("depth").schedule(DAG)
    assert (str(found.nodes.dtype), found.nodes.tolist()) == ("int32", right.nodes.tolist())
    assert sys.path == before


def test_one_in_another_folder_finds_what_is_beside_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    assert len(get_policy(f"{folder}/wide.py").schedule(DAG)) == len(get_policy("depth").schedule(DAG))


def test_it_can_be_reversed() -> None:
    found = get_policy("wide.py-reversed").schedule(DAG)
    assert len(found) == len(get_policy("depth").schedule(reversed_dag(DAG)))
    require_name("wide.py-reversed")


def test_a_changed_file_is_read_anew_and_an_unchanged_one_is_not(folder: Path) -> None:
    counted = folder / "counted.py"
    text = "import os\nos.mkdir(f'run{len(os.listdir())}')\n" + OTHERS
    counted.write_text(text)
    for _ in range(3):
        get_policy("counted.py:Twice")
    assert len(list(folder.glob("run*"))) == 1
    counted.write_text(text.replace("class Twice", "class Thrice").replace("Twice()", "3"))
    get_policy("counted.py:Thrice")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent.py", "there is no file absent.py"),
        ("absent:Policy", "there is no module 'absent'"),
        ("absent.part:Policy", "there is no module 'absent.part'"),
        ("others:Twise", "others has nothing called 'Twise'\n  hint: did you mean 'Twice'"),
        ("others.py", "others.py has 3 policies\n  hint: name one: others.py:Asks, others.py:Broken"),
        ("none.py", r"none.py has no class with a method schedule\(dag\)"),
        ("others:number", "a int is no policy"),
        ("others:Asks", "others:Asks: TypeError: .*speed"),
        ("typo.py", "typo.py:2: expected ':'"),
        ("needs.py", "needs.py:2: ModuleNotFoundError: .*not_there_at_all"),
        ("needs:Any", "needs.py:2: ModuleNotFoundError: .*not_there_at_all"),
        (":Policy", "there is no module ''"),
    ],
)
def test_what_is_wrong_before_it_runs(name: str, message: str) -> None:
    with pytest.raises(AbwError, match=f"^{message}"):
        get_policy(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("others:Broken", "others.py:11: ZeroDivisionError: division by zero"),
        ("others.py:Twice", "policy others.py:Twice: node 2 is executed 2 times"),
        ("others:made", "policy others:made: node 2 is executed 2 times"),
    ],
)
def test_what_is_wrong_when_it_runs(name: str, message: str) -> None:
    with pytest.raises(AbwError, match=f"^{message}"):
        get_policy(name).schedule(DAG)


def test_what_is_no_name_of_ones_own() -> None:
    assert not any(map(is_user_policy, ("depth", "depth-reversed", "fsm", "policy.json", "C:/policy.json")))
    with pytest.raises(AbwError, match="did you mean 'agenda'"):
        require_name("agneda")
