"""What the user, the files or the system are to blame for is one line; standard output stays clean."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from abw.__main__ import main as run_command
from abw.core.base.errors import from_system
from abw.core.base.interrupts import Terminated
from tests.cli.conftest import Abw

SMALL = ("run", "specs/fig1.yaml", "--set", "hidden=4", "--quiet")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            MemoryError("Unable to allocate 9 GiB"),
            "error: not enough memory: Unable to allocate 9 GiB\n  hint: ",
        ),
        (MemoryError(), "error: not enough memory\n"),
        (OSError(28, "No space left on device", "/full/x"), "error: /full/x: No space left on device\n"),
        (PermissionError(13, "Permission denied", "/x"), "error: /x: Permission denied\n"),
        (OSError(5, "Input/output error"), "error: Input/output error\n"),
        (TimeoutError(), "error: TimeoutError\n"),
        (RecursionError("maximum recursion depth exceeded"), "error: something is nested too deeply"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), "can't decode byte 0xff"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_of_the_system_is_one_line(
    abw: Abw, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    from abw.core.tools import inspect

    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(inspect, "inspect", fails)
    done = abw("check", "specs/fig1.yaml", "--json")
    assert (done.code, done.out) == (1, "")
    assert said in done.err
    assert "Traceback" not in done.err
    assert len(done.err.splitlines()) == 1 + done.err.count("hint:")


def test_no_cause_is_left_out() -> None:
    assert str(from_system(OSError("no number"))) == "no number"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("check", "x" * 300 + ".yaml"), "File name too long"),
        (("check", "specs"), "a folder, not a file"),
        (("check", "loop.yaml"), "symbolic links"),
        (("check", "pipe.yaml"), "a pipe, not a file"),
        (("check", "specs/fig1.yaml", "--data", "pipe.yaml"), "a pipe, not a file"),
        (("learn", "specs/fig1.yaml", "-o", "{folder}"), "Is a directory"),
        (("learn", "specs/fig1.yaml", "-o", "{folder}/" + "x" * 300), "File name too long"),
        (("learn", "specs/fig1.yaml", "-o", "{folder}/file/p.json"), "is no folder"),
        (("calibrate", "specs/fig1.yaml", "-o", "{folder}/file/c.yaml"), "is no folder"),
        (("viz", "specs/fig1.yaml", "-o", "{folder}/file/c.svg"), "cannot write"),
        ((*SMALL, "-o", "{folder}/file/o.jsonl"), "there is no folder"),
        ((*SMALL, "-o", "{folder}/" + "x" * 300 + ".jsonl"), "File name too long"),
        ((*SMALL, "--policy", "specs.json"), "does not exist"),
        ((*SMALL, "--weights", "pipe.npz"), "a pipe or device, not a file"),
        (("viz", "{folder}/no\0run.json"), "cannot read policy"),
    ],
)
def test_paths_that_lead_nowhere(abw: Abw, tmp_path: Path, args: tuple[str, ...], said: str) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "file").touch()
    (folder / "loop.yaml").symlink_to("loop.yaml")
    for name in ("pipe.yaml", "pipe.npz"):
        os.mkfifo(folder / name)
    places = {"loop.yaml", "pipe.yaml", "pipe.npz"}
    words = [str(folder / a) if a in places else a.format(folder=folder) for a in args]
    done = abw(*words)
    assert done.code in (1, 2), done.err
    assert said in done.err
    assert "Traceback" not in done.err
    assert not [p for p in folder.iterdir() if p.name.startswith(".draft-")]


def test_a_path_that_is_no_text_is_said_and_kept(abw: Abw, root: Path, tmp_path: Path) -> None:
    data = tmp_path / os.fsdecode(b"\xff.txt")
    data.write_bytes((root / "specs/data/fig1.txt").read_bytes())
    done = abw(*SMALL, "--data", str(data), "--json")
    assert done.code == 0, done.err
    report = json.loads(done.out)
    assert report["data"] == str(data)
    done = abw("runs", "show", "--json")
    assert json.loads(done.out)["data"] == str(data)
    assert abw("runs").code == 0


def test_json_is_whole_where_standard_output_knows_ascii_alone(
    home: Path, root: Path, tmp_path: Path
) -> None:
    data = tmp_path / "äöü.txt"
    data.write_bytes((root / "specs/data/fig1.txt").read_bytes())
    done = subprocess.run(
        [sys.executable, "-m", "abw", "check", "specs/fig1.yaml", "--data", str(data), "--json"],
        capture_output=True,
        cwd=root,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        check=True,
    )
    assert json.loads(done.stdout.decode("ascii"))["data"] == str(data)


def test_out_of_memory_is_one_line(home: Path, root: Path) -> None:
    code = (
        "from abw.core.tools import inspect\n"
        "import numpy as np\n"
        "inspect.inspect = lambda *_: np.ones(2**50)\n"
        "import sys; sys.argv = ['abw', 'check', 'specs/fig1.yaml']\n"
        "from abw.cli.main import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "error: not enough memory: Unable to allocate 8.00 PiB" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("end", "word", "code"),
    [(Terminated(143), "terminated\n", 143), (KeyboardInterrupt(), "interrupted\n", 130)],
)
def test_a_signal_while_a_class_is_made_ends_it_in_order(
    end: BaseException,
    word: str,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Before 3.12 Python makes a RuntimeError of it."""

    def made() -> None:
        raise RuntimeError("Error calling __set_name__") from end

    monkeypatch.setattr("abw.cli.main.main", made)
    monkeypatch.setattr("abw.core.base.interrupts.end_in_order", lambda: None)
    with pytest.raises(SystemExit) as ended:
        run_command()
    assert ended.value.code == code and capsys.readouterr().err == word
