"""What abw keeps and reads again: policies, costs, runs, machine code."""

from __future__ import annotations

import functools
import io
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from abw.core.exec.codecache import read_cache, write_cache
from abw.core.exec.interface import Executed
from abw.core.graph.dag import Dag
from abw.core.jit.decorators import njit
from abw.core.policy.check import check_schedule
from abw.core.policy.cost import cost_of, least_cost
from abw.core.policy.costfile import cost_text, read_cost
from abw.core.policy.learned.choice import Tried
from abw.core.policy.learned.fsm import FsmPolicy
from abw.core.policy.learned.learner import learn
from abw.core.policy.learned.policyfile import read_any
from abw.core.policy.learned.trying import choose
from abw.core.policy.rules.depth import Depth
from abw.core.policy.rules.linear import Linear
from abw.core.policy.rules.weight import PATH, Weight
from abw.core.run.observing.trace import load_times, save_times
from abw.core.run.pipeline import RunOptions, run
from abw.core.spec.load import Overrides
from abw.core.store.runs import find_run, list_runs
from abw.core.tools.explain import explain_run
from abw.viz.data.fsm import policy_alone
from abw.viz.data.scene import scene_of_run
from abw.viz.data.times import times_document
from tests.core.policy import graphs
from tests.fuzz.target import ROOT, damaged_case, put, target

NUMBERS = (b"Infinity", b"NaN", b"-1", b"2000000000", b"1e400", b"true", b"null", b"[]", b"{}")


@functools.cache
def _dag() -> Dag:
    return graphs.fig1()


def _policies() -> list[bytes]:
    kinds: list[dict[str, Any]] = [
        {"encoding": "base"},
        {"encoding": "sort", "phases": 3},
        {"encoding": "critical"},
    ]
    origin = {"model": "m", "data": {"path": "d", "sha256": "0", "instances": 3}}
    fsms = [learn(_dag(), trials=30, **kind) for kind in kinds]
    chosen = choose([_dag()], [_dag()], launch=0.0)
    with_fsm = replace(chosen, tried=(*chosen.tried, Tried(("fsm-base",), 1, 1.0, 0.0)), fsm=fsms[0])
    learned = Tried(("linear-learned",), 1, 1.0, 0.0, phases=1)
    linear = replace(chosen, tried=(learned, *chosen.tried), linear={"linear-learned": Linear()})
    texts = [p.to_json(origin) for p in fsms] + [p.to_json(origin) for p in (chosen, with_fsm, linear)]
    return [text.encode() for text in texts]


NAMES = (
    b'"1/2"',
    b'"leaf"',
    b'"state"',
    b'"q"',
    b'"visits"',
    b'"tried"',
    b'"fsm-base"',
    b'"depth-reversed"',
    b'"free"',
)


@target("policies", _policies, words=(*NUMBERS, *NAMES))
def policies(case: bytes, folder: Path) -> None:
    path = folder / "policy.json"
    path.write_bytes(case)
    policy, _ = read_any(path)
    if isinstance(policy, FsmPolicy):
        policy_alone(policy)
    if policy.types == _dag().types:
        schedule = policy.schedule(_dag())
        check_schedule(_dag(), schedule)
        if isinstance(policy, FsmPolicy):
            policy.visited(_dag(), schedule)
        else:
            assert policy.reason


def _times() -> list[bytes]:
    schedule, folder = Depth().schedule(_dag()), Path(tempfile.mkdtemp())
    batch, at = np.arange(len(schedule)), np.arange(len(schedule)) / 1e3
    save_times(folder, [Executed(batch % 2, batch, schedule.type, batch + 1, at, at + 5e-4, at)])
    return [(folder / "times" / "0000.npz").read_bytes()]


@target("times", _times, words=NUMBERS)
def times(case: bytes, folder: Path) -> None:
    schedule = Depth().schedule(_dag())
    (folder / "times").mkdir(exist_ok=True)
    (folder / "times" / "0000.npz").write_bytes(case)
    found = load_times(folder, 0, schedule)
    if found is not None:
        json.dumps(times_document(found, len(schedule)), allow_nan=False)


