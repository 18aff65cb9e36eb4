"""The folder of machine code stays below its limit, whoever reads, writes and trims it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.base.files import home
from abw.core.exec import codecache as kept
from abw.core.exec.codecache import cache_path, contents, evict, kernels_folder, read_cache, write_cache


def put(folder: Path, key: str, size: int, last: float) -> Path:
    """A file of `size` bytes, last used at a time."""
    path = cache_path(key, ".o", folder)
    folder.mkdir(exist_ok=True)
    path.write_bytes(b"x" * size)
    os.utime(path, (last, last))
    return path


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 10**6)), max_size=12), st.integers(0, 200))
def test_what_was_used_least_recently_goes(
    tmp_path_factory: pytest.TempPathFactory, files: list[tuple[int, int]], limit: int
) -> None:
    folder = tmp_path_factory.mktemp("kept")
    paths = [put(folder, str(n), size, last) for n, (size, last) in enumerate(files)]
    evict(folder, limit)
    left = [path.exists() for path in paths]
    size = sum(f[0] for f, there in zip(files, left, strict=True) if there)
    assert size <= limit
    gone = [f for f, there in zip(files, left, strict=True) if not there]
    if gone:
        # nothing went without need: the last to go did not fit
        newest = max(last for _, last in gone)
        assert all(last >= newest for (_, last), there in zip(files, left, strict=True) if there)
        assert size + max(s for s, last in gone if last == newest) > limit


def test_reading_is_using(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = (cache_path(key, ".o", tmp_path) for key in "abc")
    for age, path in enumerate((second, first)):
        write_cache(path, b"code" * 100)
        os.utime(path, (1000 + age, 1000 + age))
    assert read_cache(second) == b"code" * 100
    monkeypatch.setattr(kept, "LIMIT", 1000)
    write_cache(third, b"more" * 100)
    assert read_cache(first) is None
    assert read_cache(second) == b"code" * 100
    assert read_cache(third) == b"more" * 100


def test_files_of_others_stay(tmp_path: Path) -> None:
    strange = tmp_path / "notes.txt"
    strange.write_bytes(b"x" * 100)
    own = put(tmp_path, "own", 100, 2)
    assert [k.path for k in contents(tmp_path)] == [own]
    evict(tmp_path, 0)
    assert strange.exists() and not own.exists()


def test_drafts_that_nobody_finishes_are_deleted(tmp_path: Path) -> None:
    old, new = tmp_path / ".draft-old", tmp_path / ".draft-new"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 7200,) * 2)
    write_cache(cache_path("a", ".o", tmp_path), b"code")
    assert not old.exists()
    assert new.exists()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert contents(tmp_path / "none") == []
    evict(tmp_path / "none")


SCRIPT = """
import random, sys
from pathlib import Path
from abw.core.exec import codecache as kept
kept.LIMIT = 20_000
folder, own = Path(sys.argv[1]), int(sys.argv[2])
random.seed(own)
found = 0
for turn in range(300):
    key = str(random.randrange(40))
    path = kept.cache_path(key, ".o", folder)
    code = kept.read_cache(path)
    if code is None:
        kept.write_cache(path, key.encode() * 500)
    else:
        assert code == key.encode() * 500
        found += 1
assert found
"""


def test_several_processes_at_once(root: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(root)}
    running = [
        subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path), str(n)], env=environment, cwd=root)
        for n in range(3)
    ]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    evict(tmp_path, 20_000)
    assert 10_000 < sum(k.size for k in contents(tmp_path)) <= 20_000
    assert not list(tmp_path.glob(".draft-*"))


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("ABW_HOME", "")
    assert kernels_folder() == Path(".abw/kernels")
    assert home() == Path(".abw")
