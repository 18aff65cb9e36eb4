"""docs/cli.md is made from the commands, and up to date."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from abw.core.exec.registry import EXECUTORS
from tests.cli.conftest import Abw
from tests.pages.cli import BENCH, EVERY, commands, is_bench, reference


def test_the_page_is_what_the_commands_say(root: Path) -> None:
    page = (root / "docs" / "cli.md").read_text()
    assert page == reference().rstrip() + "\n", "mend it: python -m tests.pages.cli > docs/cli.md"


def test_every_command_has_a_section_with_all_its_options() -> None:
    sections = {text.partition("\n")[0]: text for text in reference().split("\n## ")[1:]}
    shared = sections.pop("Shared options")
    there_are = commands()
    benches = {name for name in there_are if is_bench(name)}
    assert set(sections) == {*there_are} - {"abw"} - benches
    listed = sections[BENCH].partition("measures: ")[2]
    assert {f"{BENCH} {name}" for name in re.findall("`([^` ]+)`", listed.partition("\n")[0])} == benches
    for name, section in sections.items():
        for param in there_are[name].params:
            if param.param_type_name == "option":
                flag = f"`{max(param.opts, key=len)}`"
                assert flag in section or flag.strip("`") in EVERY, (name, flag)
                here = (
                    section if f"`{max(param.opts, key=len)}`" in section.partition("[Shared")[0] else shared
                )
                assert all(f"`{opt}`" in here for opt in param.opts)
                assert (param.help or "") in here
            else:
                assert (param.help or "") in section + shared


def test_executors_that_can_be_asked_for_are_those_there_are() -> None:
    section = reference().split("\n## abw run\n")[1].split("\n## ")[0]
    choices = re.search(r"`--executor` `([^`]+)`", section)
    assert choices and set(choices[1].split("|")) == set(EXECUTORS)


def test_the_page_does_not_depend_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    page = reference()
    for width in ("30", "300"):
        monkeypatch.setenv("COLUMNS", width)
        assert reference() == page


def test_the_readmes_picture_is_what_abw_draws(abw: Abw, root: Path, tmp_path: Path) -> None:
    drawn, command = tmp_path / "fig1.svg", "viz specs/fig1.yaml --batches --by fsm"
    assert abw(*command.split(), "--output", str(drawn)).code == 0
    assert drawn.read_text() == (root / "docs" / "images" / "fig1.svg").read_text()
    assert f"`abw {command}`" in (root / "README.md").read_text()
