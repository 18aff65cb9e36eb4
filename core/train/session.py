"""`abw train` as a whole: spec and data to a folder with curve, checkpoints and weights.

A training's folder `NNNN-model/` under `.abw/training/` holds `training.json` (what it was begun with),
`curve.json` (a row an epoch), `checkpoint.safetensors` and `best.safetensors`. Each file is there whole or
not at all: a training that was killed at any moment can be gone on from, with the same bits as if it had not
been.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from abw.core.base.errors import AbwError, Problem, SpecError
from abw.core.base.files import file_digest, read_json, write_json
from abw.core.base.memory import peak_resident
from abw.core.base.progress import Progress, Quiet
from abw.core.data.instances import Instances
from abw.core.data.tensors import words_in
from abw.core.exec.trained import load_weights, make_params
from abw.core.graph.equal.consing import DedupMode
from abw.core.ir.model import Model
from abw.core.run.learning import Asked, policy_of
from abw.core.run.observing.footprint import require_weights
from abw.core.run.run import versions
from abw.core.run.workload import Networks, Workload, open_model, open_networks, open_workload, read_instances
from abw.core.spec.load import Overrides
from abw.core.store.folders import begin_folder, discard, held, number_of
from abw.core.store.trainings import ABOUT, BEST, CURVE, SCHEMA_VERSION, find_training, training_folder
from abw.core.train.checkpoint import Position
from abw.core.train.initial import initialise, vocabularies
from abw.core.train.learner import Learner
from abw.core.train.loop import CHECKPOINT, Engine, LocalSteps, Loop, Row, Steps, open_dev, restored
from abw.core.train.metrics import UserMetric, refuse_metric_names, user_metrics
from abw.core.train.optimizers import STATES
from abw.core.train.targets import training_of
from abw.core.train.teacher import Teacher, finished_model


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonTraining:
    """How to train a spec or a program, by `abw train`'s flags. None: what the spec or the library says.

    `every`: seconds between checkpoints inside an epoch.
    """

    dev: Path | None = None
    epochs: int | None = None
    policy: str = "sufficient"
    executor: str = "cpu"
    threads: int | None = None
    seed: int = 0
    every: float = 60.0
    dedup: DedupMode = "auto"


@dataclass(frozen=True, slots=True)
class TrainOptions(CommonTraining):
    """How to train a spec.

    `metrics`: the user's (`user_metrics`). `workers`: so many processes compute gradients, by an engine
    (`abw.core.train.loop.Engine`); 0: this one.
    """

    metrics: Sequence[str] = ()
    workers: int = 0


@dataclass(frozen=True, slots=True)
class Begun:
    """A training that is ready to begin: its learner, its data, and what goes with its weights."""

    learner: Learner
    instances: Instances
    dev: Instances | None
    words: dict[str, tuple[str, ...]] = field(default_factory=dict)
    user: dict[str, UserMetric] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Opened:
    """A model to train with its data (`finished_model`): no weight is made yet, nothing compiled."""

    model: Model
    networks: Networks
    instances: Instances
    dev: Instances | None
    words: dict[str, tuple[str, ...]] = field(default_factory=dict)


def open_training(spec: Path, overrides: Overrides, options: TrainOptions) -> Opened:
    """Read a spec and its data, make what vocabularies are missing, and let grow what grows.

    Errors: SpecError, DataError, AbwError.
    """
    model = open_model(spec, overrides)
    least = training_of(model).vocabulary
    instances = read_instances(model.data, model.data.limit)
    words = dict(overrides.words)
    if model.weights.file:
        words |= words_in(model.weights.file)
    else:
        words |= vocabularies(model, instances, least)
    if words:
        model = open_model(spec, replace(overrides, words=words))
    training = training_of(model)
    batch, dev = overrides.batch or training.batch, options.dev or training.dev
    if training.asked and dev is None:
        hint = "dev: FILE in the section train, or --dev FILE; without `metric` only the loss is shown"
        raise SpecError([Problem("metrics are of dev data, and there are none", training.asked, hint)])
    training = replace(training, batch=batch, epochs=options.epochs or training.epochs, dev=dev)
    teach = Teacher(replace(model, training=training))
    model = finished_model(teach.model)
    held_out = teach(read_instances(replace(model.data, path=dev), None)) if dev else None
    return Opened(model, open_networks(model, "cell", dedup=options.dedup), teach(instances), held_out, words)


def begin(spec: Path, overrides: Overrides, options: TrainOptions) -> Begun:
    """Open what is to be trained, draw or load the weights, compile.

    Errors: SpecError, DataError, AbwError.
    """
    opened = open_training(spec, overrides, options)
    model, networks, training = opened.model, opened.networks, training_of(opened.model)
    user = user_metrics(options.metrics)
    refuse_metric_names(user, training, dev=opened.dev is not None)
    kept = STATES[training.optimizer.name]
    # packed for both passes, with a gradient of all parameters
    require_weights(model, (4 + kept, 2 + kept), " with gradients and what the optimiser keeps")
    trained = load_weights(model)
    params = make_params(networks.cells, trained, options.seed)
    asked = Asked(options.policy, seed=options.seed, batch=training.batch)

    def sample() -> tuple[Workload, int]:
        return open_workload(model, opened.instances, networks), len(opened.instances)

    policy = policy_of(networks, asked.on(networks.network, options.executor), sample, Quiet())
    learner = Learner(model, networks, params, policy, options.executor, options.threads, options.seed)
    if trained is None:
        initialise(networks.cells, learner.params, training.inits, options.seed)
        learner.passes.changed()
    return Begun(learner, opened.instances, opened.dev, opened.words, user)


def train(
    spec: Path,
    overrides: Overrides,
    options: TrainOptions,
    *,
    progress: Progress | None = None,
    on_epoch: Callable[[Row], None] = lambda _: None,
    started: Callable[[Path], None] = lambda _: None,
    command: str = "",
    engine: Engine | None = None,
) -> dict[str, Any]:
    """Train a spec's model from its beginning, in a new folder; the report that `--json` prints.

    `on_epoch` hears of each epoch, `started` of the folder. After Ctrl-C it has a checkpoint. With `workers`
    the gradients come from an `engine`.
    Errors: SpecError, DataError, AbwError; where not even a step could be tried, no folder stays.
    """
    begun, position = begin(spec, overrides, options), Position()
    about = {
        "model": begun.learner.model.name,
        "spec": str(spec.absolute()),
        "overrides": written_options(overrides),
        "options": written_options(options),
        "files": _digests(begun.learner.model),
        "command": command,
    }
    with new_training(about, position) as folder:
        started(folder)
        return _run(begun, about, position, folder, options, progress or Quiet(), on_epoch, engine)


@contextmanager
def new_training(about: Mapping[str, Any], position: Position) -> Iterator[Path]:
    """Write what a training is begun with to a new folder, which an error before its first step discards."""
    folder = begin_folder(training_folder(), about["model"])
    with held(folder):
        try:
            write_json(folder / ABOUT, {"schema_version": SCHEMA_VERSION, **about, "versions": versions()})
            yield folder
        except (AbwError, MemoryError, OSError):
            if not (position.done and (folder / CHECKPOINT).is_file()):
                discard(folder)
            raise


def resume(
    name: str | None,
    *,
    progress: Progress | None = None,
    on_epoch: Callable[[Row], None] = lambda _: None,
    started: Callable[[Path], None] = lambda _: None,
    engine: Engine | None = None,
) -> dict[str, Any]:
    """Go on with a training, by its number or folder; the latest for None.

    Errors: AbwError where there is none, where its files have changed, or another process is at it.
    """
    folder = find_training(name)
    about = read_json(folder / ABOUT, "training")
    if about.get("schema_version") != SCHEMA_VERSION:
        raise AbwError(f"{folder} was written by another version of abw")
    with held(folder):
        begun, options = begin_again(about, folder)
        position = restored(begun.learner, folder / CHECKPOINT)
        started(folder)
        return _run(begun, about, position, folder, options, progress or Quiet(), on_epoch, engine)


def begin_again(about: Mapping[str, Any], folder: Path) -> tuple[Begun, TrainOptions]:
    """Begin what a folder's training was begun with (its `training.json`), with the weights of its beginning.

    Errors: as `begin`, and AbwError where files have changed since, or the document is damaged.
    """
    with damaged(folder):
        overrides = Overrides(**read_options(about["overrides"]))
        options, spec = TrainOptions(**read_options(about["options"])), Path(about["spec"])
    begun = begin(spec, overrides, options)
    refuse_changed(folder, about, _digests(begun.learner.model), "SPEC")
    return begun, options


@contextmanager
def damaged(folder: Path) -> Iterator[None]:
    """Say of which folder the document is that the block cannot read. Errors: AbwError."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise AbwError(f"{folder / ABOUT} is damaged: {error}") from None


