"""Workloads run from instances to outputs in one of several ways, side by side, timed by step."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from abw.bench.workloads import Case, files_of, learned_policy
from abw.core.base.errors import AbwError

if TYPE_CHECKING:
    from abw.core.ir.network import Granularity, LayoutName
    from abw.core.run.learning import Choice

STEPS = ("construct", "schedule", "plan", "execute")


@dataclass(frozen=True, slots=True)
class Setting:
    """How to run: what `abw run`'s options of the same names say."""

    policy: str
    encoding: Choice
    granularity: Granularity
    layout: LayoutName
    executor: str
    hoist: bool = False
    fuse: bool = False
    group: bool = False
    threads: int = 1


@dataclass(frozen=True, slots=True)
class Taken:
    """What some mini-batches took: `seconds` by step; counts over all of them.

    `kernels`: batches of one type, of which a batch of a group has several.
    """

    seconds: Mapping[str, float]
    instances: int
    batches: int
    launches: int
    memory_kernels: int
    bytes_moved: int
    product_flops: int
    kernels: int

    @property
    def total(self) -> float:
        """Seconds from instances to outputs."""
        return sum(self.seconds.values())

    @property
    def instances_per_second(self) -> float:
        """From instances, already read, to outputs."""
        return self.instances / self.total


def preset(name: str, threads: int = 1) -> Setting:
    """The setting of a preset."""
    from abw.core.run.options import PRESETS

    p = PRESETS[name]
    return Setting(p.policy, p.encoding, p.granularity, p.layout, p.executor, threads=threads)


class System:
    """A workload prepared to be run in one way, again and again, over its first mini-batches."""

    def __init__(
        self,
        chosen: Case,
        setting: Setting,
        specs: Path,
        data: Path,
        hidden: int,
        batch: int,
        mini_batches: int = 1,
    ) -> None:
        """Read the data, learn the policy, compile and prepare the executor. Errors: AbwError."""
        from abw.core.exec.params import init_params
        from abw.core.exec.registry import get_executor
        from abw.core.policy.registry import CHOSEN, LEARNED, get_policy
        from abw.core.run.workload import open_model, open_networks, open_workload, read_instances
        from abw.core.spec.load import Overrides

        spec, source = files_of(chosen, specs, data)
        overrides = Overrides(
            data=source,
            batch=batch,
            limit=batch * mini_batches,
            dims={"hidden": hidden},
            hoist=setting.hoist,
        )
        model = open_model(spec, overrides)
        self.setting = setting
        networks = open_networks(
            model, setting.granularity, setting.layout, fuse=setting.fuse, group=setting.group
        )
        hoists = any(t.name.endswith("-hoisted") for t in model.types)
        fuses = networks.fusion is not None and networks.network.types != networks.unfused.types
        self.differs = hoists == setting.hoist and fuses == setting.fuse  # hoisting and fusion find something
        self._workload = open_workload(model, read_instances(model.data, model.data.limit), networks)
        self._policy = (
            learned_policy(model, networks, setting.encoding, setting.policy, setting.executor)
            if setting.policy in (LEARNED, CHOSEN)
            else get_policy(setting.policy)
        )
        self._executor = get_executor(setting.executor)
        self._executor.prepare(networks.network, init_params(networks.cells, 0), setting.threads)

    def run(self) -> Taken:
        """Every mini-batch once. Times are this thread's CPU time; of several threads the wall clock's, which
        steps share by what all threads took for them.
        """
        from abw.core.base.progress import Clock
        from abw.core.run.parallel import Part, read_parts

        part = Part(self._workload, list(self._workload.windows()))
        clock = Clock(*STEPS, timer=time.thread_time if self.setting.threads == 1 else time.perf_counter)
        counts, abreast = [0] * 7, False
        begun = time.perf_counter()
        for _, many, found in read_parts([part], self._policy, self._executor, clock, lambda *_: None):
            abreast = many > 0
            for batch, result, _ in found:
                here = (
                    batch.graph.instances, len(batch.schedule), result.counts.launches,
                    result.counts.memory_kernels, result.counts.bytes_moved, batch.plan.product_flops,
                    len(batch.plan.schedule),
                )  # fmt: skip
                counts = [a + b for a, b in zip(counts, here, strict=True)]
        seconds = dict(clock.seconds)
        if abreast:
            wall, every = time.perf_counter() - begun, sum(seconds.values())
            seconds = {step: wall * taken / every for step, taken in seconds.items()}
        return Taken(seconds, *counts)


def side_by_side(systems: Mapping[str, System], runs: int) -> dict[str, Taken]:
    """Each system's medians by step over `runs` rounds in which all take turns, after one not counted."""
    taken: dict[str, list[Taken]] = {name: [] for name in systems}
    for name, system in systems.items():
        taken[name].append(system.run())
    for number in range(runs):
        for name, system in systems.items():
            system.run()  # so that it does not find its weights thrown out of the caches by another's
            again = system.run()
            taken[name] = [again] if number == 0 else [*taken[name], again]
    return {
        name: replace(several[0], seconds={p: median(t.seconds[p] for t in several) for p in STEPS})
        for name, several in taken.items()
    }


def chosen_cases(names: str | None) -> tuple[Case, ...]:
    """The workloads of a list such as `TreeLSTM,LatticeLSTM`, case aside; all for None. Errors: AbwError."""
    from abw.bench.workloads import CASES
    from abw.core.base.errors import did_you_mean

    if names is None:
        return CASES
    by_name = {c.name.lower(): c for c in CASES}
    chosen = []
    for name in names.split(","):
        if name.strip().lower() not in by_name:
            raise AbwError(
                f"no workload is called '{name.strip()}'",
                hint=did_you_mean(name.strip(), [c.name for c in CASES]),
                exit_code=2,
            )
        chosen.append(by_name[name.strip().lower()])
    return tuple(chosen)
