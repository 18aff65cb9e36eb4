"""What is compiled makes no arrays, what is inside has no entry for Python; what is kept is checked."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.caching import CacheImpl
from numba.core.compiler import CompilerBase
from numba.core.dispatcher import Dispatcher
from numba.core.errors import TypingError

from abw.core.jit.decorators import allocating, inner, is_compiled, njit
from abw.core.jit.loops import Loops

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"), reason="numba compiles nothing"
)


@inner
def _doubled(x: int) -> int:
    return 2 * x


@njit
def _double_all(values: Any) -> None:  # noqa: ANN401
    for i in range(len(values)):
        values[i] = _doubled(values[i])


@njit
def _refused(n: int) -> Any:  # noqa: ANN401
    return np.zeros(n)


@allocating
def _allowed(n: int) -> Any:  # noqa: ANN401
    return np.zeros(n)


def test_inner_functions_are_called_by_compiled_ones_alone() -> None:
    values = np.arange(3)
    for _ in range(2):  # before and after it was compiled
        with pytest.raises(TypeError, match="_doubled can be called by compiled functions alone"):
            _doubled(1)
        _double_all(values)
    assert values.tolist() == [0, 4, 8]
    assert is_compiled(_double_all)


def test_arrays_are_made_by_the_caller() -> None:
    with pytest.raises(TypingError):
        _refused(3)
    assert _allowed(3).tolist() == [0, 0, 0]


@njit
def _first_or_none(values: Any, at: int | None) -> Any:  # noqa: ANN401
    if at is None:
        return len(values)
    return values[at]


def test_what_few_passes_cannot_compile_all_of_them_do() -> None:
    values = np.arange(3)
    assert [_first_or_none(values, None), _first_or_none(values, 1)] == [3, 1]


class _Unremembered(Loops):
    """Every call typed by numba, each time."""

    def __init__(self, *given: object) -> None:
        CompilerBase.__init__(self, *given)  # type: ignore[no-untyped-call]


def test_types_of_calls_that_are_remembered_are_numbas_own() -> None:
    def mixed(wide: Any, narrow: Any, flags: Any) -> Any:  # noqa: ANN401
        most = max(int(wide[0]), 3)
        for i in range(len(narrow)):
            if flags[i] and narrow[i] < wide[-1]:
                narrow[i] += most
                wide[0] = wide[0] + narrow[i] // 2
        return most

    args = (numba.int64[::1], numba.int32[::1], numba.boolean[::1])
    other = (numba.float64[::1], numba.uint8[::1], numba.boolean[::1])
    jit: Any = numba.njit
    for signature in (args, other, args):
        texts = []
        for pipeline in (_Unremembered, Loops):
            compiled = jit(pipeline_class=pipeline, _nrt=False)(mixed)
            compiled.compile(signature)
            # names are numbered, and so one of them may be a digit longer
            texts.append(re.sub(r'_Z\w+(", \d+)?', "", compiled.inspect_asm(signature)))
        assert texts[0] == texts[1]


def test_what_was_never_called_is_not_compiled() -> None:
    def anew() -> int:
        return 1

    function: Callable[[], int] = anew
    assert is_compiled(function)  # needs none
    assert not is_compiled(njit(function))


def test_where_no_machine_code_can_be_kept_it_is_compiled_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(CacheImpl, "_locator_classes", [])

    @njit
    def third(x: int) -> int:
        return x // 3

    assert third(7) == 2
    assert is_compiled(third)  # no other process could compile it for this one


CALLER = """
import callee
from abw.core.jit.decorators import njit

@njit
def tripled(x):
    return {name} * x
"""
CALLEE = """
from numba import types
from numba.extending import intrinsic
from abw.core.jit.decorators import njit
FACTOR = {factor}

@intrinsic
def spelled(context, x):
    return types.int64(x), lambda context, *others: context.get_constant(types.int64, {factor})

@njit
def times(x):
    return FACTOR * x
"""
FORKS = """
import os, sys
import numba
from abw.core.jit.decorators import njit