def refuse_changed(folder: Path, about: Mapping[str, Any], digests: Mapping[str, str], what: str) -> None:
    """Refuse to go on with files that are not those that a training was begun with. Errors: AbwError."""
    with damaged(folder):
        files = dict(about["files"])
    changed = {name for name, digest in digests.items() if files.get(name) != digest}
    if changed:
        message = f"{min(changed)} is not as it was when training {number_of(folder)} began"
        hint = f"start a new training from its weights: `abw train {what} --weights FILE`"
        raise AbwError(message, hint=hint)


def _run(
    begun: Begun,
    about: Mapping[str, Any],
    position: Position,
    folder: Path,
    options: TrainOptions,
    progress: Progress,
    on_epoch: Callable[[Row], None],
    engine: Engine | None,
) -> dict[str, Any]:
    learner, count = begun.learner, len(begun.instances)
    dev = open_dev(learner, begun.dev, begun.user) if begun.dev is not None else None
    local = LocalSteps(learner, begun.instances)

    steps: AbstractContextManager[Steps] = nullcontext(local)
    if options.workers:
        if engine is None:
            said = f"training {number_of(folder)} has {options.workers} workers, and nothing that starts them"
            raise AbwError(said)
        steps = engine(local, about, folder, options.workers, progress)
    with steps as taken:
        words, every = begun.words, options.every
        loop = Loop(learner, taken, count, dev, folder, words, position, every, on_epoch=on_epoch)
        return trained(loop, folder, learner.model.name, progress)


