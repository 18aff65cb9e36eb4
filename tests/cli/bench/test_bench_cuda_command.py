"""`abw bench cuda` from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from abw.bench import worker
from abw.bench.cuda import bench as cuda
from abw.bench.cuda.rig import Rig
from abw.core.exec.cuda import available
from abw.core.exec.cuda.driver.device import Device
from abw.core.exec.cuda.driver.driver import Driver
from abw.core.exec.cuda.tiles import Forms
from tests.cli.bench.test_bench_cuda import data as data
from tests.cli.bench.test_bench_cuda import library as library
from tests.cli.bench.test_bench_cuda import small
from tests.cli.conftest import Abw, Outcome
from tests.core.exec.cuda.conftest import toolkit as toolkit
from tests.core.exec.cuda.fakedriver import FakeLibrary


@pytest.fixture
def command(
    abw: Abw, library: FakeLibrary, data: Path, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Outcome]:
    """`abw bench cuda --output` on the stub, in this process."""

    class Near:
        def __init__(self, make: Callable[..., Rig], *args: object, seconds: float) -> None:
            self.rig = make(*args, Device(Driver(library), patience=0.05), small)

        def call(self, method: str, *args: object) -> object:
            return getattr(self.rig, method)(*args)

        def close(self) -> None: ...

    monkeypatch.setattr(worker, "Apart", Near)
    monkeypatch.setattr(available, "open_device", lambda: Device(Driver(library)))
    monkeypatch.setattr(cuda, "compile_all", lambda *given: (0, []))
    options = ("--workloads", "TreeLSTM", "--hidden", "4", "--batch", "1", "--output", str(tmp_path / "t.md"))
    return lambda *more: abw("bench", "cuda", "--data", str(data), *options, "-q", *more)


def test_the_command_writes_page_and_numbers(command: Callable[..., Outcome], tmp_path: Path) -> None:
    done = command("--runs", "1")
    assert done.code == 0, done.err
    assert "| TreeLSTM | plan | 4 | 1 |" in done.out
    assert (tmp_path / "t.md").read_text().strip() == done.out.strip()
    report = json.loads((tmp_path / "t.json").read_text())
    assert len(report["rows"]) == 1
    assert command("--runs", "1", "--json").json().keys() == report.keys()


@pytest.mark.parametrize(("flags", "used"), [((), True), (("--no-tensor-cores",), False)])
def test_the_command_without_tensor_cores(
    command: Callable[..., Outcome], flags: tuple[str, ...], used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Forms] = []
    opened = Rig.opened

    def compiling(specs: Path, networks: Any, arch: Any, forms: Forms, *more: Any) -> tuple[int, list[str]]:  # noqa: ANN401
        asked.append(forms)
        return 0, []

    def opening(near: Rig) -> dict[str, Any]:
        asked.append(near._gpu.forms)
        return opened(near)

    monkeypatch.setattr(cuda, "compile_all", compiling)
    monkeypatch.setattr(Rig, "opened", opening)
    assert command("--runs", "1", *flags).code == 0
    assert [forms.batch.tensor for forms in asked] == [used, used]


def test_the_command_fails_where_a_part_of_it_does(
    command: Callable[..., Outcome], library: FakeLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = library._launch
    wrong = [True]

    def first(*args: Any) -> int:  # noqa: ANN401
        library.simulate = not wrong
        wrong.clear() if len(library.launches) > 4 else None
        return launch(*args)

    monkeypatch.setattr(library, "_launch", first)
    done = command()
    assert done.code == 1
    assert "TreeLSTM, scheme batch, checked" in done.out
    assert "| TreeLSTM | plan | 4 | 1 |" in done.out
    assert "1 failed" in done.err
    assert (tmp_path / "t.md").read_text().strip() == done.out.strip()


def test_after_ctrl_c_what_there_is_is_printed(
    command: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Rig, "timed", lambda *given: (_ for _ in ()).throw(KeyboardInterrupt))
    done = command()
    assert done.code == 130
    assert "There was no time for 1 more" in done.out
    assert "Right before the timings" in (tmp_path / "t.md").read_text()


def test_without_a_gpu_the_command_says_what_is_missing(
    abw: Abw, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(available, "load_driver", lambda: None)
    done = abw("bench", "cuda", "--data", str(data), "--workloads", "TreeLSTM")
    assert done.code == 1
    assert "no NVIDIA driver" in done.err
    assert "580" in done.err
