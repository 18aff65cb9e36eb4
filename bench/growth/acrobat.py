"""The models of ACRoBat's evaluation at its sizes, beside the milliseconds that it published."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from abw.bench.timing import cpu_seconds
from abw.core.base.progress import Clock
from abw.core.exec.cpu.executor import CpuExecutor
from abw.core.exec.params import init_params
from abw.core.policy.rules.sufficient import Sufficient
from abw.core.run.minibatches import run_all
from abw.core.run.workload import open_model, open_networks, open_workload, read_instances
from abw.core.spec.load import Overrides

BIRNN = """\
model: birnn
dims: {hidden: 256, classes: 3}
data: {format: tags, path: data/tags.txt, batch: 64}
tables: {words: {dim: hidden, rows: 4000}}
types:
  forth: {per: token, cell: cells/rnn.yaml, dims: {in: hidden},
    inputs: {x: "words[word]", h: prev.forth.h or zeros}}
  back: {per: token, cell: cells/rnn.yaml, dims: {in: hidden},
    inputs: {x: "words[word]", h: next.back.h or zeros}}
  tag: {per: token, cell: cells/linear-pair.yaml, dims: {in: hidden, out: classes},
    inputs: {left: forth.h, right: back.h}}
outputs: {tags: tag.y}
"""
"""Bidirectional RNNs with a linear layer at each word."""

NESTED = """\
model: nested
dims: {hidden: 256, embed: hidden}
data: {format: tags, path: data/tags.txt, batch: 64}
tables: {starts: {dim: hidden, rows: 256}}
params: {idle: hidden}
grow:
  turn:
    links: {before: turn or none, final: inner or none}
    fields: {count: number}
    most: 40
    start: {count: 1}
    then: [{add: inner, of: this, count: 1}]
  inner:
    links: {before: inner or none, of: turn}
    fields: {count: number}
    most: 1600
    choose: {done: chance 0.08, last: chance 0.08}
    then:
      - {add: inner, when: count < 20, before: this, of: of, count: count + 1}
      - {add: inner, when: count >= 20 and count < 40 and not done, before: this, of: of, count: count + 1}
      - {add: turn, when: count >= 20 and done, unless: of.count >= 20 and last, before: of, final: this,
         count: of.count + 1}
      - {add: turn, when: count == 40 and not done, unless: of.count >= 20 and last, before: of, final: this,
         count: of.count + 1}
types:
  outer:
    per: turn
    cell: cells/gru.yaml
    inputs: {x: final.body.h or idle, h: "before.outer.h or starts[instance.first.word]"}
  body:
    per: inner
    cell: cells/rnn.yaml
    dims: {in: hidden}
    inputs: {x: of.outer.h, h: before.body.h or zeros}
