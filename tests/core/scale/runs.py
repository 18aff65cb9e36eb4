"""A run that is spread over processes, beside the same in one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from abw.core.base.progress import Quiet
from abw.core.run.options import RunOptions
from abw.core.run.pipeline import run
from abw.core.scale.job import Done, Engine, Scale, run_scaled
from abw.core.scale.worker import Parcel, run_shard
from abw.core.spec.load import Overrides
from abw.core.spec.shipped import find_spec

OPTIONS = RunOptions(policy="critical", threads=1, keep=False)


def inline(sent: Parcel, tasks: Iterator[Any], count: int, done: Done, progress: object) -> None:
    """An engine that runs tasks here, the last one first."""
    for task in reversed(list(tasks)):
        done(task, run_shard(sent, *task))


class Spread:
    """A spec on its data, four instances a mini-batch, in shards of 500 bytes."""

    def __init__(self, folder: Path, spec: str = "treelstm", **options: Any) -> None:  # noqa: ANN401
        self.spec = find_spec(Path(spec))
        self.data = folder / "data.txt"
        self.whole, self.output = folder / "whole.jsonl", folder / "out.jsonl"
        self.dims = {"hidden": 8}
        self.options = OPTIONS if not options else RunOptions(**{"threads": 1, "keep": False, **options})

    def overrides(self) -> Overrides:
        data = self.data if self.data.exists() else None
        return Overrides(dims=self.dims, data=data, batch=4)

    def expected(self) -> bytes:
        run(self.spec, self.overrides(), self._options(self.whole))
        return self.whole.read_bytes()

    def __call__(
        self, engine: Engine = inline, *, resume: bool = False, shard: int = 500, leave_parts: bool = False
    ) -> dict[str, Any]:
        scale = Scale(shard, resume, leave_parts)
        return run_scaled(self.spec, self.overrides(), self._options(self.output), scale, engine, Quiet())

    def _options(self, output: Path) -> RunOptions:
        return replace(self.options, output=output)

    @property
    def parts(self) -> list[str]:
        """The parts that are there."""
        folder = self.output.with_name("out.jsonl.parts")
        return sorted(path.name for path in folder.glob("part-*.jsonl")) if folder.is_dir() else []


@pytest.fixture
def spread(tmp_path: Path, root: Path, kernels_home: Path, monkeypatch: pytest.MonkeyPatch) -> Spread:
    """Trees in seven shards or so."""
    monkeypatch.setenv("ABW_HOME", str(kernels_home))
    found = Spread(tmp_path)
    found.data.write_bytes((root / "specs/data/trees.txt").read_bytes())
    return found
