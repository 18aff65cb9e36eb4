"""Fixtures that all tests share."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# Compares a text with a golden file of that name.
Golden = Callable[[str, str], None]

ROOT = Path(__file__).resolve().parents[1]

# the first call of a compiled function takes seconds; CI judges a change by the same examples each time,
# elsewhere every run draws new ones; `pytest --hypothesis-profile long` draws many
settings.register_profile("abw", deadline=None, max_examples=50, derandomize=bool(os.environ.get("CI")))
settings.load_profile("abw")
settings.register_profile("long", max_examples=2000)

# Python keeps its bytecode of abw: each process that a test starts would parse all of abw anew
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # started in the background by a shell: commands that tests interrupt would never notice
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew")
    parser.addoption("--few", action="store_true", help="each test with two of its cases, and ten drawn ones")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--few"):
        settings.register_profile("few", settings.get_profile("abw"), max_examples=10)
        settings.load_profile("few")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no benches where they are left out."""
    left_out = "not bench" in config.option.markexpr
    return True if left_out and "bench" in collection_path.parts[len(ROOT.parts) :] else None


@pytest.hookimpl(tryfirst=True)  # before marks are looked at
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if "bench" in item.path.relative_to(ROOT).parts:
            item.add_marker("bench")
    if config.getoption("--few"):
        met = Counter[str]()
        kept = []
        for item in items:
            test = item.nodeid.partition("[")[0]
            met[test] += 1
            if met[test] <= 2:
                kept.append(item)
        items[:] = kept


def pytest_collection_finish(session: pytest.Session) -> None:
    """Let the garbage collector go through thousands of tests less often: they stay until the end.

    `gc.freeze` would hide what refers to an object, for which old releases of Hypothesis look.
    """
    gc.set_threshold(50_000)


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real data: the folder that ABW_DATA names, else `../shared/data`; the test is skipped without it."""
    path = Path(os.environ.get("ABW_DATA", ROOT.parent / "shared" / "data"))
    if not path.is_dir():
        pytest.skip(f"needs real data: {path} is absent (set ABW_DATA)")
    return path


@pytest.fixture(scope="session")
def kernels_home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workbench folder that keeps machine code from one session of tests to the next, like numba's.

    The code is named by what it was made of: a change of the code under test finds none of it.
    """
    cache = getattr(request.config, "cache", None)  # not there under `-p no:cacheprovider`
    return tmp_path_factory.mktemp("home") if cache is None else Path(cache.mkdir("abw-home"))


@pytest.fixture(scope="session", autouse=True)
def compiled_once(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Workers that begin to run all tests do not compile the same functions: each compiles a part of them."""
    worker = getattr(request.config, "workerinput", None)
    if worker is not None and len(request.session.items) > 1000:
        from tests.compiled import compile_once

        compile_once(tmp_path_factory.getbasetemp().parent, int(worker["workerid"].removeprefix("gw")))


@pytest.fixture
def golden(request: pytest.FixtureRequest, root: Path) -> Golden:
    """Compares a text with `tests/golden/NAME`; `pytest --update-golden` writes it there instead."""

    def check(name: str, text: str) -> None:
        path = root / "tests" / "golden" / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"{path} is missing: pytest --update-golden writes it"
        assert text == path.read_text(encoding="utf-8"), f"{name} differs: pytest --update-golden renews it"

    return check