outputs: {state: outer.h}
"""
"""A loop in a loop, each of 20 to 40 turns: from the 20th on each is the last with a chance of 0.08."""

SIZES = {
    "mvrnn": ({"hidden": 64}, {"hidden": 128}),
    "berxit": (
        {"hidden": 768, "heads": 12, "inner": 3072},
        {"hidden": 1024, "heads": 16, "inner": 4096},
    ),
}
"""The dims of its small and large models, where they are not hidden 256 and 512."""

PUBLISHED: dict[str, tuple[tuple[float | None, float], ...]] = {
    "treelstm": ((4.31, 1.48), (26.18, 5.81), (4.58, 2.4), (26.53, 11.44)),
    "mvrnn": ((2.11, 0.54), (12.45, 1.48), (2.27, 1.04), (13.89, 4.46)),
    "birnn": ((3.13, 2.16), (12.04, 4.86), (3.95, 4.43), (12.11, 13.11)),
    "nested": ((29.38, 31.01), (84.55, 65.73), (46.03, 35.61), (94.97, 100.17)),
    "drnn": ((6.7, 1.74), (25.3, 5.24), (8.44, 2.45), (26.5, 9.99)),
    "berxit": ((63.54, 38.49), (None, 204.54), (113.18, 64.49), (None, 335.3)),
    "stackrnn": ((47.78, 22.69), (213.98, 39.06), (64.67, 43.75), (230.74, 86.82)),
}
"""Milliseconds of DyNet and of ACRoBat (Fegade et al., 2024, Table 4, on an RTX 3070) by model: small at
mini-batch 8 and 64, large at both. DyNet had no memory for Berxit at 64."""

CONFIGURATIONS = ((0, 8), (0, 64), (1, 8), (1, 64))
WORDS, LAYERS, CHANCE = 128, (12, 18), 0.1
"""Of Berxit: words of a sentence, layers of the small and of the large model, and how probably each is the
last. How ACRoBat chooses it does not say."""


def beside_acrobat(specs: Path, data: Path, runs: int) -> list[dict[str, Any]]:
    """All models from instances to values, CPU time of one thread, medians of `runs`; Berxit runs once."""
    with tempfile.TemporaryDirectory() as folder:
        return [
            _row(specs, data, Path(folder), name, place, runs)
            for name in PUBLISHED
            for place in range(len(CONFIGURATIONS))
        ]


def _row(specs: Path, data: Path, folder: Path, name: str, place: int, runs: int) -> dict[str, Any]:
    large, batch = CONFIGURATIONS[place]
    dims = SIZES.get(name, ({"hidden": 256}, {"hidden": 512}))[large]
    spec = folder / f"{name}.yaml"
    spec.write_text(spec_text(specs, name, LAYERS[large]), encoding="utf-8")
    file = data / ("trees/train.txt" if name in ("treelstm", "mvrnn") else "tags/dev.txt")
    if name == "berxit":
        sentences(file, folder / "long.txt", batch)
        file = folder / "long.txt"
    dynet, acrobat = PUBLISHED[name][place]
    found = timed(spec, file, dims, batch, 0 if name == "berxit" else runs)
    published = {"dynet_seconds": dynet and dynet / 1e3, "acrobat_seconds": acrobat / 1e3}
    return {"model": name, "size": "large" if large else "small", "batch": batch, **found, **published}


def spec_text(specs: Path, name: str, layers: int = 12) -> str:
    """A model's spec, to lie in any folder: a shipped one (Berxit with what is measured), or one of here."""
    own = {"birnn": BIRNN, "nested": NESTED}
    text = own[name] if name in own else (specs / f"{name}.yaml").read_text(encoding="utf-8")
    for folder in ("cells", "data"):
        text = text.replace(f"{folder}/", f"{specs.resolve()}/{folder}/")
    if name == "berxit":
        text = text.replace("exit.y > -0.4", f"chance {CHANCE}").replace("rows: 40", f"rows: {WORDS}")
        text = text.replace("most: 12", f"most: {layers}").replace("most: 480", f"most: {layers * WORDS}")
    return text


def sentences(tags: Path, to: Path, count: int) -> None:
    """Write so many sentences of as many words as Berxit's have, from words that follow each other."""
    words = tags.read_text(encoding="utf-8").split()
    lines = [" ".join(words[n * WORDS : (n + 1) * WORDS]) for n in range(count)]
    to.write_text("\n".join(lines) + "\n", encoding="utf-8")


def timed(spec: Path, data: Path, dims: dict[str, int], batch: int, runs: int) -> dict[str, Any]:
    """The nodes and seconds of a mini-batch, from its instances to the values of all nodes.

    With 0 `runs` it is run once, and nothing before it.
    """
    model = open_model(spec, Overrides(data=data, dims=dims, limit=batch, batch=batch, allow_outside=True))
    networks = open_networks(model, "cell")
    workload = open_workload(model, read_instances(model.data, batch), networks)
    executor = CpuExecutor()
    executor.prepare(networks.network, init_params(networks.network, 0), 1)
    clock = Clock("construct", "schedule", "plan", "execute")

    def once() -> int:
        ((_, result),) = run_all(workload, Sufficient(), executor, clock)
        return len(result.nodes)

    start = time.thread_time()
    nodes = once()
    only = time.thread_time() - start
    return {"nodes": nodes, "seconds": cpu_seconds(once, runs) if runs else only}
