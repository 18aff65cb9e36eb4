"""Small models that are trained in tests: shipped specs with a section `train`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from shutil import copytree

from abw.core.data.instances import Instances
from abw.core.exec.trained import make_params
from abw.core.graph.equal.consing import DedupMode
from abw.core.policy.registry import get_policy
from abw.core.run.workload import Workload, open_model, open_networks, open_workload, read_instances
from abw.core.spec.load import Overrides
from abw.core.train.learner import Learner
from abw.core.train.targets import Targets, targets_of

ROOT = Path(__file__).parents[3]

TRAINS = {
    "sst": "",
    "bilstm": "train: {loss: {of: tags, target: coin, over: token}}",
    "lattice": "train: {loss: {of: tags, target: tag}, per: value}",
    "lstm-nmt": 'train: {loss: {of: words, target: "targets[next.word]"}}',
}


@dataclass(frozen=True)
class Opened:
    """A model that learns, with its instances and what they should give."""

    learner: Learner
    workload: Workload
    targets: tuple[Targets, ...]

    @property
    def instances(self) -> Instances:
        return self.workload.instances


def spec_of(name: str, train: str, folder: Path) -> Path:
    """A shipped spec with another section `train`."""
    text = (ROOT / "specs" / f"{name}.yaml").read_text()
    if train:
        text = text.split("\ntrain:")[0].rstrip("\n") + "\n" + train + "\n"
    for part in ("data", "cells"):
        if not (folder / part).exists():
            copytree(ROOT / "specs" / part, folder / part)
    path = folder / f"{name}.yaml"
    path.write_text(text)
    return path


def opened(
    spec: Path,
    *,
    executor: str = "cpu",
    policy: str = "sufficient",
    threads: int = 1,
    hidden: int = 5,
    limit: int = 12,
    dedup: DedupMode = "off",
) -> Opened:
    """A spec's model, small."""
    overrides = Overrides(dims={"hidden": hidden}, limit=limit, allow_outside=True)
    model = open_model(spec, overrides)
    networks = open_networks(model, "cell", dedup=dedup)
    instances = read_instances(model.data, limit)
    params = make_params(networks.cells, None, 0)
    told = None if executor == "reference" else threads
    learner = Learner(model, networks, params, get_policy(policy), executor, told)
    workload = open_workload(model, instances, networks)
    targets = tuple(targets_of(model, loss, instances) for loss in learner.training.losses)
    return Opened(learner, workload, targets)
