"""A training's gradients by many processes: actors of Ray, each of which computes a share of a mini-batch.

The shares are added in pairs, these sums in pairs, and so on: by the members if they are large, so that the
driver receives one, else by the driver. Every process takes the same step by the sum.
So all have the same weights to the bit, and a process that dies is replaced by one with the driver's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

from abw.core.base.errors import AbwError
from abw.core.base.files import home
from abw.core.base.progress import Progress
from abw.core.exec.gradient import Gradient
from abw.core.scale.cluster import SILENT, Cluster, Silence, no_abw
from abw.core.scale.member import Answer, Begun, Change, Member, Question, State, added_up
from abw.core.train.learner import Found, NotFiniteError
from abw.core.train.loop import LocalSteps

# How often members that die are replaced in one step.
RETRIES = 3
# Bytes of parameters from which on members add up the shares.
LARGE = 1 << 20


@dataclass(frozen=True, slots=True)
class TeamOnRay:
    """An engine (`abw.core.train.loop.Engine`) on a cluster, or one started for it (address '')."""

    address: str = ""

    @contextmanager
    def __call__(
        self, local: LocalSteps, about: Mapping[str, Any], folder: Path, workers: int, progress: Progress
    ) -> Iterator[Team]:
        """Start members and wait until they are ready. Errors: AbwError."""
        cluster = Cluster(self.address, workers, about["options"]["threads"] or 1)
        begun = Begun(about, folder.absolute(), home().absolute(), Path.cwd())
        with cluster.connected(progress) as ray:
            yield Team(ray, cluster, local, begun, workers, progress)


def _required(answer: Answer) -> Answer:
    """An answer. Errors: AbwError if it is one."""
    if isinstance(answer, Mapping):
        message, hint, code = answer["error"]
        raise AbwError(message, hint=hint, exit_code=code)
    return answer


class Team:
    """Steps (`abw.core.train.loop.Steps`) of so many members."""

    def __init__(
        self,
        ray: Any,  # noqa: ANN401 (a module)
        cluster: Cluster,
        local: LocalSteps,
        begun: Begun,
        count: int,
        progress: Progress,
    ) -> None:
        """Start them. Errors: AbwError for another version of abw."""
        self._ray, self._cluster, self._progress = ray, cluster, progress
        self._learner, self._instances = local.learner, len(local.instances)
        self._begun, self._count = begun, count
        self._members: dict[int, Any] = {}
        self._places: dict[int, Any] = {}
        self._change: Any = None
        progress.phase(f"start {count} workers")
        silence = Silence(progress, f"start {count} workers")
        opened = self._hire(range(count))
        while len(ray.wait(opened, num_returns=count, timeout=SILENT)[0]) < count:
            silence.look(lambda: "a worker reads the data and compiles")

    def gradients(self, epoch: int, first: int) -> Iterator[Found]:
        """Compute the gradients of an epoch's mini-batches, from number `first` on.

        Errors: NotFiniteError; AbwError if a member dies again and again.
        """
        size = self._learner.training.batch
        for step, at in enumerate(range(first * size, self._instances, size), first):
            instances = min(size, self._instances - at)
            yield self._gradient(Question(self._learner.stepper.done, epoch, step), instances)

    def _gradient(self, question: Question, instances: int) -> Found:
        """Compute the gradient of one mini-batch."""
        answers: dict[int, Answer] = {}
        for attempt in range(RETRIES + 1):
            if attempt:
                self._replace(question.epoch)
            left = [rank for rank in range(self._count) if rank not in answers]
            asked = {rank: self._members[rank].share.remote(question, self._change) for rank in left}
            if not attempt and self._by_tree and (whole := self._tree(question, asked)):
                return self._finished(whole, instances)
            answers |= self._answered(question, asked)
            if len(answers) == self._count:
                return self._finished(added_up([answers[rank] for rank in range(self._count)]), instances)
        gone = min(set(range(self._count)) - set(answers)) + 1
        message = (
            f"worker {gone} of {self._count} ends each time that it is asked for step {question.done + 1}"
        )
        raise AbwError(message, hint="there is too little memory, or it crashes")

    def apply(self, gradient: Gradient, factor: float) -> None:
        """Take a step; members take it when they are asked for the next gradient."""
        change: Change = (gradient, factor)
        self._change = self._ray.put(change)
        self._learner.apply_gradient(gradient, factor)

    def _answered(self, question: Question, asked: Mapping[int, Any]) -> dict[int, Answer]:
        """Collect the answers of living members; drop the others. Errors: AbwError."""
        found: dict[int, Answer] = {}
        silence = Silence(self._progress, f"epoch {question.epoch + 1}")
        for rank, reference in asked.items():
            try:
                answer: Answer = self._waited(rank, reference, question, silence)
            except self._ray.exceptions.RayTaskError as error:
                raise no_abw(error) from None
            except self._ray.exceptions.RayError:  # its process or its node is gone
                del self._members[rank]
                continue
            found[rank] = _required(answer)
        return found

    @property
    def _by_tree(self) -> bool:
        """Whether members add up large shares, so that the driver gets one gradient and not all of them."""
        flat = self._learner.params.flat
        return self._count > 2 and flat is not None and flat.nbytes >= LARGE

    def _tree(self, question: Question, asked: Mapping[int, Any]) -> Answer:
        """The sum of the shares, which members add up; None if one of them is gone. Errors: AbwError."""
        references = [asked[rank] for rank in range(self._count)]
        whole = added_up(references, lambda rank, a, b: self._members[rank].add.remote(a, b))
        try:
            silence = Silence(self._progress, f"epoch {question.epoch + 1}")
            return _required(self._waited(0, whole, question, silence))
        except (self._ray.exceptions.RayTaskError, self._ray.exceptions.RayError):
            return None  # which one is found out by asking each

    def _waited(
        self,
        rank: int,
        reference: Any,  # noqa: ANN401 (Ray's)
        question: Question,
        silence: Silence,
    ) -> Any:  # noqa: ANN401 (what was answered)
        """Wait for a member's answer; report it if it does not come. Raises Ray's errors."""
        while True:
            try:
                answer = self._ray.get(reference, timeout=SILENT)
            except self._ray.exceptions.GetTimeoutError:
                silence.look(partial(self._named, rank, question))
            else:
                silence.heard()
                return answer

    def _named(self, rank: int, question: Question) -> str:
        """Describe a member, its process and machine, as far as known, and what it was asked."""
        ready, _ = self._ray.wait([self._places[rank]], timeout=0)
        where = self._ray.get(ready[0]) if ready else "not ready yet"
        return f"worker {rank + 1} of {self._count} ({where}), step {question.done + 1}"

    def _finished(self, whole: Answer, instances: int) -> Found:
        """The gradient of a mini-batch, of the sum of its shares. Errors: NotFiniteError."""
        assert isinstance(whole, Found)
        if not isfinite(whole.loss):
            raise NotFiniteError
        gradient = whole.gradient.copy()  # shared memory cannot be written
        gradient.scale(1 / self._learner.divisor(whole.values, instances))
        return Found(whole.loss, whole.values, gradient)

    def _replace(self, epoch: int) -> None:
        """Replace members that have died."""
        gone = [rank for rank in range(self._count) if rank not in self._members]
        self._hire(gone)
        names = ", ".join(str(rank + 1) for rank in gone)
        self._progress.phase(f"epoch {epoch + 1}, worker {names} replaced")

    def _hire(self, ranks: Iterable[int]) -> list[Any]:
        """Start members with the current weights; returns references that are ready when they are.

        Errors: AbwError for another version of abw.
        """
        learner, ray = self._learner, self._ray
        assert learner.params.flat is not None
        state = ray.put(State(learner.params.flat, learner.stepper.state, learner.stepper.done))
        make = ray.remote(num_cpus=self._cluster.threads, scheduling_strategy="SPREAD")(Member)
        hired = {rank: make.remote(rank, self._count) for rank in ranks}
        self._members |= hired
        hellos = [member.version.remote() for member in hired.values()]
        self._places |= {rank: member.place.remote() for rank, member in hired.items()}
        opened = [member.open.remote(self._begun, state) for member in hired.values()]
        with suppress(ray.exceptions.RayActorError):  # it is missed when it is asked
            self._cluster.greet(ray, hellos, self._progress)
        return opened
