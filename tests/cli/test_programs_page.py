"""What docs/programs.md says of an empty folder, followed by its letter."""

from __future__ import annotations

import json
import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Abw


def test_the_page_is_right_in_an_empty_folder(
    abw: Abw, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (root / "docs/programs.md").read_text()
    monkeypatch.chdir(tmp_path)
    files = re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```\n", page, re.S)
    assert [name for name, _ in files] == ["cells.yaml", "reader.py", "sentences.txt"]
    for name, text in files:
        Path(name).write_text(text)
    (commands,) = re.findall(r"<!-- ci: programs -->\n```sh\n(.*?)```", page, re.S)
    first, *rest = commands.splitlines()
    assert first == "python reader.py" and len(rest) == 3
    monkeypatch.setattr(sys, "argv", ["reader.py"])
    runpy.run_path("reader.py", run_name="__main__")
    assert re.fullmatch(r"([012] [123] \(3,\)\n){2}", capsys.readouterr().out)
    for command in rest:
        done = abw(*shlex.split(command)[1:])
        assert done.code == 0, done.err
    rows = [json.loads(line)["outputs"] for line in Path("out.jsonl").read_text().splitlines()]
    assert len(rows) == 3 and all(row.keys() == {"class", "read", "scores"} for row in rows)
    assert Path("run.html").stat().st_size > 10_000