def _costs() -> list[bytes]:
    read = b"leaf: {launch: 2.0e-6, row: 5.0e-8, tile: 8}\ndefault: {launch: 1}\n"
    path = Path(tempfile.mkdtemp()) / "cost.yaml"
    path.write_bytes(read)
    return [read, cost_text(read_cost(path, _dag().types), _dag().types, "seconds").encode()]


@target("costs", _costs, words=(*NUMBERS, b"$version: 2", b"default:", b"tile: 0", b"&a", b"*a"))
def costs(case: bytes, folder: Path) -> None:
    path = folder / "cost.yaml"
    path.write_bytes(case)
    cost = read_cost(path, _dag().types)
    schedule = Weight(PATH, cost=cost).schedule(_dag())
    check_schedule(_dag(), schedule)
    assert least_cost(_dag(), cost) <= cost_of(schedule, cost) * (1 + 1e-12)


def _runs() -> list[Mapping[str, bytes]]:
    """The folders of three runs: one with a learned policy, one whose instances have grown."""
    home = Path(tempfile.mkdtemp())
    os.environ["ABW_HOME"] = str(home)
    for name, policy in (("fig1", "fsm"), ("treelstm", "agenda"), ("beam", "agenda")):
        spec, overrides = ROOT / "specs" / f"{name}.yaml", Overrides(limit=2, dims={"hidden": 2})
        run(spec, overrides, RunOptions(policy=policy))
    folders = sorted((home / "runs").iterdir())
    return [
        {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
        for folder in folders
    ]


WORDS = (*NUMBERS, b"\x93NUMPY\x01\x00", b"'descr': '<i4'", b"'|O'", b"(1000000000,)")


def _damaged_run(rng: Random, cases: Sequence[Mapping[str, bytes]], number: int) -> Mapping[str, bytes]:
    """A file's bytes changed, or numbers of its arrays in a file that is whole."""
    if number % 2:
        return damaged_case(rng, cases, WORDS)  # type: ignore[no-any-return]
    case = rng.choice(cases)
    name = rng.choice([name for name in case if name.endswith(".npz")])
    with np.load(io.BytesIO(case[name])) as file:
        arrays: dict[str, Any] = {key: file[key].copy() for key in file.files}
    for _ in range(rng.choice((1, 1, 2))):
        key = rng.choice([key for key, array in arrays.items() if array.size and array.dtype.kind in "if"])
        values = arrays[key].reshape(-1)
        match rng.randrange(6):
            case 0:
                arrays[key] = arrays[key].astype(rng.choice((np.int64, np.float64, np.uint8, "S3")))
            case 1:
                arrays[key] = arrays[key][: rng.randrange(len(values))]
            case 2:
                arrays[key] = np.concatenate([arrays[key], arrays[key]])
            case _:
                size = np.iinfo(np.int32).max if rng.random() < 0.3 else len(values) + 2
                values[rng.randrange(len(values))] = rng.randint(-2, size)
    written = io.BytesIO()
    np.savez(written, **arrays)
    return {**case, name: written.getvalue()}


@target("runs", _runs, damage=_damaged_run)
def runs(case: Mapping[str, bytes], folder: Path) -> None:
    os.environ["ABW_HOME"] = str(folder)
    put(folder / "runs" / "0001-a", case)
    (listed,) = list_runs()
    assert bool(listed.report) != bool(listed.damage)
    found = find_run("1")
    explain_run(found)
    scene_of_run(found)


@njit
def _kept(x: int) -> int:
    return 3 * x


def _machine_code() -> list[bytes]:
    assert _kept(2) == 6
    files = _kept._cache._cache_file  # type: ignore[attr-defined]
    return [path.read_bytes() for path in files._files() if files._read(path) is not None]


@target("numba-cache", _machine_code)
def numba_cache(case: bytes, folder: Path) -> None:
    files = _kept._cache._cache_file  # type: ignore[attr-defined]
    path = folder / "code.nbc"
    path.write_bytes(case)
    assert files._read(path) is None or case in _machine_code()


def _kernels() -> list[bytes]:
    path = Path(tempfile.mkdtemp()) / "k.o"
    write_cache(path, bytes(range(256)) * 8)
    return [path.read_bytes()]


@target("kernel-cache", _kernels)
def kernel_cache(case: bytes, folder: Path) -> None:
    path = folder / "k.o"
    path.write_bytes(case)
    assert read_cache(path) is None or case in _kernels()