def trained(loop: Loop, folder: Path, model: str, progress: Progress) -> dict[str, Any]:
    """Train to the end, with the curve in the folder after each epoch; returns the report.

    Errors: those of `Loop.run`.
    """
    position, on_epoch = loop.position, loop.on_epoch

    def keep_curve() -> None:
        curve = {"best_epoch": position.best_epoch + 1, "rows": position.curve}
        write_json(folder / CURVE, {"schema_version": SCHEMA_VERSION, **curve})

    def noted(row: Row) -> None:
        keep_curve()
        on_epoch(row)

    keep_curve()  # where training was killed it may lack an epoch that the checkpoint has
    loop.on_epoch = noted
    loop.run(progress)
    return {
        "schema_version": SCHEMA_VERSION,
        "model": model,
        "path": str(folder),
        "instances": loop.count,
        "epochs": position.epoch,
        "steps": position.done,
        "best": position.best,
        "best_epoch": position.best_epoch + 1,
        "weights": str(folder / BEST),
        "curve": position.curve,
        "peak_memory_bytes": peak_resident(),
    }


def _digests(model: Model) -> dict[str, str]:
    """Hash the files that a training is made of."""
    return digests(*model.reads, training_of(model).dev)


def digests(*paths: Path | None) -> dict[str, str]:
    """The digests of files by their names."""
    return {str(path.absolute()): file_digest(path) for path in dict.fromkeys(paths) if path}


def written_options(options: Any) -> dict[str, Any]:  # noqa: ANN401 (a dataclass)
    """Options as JSON has them."""
    found = asdict(options)
    return {key: {"path": str(v.absolute())} if isinstance(v, Path) else v for key, v in found.items()}


def read_options(document: dict[str, Any]) -> dict[str, Any]:
    """Options from JSON."""
    return {
        key: Path(v["path"]) if isinstance(v, dict) and v.keys() == {"path"} else v
        for key, v in document.items()
    }
