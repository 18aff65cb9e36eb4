"""A training by several processes: what is trained, and members that live in the test's own process."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from abw.core.base.files import home
from abw.core.base.progress import Progress
from abw.core.data.tensors import read_tensors
from abw.core.scale.cluster import Cluster
from abw.core.scale.member import Begun, Member
from abw.core.scale.team import Team
from abw.core.spec.load import Overrides
from abw.core.store.trainings import BEST
from abw.core.train import session
from abw.core.train.loop import CHECKPOINT, Engine, LocalSteps
from abw.core.train.session import TrainOptions
from tests.core.train.models import spec_of

# Hears of each share before it is computed: by the rank of its member.
Shared = Callable[[int], None]


class Gone(Exception):  # noqa: N818 (Ray's name for it is another)
    """A member has ended."""


class Here:
    """As much of Ray as a team asks for, in this process: everything is pickled on its way."""

    class exceptions:  # noqa: N801 (a module of Ray's)
        RayError = RayActorError = Gone
        RayTaskError = ZeroDivisionError
        GetTimeoutError = TimeoutError

    def __init__(self, then: Shared) -> None:
        self.then = then

    def remote(self, **options: object) -> Callable[[type], Any]:
        return lambda made: _Actors(made, self.then)

    def put(self, value: object) -> object:
        return value

    def wait(
        self, references: list[Any], num_returns: int, timeout: float = 0
    ) -> tuple[list[Any], list[Any]]:
        return references, []

    def get(self, reference: Any, timeout: float | None = None) -> Any:  # noqa: ANN401
        if isinstance(reference, list):
            return [self.get(one) for one in reference]
        if isinstance(reference, Exception):
            raise reference
        return pickle.loads(pickle.dumps(reference))


class _Actors:
    def __init__(self, made: type, then: Shared) -> None:
        self.made, self.then = made, then

    def remote(self, rank: int, count: int) -> Any:  # noqa: ANN401
        return _Actor(self.made(rank, count), rank, self.then)


class _Actor:
    def __init__(self, member: Member, rank: int, then: Shared) -> None:
        self.member, self.rank, self.then = member, rank, then

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return _Method(self, name)


class _Method:
    def __init__(self, actor: _Actor, name: str) -> None:
        self.actor, self.name = actor, name

    def remote(self, *given: object) -> object:
        if gone := [one for one in given if isinstance(one, Gone)]:
            return gone[0]
        try:
            if self.name in ("share", "add"):
                self.actor.then(self.actor.rank)
            return getattr(self.actor.member, self.name)(*pickle.loads(pickle.dumps(given)))
        except Gone as end:
            return end


def here(then: Shared = lambda _: None) -> Engine:
    """An engine whose members live in this process."""

    @contextmanager
    def engine(
        alone: LocalSteps, about: Mapping[str, Any], folder: Path, workers: int, progress: Progress
    ) -> Iterator[Team]:
        begun = Begun(about, folder.absolute(), home().absolute(), Path.cwd())
        yield Team(Here(then), Cluster(), alone, begun, workers, progress)

    return engine


class Lesson:
    """A small tree LSTM with dropout, whose training takes 5 steps an epoch."""

    overrides = Overrides(dims={"hidden": 4}, batch=10)

    def __init__(self, folder: Path) -> None:
        self.spec = spec_of("sst", "", folder)
        text = self.spec.read_text().replace("  batch: 25", "  dropout: {output.x: 0.3}\n  batch: 25")
        self.spec.write_text(text)

    def __call__(self, workers: int = 0, engine: Engine | None = None) -> dict[str, Any]:
        options = TrainOptions(epochs=2, threads=1, every=0.0, workers=workers)
        return session.train(self.spec, self.overrides, options, engine=engine)


def kept(path: str) -> dict[str, Any]:
    """All of a training that does not tell how fast it was."""
    found: dict[str, Any] = {}
    for name in (CHECKPOINT, BEST):
        for key, tensor in read_tensors(Path(path) / name).tensors.items():
            found[f"{name} {key}"] = tensor.read()
            if key == "train/position":
                about = json.loads(found[f"{name} {key}"].tobytes())
                found[f"{name} {key}"] = [{**row, "instances_per_second": 0} for row in about.pop("curve")]
                found[f"{name} rest"] = about
            else:
                found[f"{name} {key}"] = found[f"{name} {key}"].tobytes()
    return found


@pytest.fixture
def lesson(tmp_path: Path, kernels_home: Path, monkeypatch: pytest.MonkeyPatch) -> Lesson:
    (kernels_home / "kernels").mkdir(exist_ok=True)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "kernels").symlink_to(kernels_home / "kernels")
    monkeypatch.setenv("ABW_HOME", str(tmp_path / "home"))
    return Lesson(tmp_path)