njit(lambda x: 2 * x)(1)  # numba makes its tables at the first
for line in sys.stdin:
    folder = line.strip()
    if os.fork():
        if os.wait()[1]:
            print("failed", flush=True)
        continue
    sys.path.insert(0, folder)
    sys.dont_write_bytecode = True  # Python would believe it where a file changes within a second
    numba.config.CACHE_DIR = f"{folder}/cache"
    from caller import tripled
    print(tripled(7), sum(tripled.stats.cache_hits.values()), flush=True)
    os._exit(0)
"""


@pytest.fixture(scope="module")
def forks(root: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has compiled neither, of which each that shall is a fork: a new one takes a second."""
    command = [sys.executable, "-c", FORKS]
    with subprocess.Popen(
        command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as running:
        yield running


class Program:
    """A compiled function in a file of its own, which names what another file holds; run in new processes."""

    def __init__(self, folder: Path, forks: subprocess.Popen[str], name: str = "callee.FACTOR") -> None:
        self.folder = folder
        self.forks = forks
        self.write(3)
        (folder / "caller.py").write_text(CALLER.format(name=name))

    def write(self, factor: int) -> None:
        (self.folder / "callee.py").write_text(CALLEE.format(factor=factor))

    def run(self) -> str:
        """What it computed of 7, and whether the machine code was found."""
        assert self.forks.stdin and self.forks.stdout
        print(self.folder, file=self.forks.stdin)
        return self.forks.stdout.readline().strip()

    @property
    def files(self) -> list[Path]:
        return sorted((self.folder / "cache").glob("*/caller.tripled*"))


@pytest.mark.parametrize("name", ["callee.FACTOR", "callee.times(1)", "callee.spelled(1)"])
def test_what_changes_in_another_file_is_noticed(
    forks: subprocess.Popen[str], tmp_path: Path, name: str
) -> None:
    program = Program(tmp_path, forks, name)
    assert [program.run(), program.run()] == ["21 0", "21 1"]
    program.write(5)
    assert [program.run(), program.run()] == ["35 0", "35 1"]
    assert len(program.files) == 1  # what is out of date is written over


def test_a_damaged_file_is_compiled_anew(forks: subprocess.Popen[str], tmp_path: Path) -> None:
    program = Program(tmp_path, forks)
    assert program.run() == "21 0"
    (file,) = program.files
    whole = file.read_bytes()
    file.write_bytes(whole[:40] + bytes([whole[40] ^ 1]) + whole[41:])
    assert [program.run(), program.run()] == ["21 0", "21 1"]


@njit
def _halved(x: int) -> float:
    return x / 2


@pytest.fixture(scope="module")
def halved_file() -> Iterator[tuple[Path, bytes]]:
    """The machine code of `_halved`, which is whole again in the end."""
    assert _halved(3) == 1.5
    files = _halved._cache._cache_file  # type: ignore[attr-defined]
    (path,) = (path for path in files._files() if files._read(path) is not None)
    whole = path.read_bytes()
    yield path, whole
    path.write_bytes(whole)
    assert is_compiled(_halved)


@settings(max_examples=300)
@given(st.data())
def test_no_damage_is_loaded(halved_file: tuple[Path, bytes], data: st.DataObject) -> None:
    path, whole = halved_file
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = bytearray(whole)
    damaged[at] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(damaged[: data.draw(st.sampled_from([len(whole), len(whole), at]))])
    assert _halved._cache._cache_file._read(path) is None  # type: ignore[attr-defined]
    assert not is_compiled(_halved)


def test_ctrl_c_waits_until_a_function_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Dispatcher.compile
    compiled: list[object] = []

    def interrupted(self: Dispatcher, signature: Any) -> object:  # noqa: ANN401 (numba's)
        os.kill(os.getpid(), signal.SIGINT)
        compiled.append(whole(self, signature))
        return compiled[-1]

    monkeypatch.setattr(Dispatcher, "compile", interrupted)

    @njit
    def twice(x: int) -> int:
        return 2 * x

    with pytest.raises(KeyboardInterrupt):
        twice(3)
    assert len(compiled) == 1
    assert twice(3) == 6
