"""Nothing that only POSIX has is needed: the commands run without it."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli import posixless
from tests.cli.conftest import Abw

FOLDERS = ("cli", "core", "pqtree", "viz", "bench")
# Files that name what only POSIX has, and why that is no harm.
GUARDED = {
    "core/base/parallel.py": "asks first whether it is there",
    "core/base/memory.py": "after Windows was asked",
    "core/store/shard_files.py": "asks first whether it is there",
    "bench/serving/serve.py": "refuses to run where there is no /proc",
}


def posix_only(tree: ast.Module) -> Iterator[str]:
    """What a file imports at its top, or takes of `os` and `signal`, that only POSIX has."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in posixless.MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module in posixless.MODULES:
            yield node.module
    for part in ast.walk(tree):
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
            names = {"os": posixless.OS, "signal": (*posixless.SIGNALS, "SIGKILL")}.get(part.value.id, ())
            if part.attr in names:
                yield f"{part.value.id}.{part.attr}"


def test_no_file_needs_what_only_posix_has(root: Path) -> None:
    texts = {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for folder in FOLDERS
        for path in (root / folder).rglob("*.py")
    }
    names = re.compile(
        rf"\b({'|'.join((*posixless.MODULES, *posixless.OS, *posixless.SIGNALS, 'SIGKILL'))})\b"
    )
    named = {path: ast.parse(text) for path, text in texts.items() if names.search(text)}
    found = {path: wrong for path, tree in named.items() if (wrong := list(posix_only(tree)))}
    # imported by `abw serve` alone, which refuses Windows
    served = {name for path in list(found) if path.startswith("core/serve/") for name in found.pop(path)}
    assert "uvloop" in served
    assert found.keys() <= GUARDED.keys(), found


def test_the_search_for_it_finds_it() -> None:
    text = "import resource\nfrom fcntl import flock\nos.fork()\nsignal.SIGKILL\nif x:\n    import pwd\n"
    assert sorted(posix_only(ast.parse(text))) == ["fcntl", "os.fork", "resource", "signal.SIGKILL"]


def test_the_main_commands_run_without_posix_in_an_encoding_of_windows(
    home: Path, root: Path, tmp_path: Path
) -> None:
    spec = str(root / "specs" / "fig1.yaml")
    words = [
        ["--help"],
        ["check", spec],
        ["run", spec, "--verify", "--output", str(tmp_path / "out.npz"), "--trace", str(tmp_path / "t.json")],
        ["run", spec, "--policy", "agenda", "--output", str(tmp_path / "out.jsonl"), "--note", "the second"],
        ["run", spec, "--policy", "agenda", "--no-keep", "--output", "-"],
        ["learn", spec, "--trials", "5", "--output", str(tmp_path / "policy.json")],
        ["explain", spec, "--policy", "agenda"],
        ["runs"],
        ["runs", "diff", "1", "2"],
        ["runs", "rm", "1"],
        ["viz"],
        ["viz", "--html", "-o", str(tmp_path / "run.html")],
        ["weights", spec],
        ["specs"],
        ["schema"],
        ["new", "chain", str(tmp_path / "mine")],
        ["check", str(tmp_path / "missing.yaml")],
    ]
    done = subprocess.run(
        [sys.executable, "-X", "warn_default_encoding", "-m", "tests.cli.posixless", json.dumps(words)],
        cwd=root,
        env={**os.environ, "PYTHONIOENCODING": "cp1252", "NO_COLOR": "1"},
        capture_output=True,
        check=False,
    )
    said, told = done.stdout.decode("cp1252"), done.stderr.decode("cp1252")
    assert "Traceback" not in told, told
    codes = json.loads(told.splitlines()[-1])
    assert [w for w, code in zip(words[:-1], codes, strict=False) if code] == [], told
    assert codes[-1] == 1 or codes[-1] == 2, told
    assert "→" not in said and "peak memory" in said
    assert b"\r" not in (tmp_path / "out.jsonl").read_bytes() and (tmp_path / "mine" / "model.yaml").is_file()
    left = [p.name for p in (home / "runs").iterdir()]
    assert not any(name.startswith((".draft-", ".lock-")) for name in left), left


def test_a_lock_of_windows_keeps_others_out(root: Path, tmp_path: Path) -> None:
    code = """
import subprocess, sys
from pathlib import Path
sys.path.append(sys.argv[2])
from tests.cli import posixless
posixless.forget_posix()
from abw.core.base.errors import AbwError
from abw.core.base.files import replacing
from abw.core.base.files import UNIX
from abw.core.store.folders import held
assert not UNIX
folder, file = Path(sys.argv[1]), Path(sys.argv[1]) / "file"
if len(sys.argv) > 3:  # the other process
    for block in (lambda: held(folder), lambda: replacing(file, wait=False)):
        try:
            with block():
                print("free")
        except AbwError as error:
            print("is being written by another process" in str(error))
else:
    other = [sys.executable, __file__, str(folder), sys.argv[2], "other"]
    with held(folder), replacing(file) as made:
        made.write(b"whole")
        subprocess.run(other, check=True)
    assert file.read_bytes() == b"whole"
    subprocess.run(other, check=True)
"""
    (tmp_path / "two.py").write_text(code, encoding="utf-8")
    (tmp_path / "folder").mkdir()
    done = subprocess.run(
        [sys.executable, str(tmp_path / "two.py"), str(tmp_path / "folder"), str(root)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.stdout.split(), done.stderr) == (["True", "True", "free", "free"], "")


def test_serve_is_refused_on_windows(abw: Abw, monkeypatch: pytest.MonkeyPatch) -> None:
    from abw.cli.commands import serve
    from abw.core.base.errors import AbwError

    monkeypatch.setattr(os, "name", "nt")
    with pytest.raises(AbwError, match="does not run on Windows"):
        serve._serve()
