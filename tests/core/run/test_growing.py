"""Mini-batches that grow: as a second grower has them, with the reference's values, alone and together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from abw.core.base.errors import AbwError, InstanceError
from abw.core.base.progress import Clock
from abw.core.data.instances import Instances
from abw.core.data.lookup import word_rows
from abw.core.exec.agreement import compare
from abw.core.exec.blas.executor import BlasExecutor
from abw.core.exec.cpu.executor import CpuExecutor
from abw.core.exec.cpu.njit.executor import NjitExecutor
from abw.core.exec.cuda.executor import CudaExecutor
from abw.core.exec.interface import Executor, Result, TooLargeError
from abw.core.exec.params import Params, init_params
from abw.core.exec.reference import ReferenceExecutor
from abw.core.graph.bind import Binding
from abw.core.graph.construct import construct
from abw.core.graph.graph import Graph
from abw.core.ir.model import Model
from abw.core.plan.check import check_plan
from abw.core.plan.plan import Plan
from abw.core.policy.check import check_schedule
from abw.core.policy.registry import get_policy
from abw.core.run.growing import Grown, grow
from abw.core.run.minibatches import run_all
from abw.core.run.recheck import recheck
from abw.core.run.streaming import columns_of
from abw.core.run.workload import (
    Workload,
    load_workload,
    open_model,
    open_networks,
    open_sample,
    open_workload,
    read_instances,
    whole,
)
from abw.core.spec.load import Overrides
from tests.core.exec.cuda.simulated import SimulatedDevice
from tests.core.run.growth_oracle import Oracle
from tests.core.run.history_check import check_history

SPECS = Path(__file__).resolve().parents[3] / "specs"
GROWING = (
    "greedy",
    "greedy-attention",
    "stackrnn",
    "drnn",
    "nested",
    "early-exit",
    "experts",
    "beam",
    "berxit",
)
EXECUTORS: dict[str, Callable[[], Executor]] = {
    "reference": ReferenceExecutor,
    "blas": BlasExecutor,
    "cpu": CpuExecutor,
    "njit": NjitExecutor,
    "cuda": lambda: CudaExecutor(SimulatedDevice()),
}


def opened(spec: Path, **changes: int) -> Workload:
    hidden = {"hidden": changes.pop("hidden")} if "hidden" in changes else {}
    model = open_model(spec, Overrides(dims=hidden, **changes))  # type: ignore[arg-type]
    return open_workload(model, read_instances(model.data, model.data.limit), open_networks(model, "cell"))


def ready(workload: Workload, name: str, params: Params, threads: int | None = None) -> Executor:
    executor = EXECUTORS[name]()
    executor.prepare(workload.network, params, threads)
    return executor


def grown(workload: Workload, executor: Executor, first: int = 0, last: int | None = None) -> Grown:
    assert workload.ground is not None
    last = len(workload.instances) if last is None else last
    policy = get_policy("critical")
    return grow(workload.binding, workload.ground, executor, lambda g: policy.schedule(g.dag), first, last)


def same_nodes(made: Grown) -> None:
    """Nodes and results as outputs read them are those of the finished instances' graph."""
    nodes, graph = made.result.nodes, made.graph
    for name in ("type_ptr", "vertex", "instance"):
        np.testing.assert_array_equal(getattr(nodes, name), getattr(graph, name))
    assert (nodes.network, nodes.instances) == (graph.network, graph.instances)
    for ours, theirs in zip(nodes.results, graph.results, strict=True):
        assert ours.name == theirs.name
        for name in ("reference", "vertex", "instance"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))


def check_as_the_oracle(workload: Workload, made: Grown, params: Params) -> None:
    """The same vertices, links, fields and decisions as the slow grower, and the same values."""
    same_nodes(made)
    model = workload.model
    assert model.growth is not None
    given = read_instances(model.data, model.data.limit)
    schema = made.instances.schema
    cut: dict[str, int] = {}
    oracles = []
    nodes = {
        (int(t), int(v)): n
        for n, (t, v) in enumerate(zip(made.graph.dag.type, made.graph.vertex, strict=True))
    }
    for i in range(len(given)):
        oracle = Oracle(model, given, i, params)
        vertices = oracle.grow()
        oracles.append(oracle)
        begin, end = made.instances.start[i : i + 2].tolist()
        assert [schema.kinds[k] for k in made.instances.kind[begin:end]] == [v.kind for v in vertices]
        number = {vertex: begin + n for n, vertex in enumerate(vertices)}
        for kind in model.growth.kinds:
            own = [v for v in vertices if v.kind in kind.kinds]
            for name in kind.links:
                target = made.instances.links[name].target
                links = [v.links.get(name) for v in own]
                assert [target[number[v]] for v in own] == [number[to] if to else -1 for to in links]
            for name in (*kind.fields, *(d.name for d in kind.decisions)):
                values = made.instances.fields[name]
                assert [values[number[v]] for v in own] == [v.fields[name] for v in own], name
        for kind_name in oracle.cut:
            cut[kind_name] = cut.get(kind_name, 0) + 1
        for vertex in vertices:
            for t, node_type in enumerate(model.types):
                if not oracle.has(t, vertex):
                    continue
                if node_type.reduction is None:
                    node = nodes[t, number[vertex]]
                    for o, expected in enumerate(oracle.value(t, vertex)):
                        reference = np.array([node * made.graph.network.width + o])
                        np.testing.assert_allclose(made.result.values(reference)[0], expected, 1e-9, 1e-12)
    assert made.cut == cut
    check_history(workload, made, oracles)


@pytest.mark.parametrize("name", GROWING)
def test_shipped_specs_grow_as_the_oracle(name: str) -> None:
    workload = opened(SPECS / f"{name}.yaml", hidden=6, limit=6)
    params = init_params(workload.network, 1)
    check_as_the_oracle(workload, grown(workload, ready(workload, "reference", params)), params)


CELL = """\
cell: rnn
dims: [hidden]
inputs: {x: hidden, h: hidden, g: hidden}
params: {W: [hidden, hidden], U: [hidden, hidden], V: [hidden, hidden], b: hidden}
equations: h1 = tanh(W @ x + U @ h + V @ g + b)
outputs: {h: h1}
"""
SCORES = """\
cell: scores
dims: [hidden]
inputs: {x: hidden}
params: {W: [3, hidden], v: [1, hidden]}
equations: |
  y = W @ x * 4
  z = v @ x
outputs: {y: y, z: z}
"""
DATA = "a|N b|V\nc|N\nb|V d|N a|N\nd|V c|N\na|N\n"


VALUES = ("at.instance.token.buffer.h", "at.instance.token.buffer.h or up.run.h or idle")


class Draft:
    """A random section `grow` of kinds a and b, over sentences."""

    def __init__(self, draw: st.DataObject) -> None:
        self.draw = draw
        self.links = {
            "a": {"up": "a", "side": "b", "at": "token"},
            "b": {"before": "b", "owner": "a", "at": "token"},
        }
        self.fields = {"a": ("depth", "row"), "b": ("depth",)}
        self.choices = {"a": ("pick", "go"), "b": ("toss",)}
        self.beam = draw.draw(st.booleans())

    def one(self, *options: str) -> str:
        return self.draw.draw(st.sampled_from(options))

    def places(self, kind: str, target: str, added: dict[str, str]) -> list[str]:
        starts = {"this": kind, **added}
        found = ["token[1]" for _ in range(0)]
        for name, begin in starts.items():
            if begin == target:
                found.append(name)
            for link, to in self.links[begin].items():
                way = link if name == "this" else f"{name}.{link}"
                if to == target:
                    found.append(way)
                if to in self.links:
                    found += [f"{way}.{more}" for more, end in self.links[to].items() if end == target]
                elif target == "token":
                    found.append(f"{way}.next")
        return found

    def test(self, kind: str, decided: bool) -> str:
        numbers = ["index", *self.fields[kind], *(self.choices[kind] if decided else ())]
        links = self.places(kind, self.one("a", "b", "token"), {})
        number = self.one(*numbers)
        against = self.one("0", "1") if number in ("go", "toss") else self.one("0", "1", "2")
        options = [f"{number} {self.one('<', '>', '==', '!=', '<=')} {against}"]
        options += [self.one(*links)] if links else []
        options += [self.one(*numbers)]
        return self.one("", "not ") + self.one(*options)

    def tests(self, kind: str, decided: bool = True) -> str:
        return " and ".join(self.test(kind, decided) for _ in range(self.draw.draw(st.integers(1, 2))))

    def clause(self, kind: str, number: int, added: dict[str, str]) -> str:
        adds, named = self.one("a", "b"), self.draw.draw(st.booleans())
        parts = [f"add: {adds}"] + ["each: pick"] * (self.beam and kind == "a")
        if named:
            parts.append(f"as: new{number}")
        parts.append(f"when: {self.tests(kind)}")
        if self.draw.draw(st.booleans()):
            parts.append(f"unless: {self.tests(kind)}")
        for link, target in self.links[adds].items():
            places = self.places(kind, target, added)
            wanted = self.draw.draw(st.booleans())
            if places and wanted:
                parts.append(f"{link}: {self.one(*places)}")
        for name in self.fields[adds]:
            rows = ["pick", "2"] if kind == "a" else ["0", "1"]
            plain = ["depth + 1", "depth", "3", "index", *self.choices[kind]]
            parts.append(f"{name}: {self.one(*(rows if name == 'row' else plain))}")
        if named:
            added[f"new{number}"] = adds
        return "      - {" + ", ".join(parts) + "}\n"

    def then(self, kind: str) -> str:
        added: dict[str, str] = {}
        count = self.draw.draw(st.integers(1, 3))
        found = "".join(self.clause(kind, number, added) for number in range(count))
        return found + (self.crowd(added) if kind == "a" else "")

    def crowd(self, added: dict[str, str]) -> str:
        """Clauses of kind a that add one vertex of kind c for each of a list, with what was just added."""
        lists = {"instance.token": "token", "members": "c", "up.members": "c", "side.owner.members": "c"}
        homes = [name for name, kind in added.items() if kind == "a"]
        found = []
        for number in range(int(self.one("0", "1", "2", "3"))):
            where = self.one(*lists) if number else "instance.token"
            parts = ["add: c", f"each: x in {where}"] if not self.beam else ["add: c", "each: pick"]
            home = self.one("added", "added", "added", "this", "")
            if home == "added" and homes:
                parts.append(f"home: {self.one(*homes)}")
            elif home == "this" and not self.beam:
                parts.append("home: this")
            if self.draw.draw(st.booleans()):
                parts.append(f"when: {self.tests('a')}")
            if not self.beam:
                of = self.one("index", "of.index + 1") if lists[where] == "c" else "index"
                parts.append(f"place: x.{of}")
                parts.append("of: x, at: x.at" if lists[where] == "c" else "at: x")
                if self.draw.draw(st.booleans()):
                    parts.append(f"unless: x.index > {self.one('0', '1', '2')} and {self.tests('a')}")
            else:
                parts.append("place: pick")
            found.append("      - {" + ", ".join(parts) + "}\n")
        return "".join(found)

    def crowds(self) -> tuple[str, str, str]:
        """The links, the kind and the types of lists."""
        those = self.one("home.members.each.h", "home.members.of.each.h")
        own = self.one("home.run.h", "home.up.run.h", "of.others.y")
        return (
            "links: {members: {reverse: home}}\n",
            f"""\
  c:
    links: {{home: a or none, of: c or none, at: token or none}}
    fields: {{place: number}}
    most: {self.draw.draw(st.integers(1, 12))}
""",
            f"""\
  each: {{per: c, cell: rnn.yaml, inputs: {{x: "depths[place] or zeros",
    h: of.each.h or at.buffer.h or zeros, g: {own} or idle}}}}
  others: {{per: c, attend: {{query: each.h, keys: {those}, values: {those} or idle}}}}
  gather: {{per: a, {self.one("mean", "sum", "max")}: {{h: members.each.h or idle}}}}
  least: {{per: c, cell: scores.yaml, inputs: {{x: others.y}}}}
""",
        )

    def choose(self) -> str:
        how = "best" if self.beam else self.one("argmax", "sample")
        scores = f"{self.one('1', '2', '4')} of score.y" if self.beam else "score.y"
        if self.draw.draw(st.booleans()):
            allow = ", ".join(f"c{i}: {self.tests('a', False)}" for i in range(3))
            return f"{{{how}: {scores}, allow: {{{allow}}}}}"
        return f"{how} {scores}"

    def text(self) -> str:
        def optional(links: dict[str, str]) -> str:
            return ", ".join(f"{name}: {to} or none" for name, to in links.items())

        read = self.one(
            "up.run.h", "side.pass.h", "up.up.run.h", "at.buffer.h", "instance.pooled.h", "near.h"
        )
        listed = ("gather.h", "members[0].each.h or run.h")
        scored = self.one("run.h", "look.y", "up.look.y or run.h", *listed)
        members, crowd, their_types = self.crowds()
        return f"""\
model: random
dims: {{hidden: 3}}
data: {{format: tags, path: d.txt, batch: 3, seed: {self.draw.draw(st.integers(0, 9))}}}
tables: {{words: {{dim: hidden, rows: 8}}, rows: {{dim: hidden, rows: 3}}, depths: {{dim: hidden, rows: 4}}}}
params: {{idle: hidden}}
{members}grow:
  a:
    links: {{{optional(self.links["a"])}}}
    fields: {{depth: number, row: rows}}
    most: {self.draw.draw(st.integers(1, 7))}
    start: {{depth: 0, row: 1, at: "token[{self.one("0", "-1", "1")}]"}}
    choose: {{pick: {self.choose()}, go: score.z > {self.one("-0.2", "0", "0.3")}}}
    then:
{self.then("a")}  b:
    links: {{{optional(self.links["b"])}}}
    fields: {{depth: number}}
    most: {self.draw.draw(st.integers(1, 7))}
    choose: {{toss: chance {self.one("0", "0.4", "0.9")}}}
    then:
{self.then("b")}{crowd}types:
  buffer: {{per: token, cell: rnn.yaml, inputs: {{x: "words[word]", h: prev.buffer.h or zeros, g: idle}}}}
  run: {{per: a, cell: rnn.yaml, inputs: {{x: "rows[row]", h: {read} or zeros,
    g: side.pass.h or up.run.h or idle}}}}
  pass: {{per: b, where: depth < 3, cell: rnn.yaml, inputs: {{x: "depths[owner.go] or depths[depth] or zeros",
    h: before.pass.h or zeros, g: owner.run.h or at.buffer.h or idle}}}}
  pooled: {{per: instance, mean: {{h: token.buffer.h}}}}
  near: {{per: a, sum: {{h: at.instance.token.buffer.h or idle}}}}
  look: {{per: a, attend: {{query: run.h, keys: at.instance.token.buffer.h, values: {self.one(*VALUES)}}}}}
{their_types}  score: {{per: a, cell: scores.yaml, inputs: {{x: "{scored}"}}}}
  all: {{per: instance, mean: {{h: a.run.h or idle}}}}
  end: {{per: instance, cell: scores.yaml, inputs: {{x: all.h}}}}
outputs: {{pick: a.pick, toss: b.toss, end: end.y, least: least.y}}
"""


@pytest.fixture(scope="module")
def random_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("random")
    for name, text in (("rnn.yaml", CELL), ("scores.yaml", SCORES), ("d.txt", DATA)):
        (folder / name).write_text(text)
    return folder


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), seed=st.integers(0, 100))
def test_random_sections_grow_as_the_oracle(random_folder: Path, data: st.DataObject, seed: int) -> None:
    spec = random_folder / "model.yaml"
    spec.write_text(Draft(data).text())
    try:
        workload = opened(spec)
    except AbwError as refused:
        told = (
            "known only",
            "decided only",
            "never adds anything",
            "wait for each other",
            "waits for itself",
        )
        assert any(words in str(refused) for words in told), str(refused)
        return
    params = init_params(workload.network, seed)
    made = grown(workload, ready(workload, "reference", params))
    check_as_the_oracle(workload, made, params)
    for planned in made.pieces:
        check_schedule(planned.graph.dag, planned.schedule)
        check_plan(planned.graph, planned)
    check_schedule(made.graph.dag, made.schedule)
    np.testing.assert_array_equal(made.plan.rows, made.pieces[-1].rows)


@settings(max_examples=5, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), seed=st.integers(0, 100))
def test_random_sections_on_the_processor(random_folder: Path, data: st.DataObject, seed: int) -> None:
    """What decides in single precision may decide otherwise; but only within the tolerance."""
    spec = random_folder / "model.yaml"
    spec.write_text(Draft(data).text())
    try:
        workload = opened(spec)
    except AbwError:
        return
    params = init_params(workload.network, seed)
    made = grown(workload, ready(workload, "cpu", params))
    reference = ReferenceExecutor()
    reference.prepare(workload.network, params)
    expected = reference.run_graph(made.graph)
    assert max(d.error for d in compare(made.result, expected)) < 1e-4
    assert workload.ground is not None
    recheck(workload.ground.sprouter, made.instances, expected, 1e-4, "cpu", made.picks)


@pytest.mark.parametrize(
    ("name", "spec"),
    [(n, s) for n in ("blas", "cpu") for s in GROWING] + [(n, "drnn") for n in ("njit", "cuda")],
)
def test_every_executor_grows_the_same(name: str, spec: str) -> None:
    # to simulate a GPU is slow
    workload = opened(SPECS / f"{spec}.yaml", hidden=6, limit=3 if name in ("blas", "cpu") else 1)
    params = init_params(workload.network, 2)
    expected = grown(workload, ready(workload, "reference", params))
    made = grown(workload, ready(workload, name, params))
    same_instances(made.instances, expected.instances)
    assert max(d.error for d in compare(made.result, expected.result)) < 1e-5
    assert workload.ground is not None
    found = recheck(workload.ground.sprouter, made.instances, expected.result, 1e-5, name, made.picks)
    assert found.decisions and found.close == 0


def same_instances(made: Instances, expected: Instances) -> None:
    np.testing.assert_array_equal(made.kind, expected.kind)
    np.testing.assert_array_equal(made.start, expected.start)
    for name in expected.fields:
        np.testing.assert_array_equal(made.fields[name], expected.fields[name])
    for name in expected.links:
        np.testing.assert_array_equal(made.links[name].target, expected.links[name].target)


@pytest.mark.parametrize("spec", ["greedy", "stackrnn", "nested", "early-exit", "beam", "berxit"])
def test_alone_and_together_and_on_two_threads_the_bits_are_the_same(
    spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("abw.core.exec.cpu.parts.APART_FLOPS", 1)
    workload = opened(SPECS / f"{spec}.yaml", hidden=16, limit=8)
    params = init_params(workload.network, 4)
    alone, two = ready(workload, "cpu", params, 1), ready(workload, "cpu", params, 2)
    together = grown(workload, alone)
    expected = values_by_instance(together)
    same_instances(grown(workload, two).instances, together.instances)
    assert values_by_instance(grown(workload, two)) == expected
    parts = [grown(workload, alone, i, i + 1) for i in range(8)]
    found = [part for i in range(8) for part in values_by_instance(grown(workload, alone, i, i + 1))]
    assert found == expected
    assert sum(len(part.graph) for part in parts) == len(together.graph)


@pytest.mark.parametrize("executor", ["cpu", "blas"])
def test_outputs_need_no_graph_of_finished_instances(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    workload = opened(SPECS / "greedy.yaml", hidden=6, limit=4)
    constructed: list[int] = []

    def counted(binding: Binding, first: int, last: int) -> Graph:
        constructed.append(len(binding.instances))
        return construct(binding, first, last)

    monkeypatch.setattr("abw.core.run.growing.construct", counted)
    policy, clock = get_policy("depth"), Clock("construct", "schedule", "plan", "execute")
    runner = ready(workload, executor, init_params(workload.network, 1), 1)
    ((batch, result),) = run_all(workload, policy, runner, clock, windows=[(0, 3)])
    (words,) = columns_of(workload, batch, result)
    assert len(words.values) == words.counts.sum() > 3
    assert constructed == [4]  # of what is given, before growth
    assert len(batch.graph) == len(result.nodes) and batch.graph is batch.plan.graph
    assert constructed == [4, 3]


def values_by_instance(made: Grown) -> list[bytes]:
    """All that each instance gave: values and decisions, bit for bit."""
    found = [b""] * len(made.instances)
    for refs in made.graph.results:
        values = made.result.values(refs.reference)
        for i in range(len(found)):
            found[i] += values[refs.instance == i].tobytes()
    starts = made.instances.start.tolist()
    for name in sorted(made.instances.fields):
        if name not in made.instances.vocabulary:
            numbers = made.instances.fields[name]
            for i in range(len(found)):
                found[i] += numbers[starts[i] : starts[i + 1]].tobytes()
    return found


def test_what_has_grown_is_data_as_any_other() -> None:
    workload = opened(SPECS / "stackrnn.yaml", hidden=6, limit=6)
    finished = whole(workload)
    assert finished.ground is None
    graph = finished.graph(0, 6)
    assert {t.name: n for t, n in zip(finished.network.types, graph.type_sizes, strict=True)}["score"] > 60
    for name in ("depth", "sufficient", "critical"):
        check_schedule(graph.dag, get_policy(name).schedule(graph.dag))


def broken(workload: Workload, word: str) -> Params:
    """Parameters in which the vector of one word of the data is not a number."""
    params = init_params(workload.network, 0)
    numbers = [t.name for t in workload.model.tables]
    row = word_rows(workload.instances, "word", workload.model.tables[numbers.index("sources")])
    at = list(workload.instances.vocabulary["word"]).index(word)
    params.tables[numbers.index("sources")][row[at]] = np.nan
    return params


def test_scores_that_are_no_numbers_name_instance_and_step() -> None:
    workload = opened(SPECS / "greedy.yaml", hidden=5, limit=8)
    executor = ready(workload, "cpu", broken(workload, "station"))
    with pytest.raises(
        InstanceError, match=r"score.y is not a number at step 0 of instance 1 .*pairs.txt:2"
    ) as error:
        grown(workload, executor)
    assert error.value.instance == 1
    with pytest.raises(InstanceError) as error:
        grown(workload, executor, 1, 4)
    assert error.value.instance == 1
    left_out: list[int] = []
    clock = Clock("construct", "schedule", "plan", "execute")
    policy = get_policy("critical")
    done = [
        (batch.first, batch.last)
        for batch, _ in run_all(workload, policy, executor, clock, lambda e: left_out.append(e.instance))
    ]
    assert left_out[0] == 1 and done[0] == (0, 1)
    inside = {i for first, last in done for i in range(first, last)}
    assert inside | set(left_out) == set(range(8)) and not inside & set(left_out)


def test_what_does_not_fit_grows_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = opened(SPECS / "greedy.yaml", hidden=5, limit=4)
    executor = ready(workload, "blas", init_params(workload.network, 0))
    run = executor.run

    def small(plan: Plan) -> Result:
        if plan.graph.instances > 2:
            raise TooLargeError(2, 1, "here")
        return run(plan)

    monkeypatch.setattr(executor, "run", small)
    clock = Clock("construct", "schedule", "plan", "execute")
    done = [(b.first, b.last, b.piece) for b, _ in run_all(workload, get_policy("depth"), executor, clock)]
    assert done == [(0, 2, True), (2, 4, True)]


def test_a_wrong_decision_is_found() -> None:
    workload = opened(SPECS / "greedy.yaml", hidden=5, limit=2)
    made = grown(workload, ready(workload, "reference", init_params(workload.network, 0)))
    assert workload.ground is not None
    sprouter = workload.ground.sprouter
    assert recheck(sprouter, made.instances, made.result, 1e-5, "x").close == 0
    fields = dict(made.instances.fields)
    fields["next"] = np.where(fields["next"] >= 0, (fields["next"] + 1) % 200, -1)
    wrong = replace(made.instances, fields=fields)
    with pytest.raises(AbwError, match="decision 'next' of instance 0"):
        recheck(sprouter, wrong, made.result, 1e-5, "x")
    assert recheck(sprouter, wrong, made.result, 1e9, "x").close > 10


@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_a_wrong_decision_is_found_among_scores_without_end(scale: float) -> None:
    """Infinite scores say nothing about how far apart two others may be."""
    workload = opened(SPECS / "greedy.yaml", hidden=5, limit=2)
    params = init_params(workload.network, 0)
    for param, value in zip(workload.network.params, params.values, strict=True):
        if param.name.startswith("score."):
            value *= np.float32(scale)
            if param.name == "score.b":
                value[-1] = -np.inf
                value[2] += 1
    made = grown(workload, ready(workload, "reference", params))
    assert workload.ground is not None
    sprouter = workload.ground.sprouter
    assert recheck(sprouter, made.instances, made.result, 1e-5, "x").close == 0
    fields = dict(made.instances.fields)
    fields["next"] = np.where(fields["next"] == 2, 3, fields["next"])
    wrong = replace(made.instances, fields=fields)
    with pytest.raises(AbwError, match="decision 'next' of instance"):
        recheck(sprouter, wrong, made.result, 1e-5, "x")


ABSENT = """\
model: absent
dims: {hidden: 3}
data: {format: tags, path: d.txt, batch: 3}
tables: {words: {dim: hidden, rows: 8}, depths: {dim: hidden, rows: 4}}
params: {idle: hidden}
grow:
  a:
    links: {up: a or none}
    fields: {depth: number}
    most: 3
    start: {depth: "token[9].index"}
    choose: {go: score.z > -1000}
    then: [{add: a, when: go, up: this, depth: index}]
  token:
    choose: {best: {argmax: read.y, allow: {x: index > 9, y: index > 9, z: index > 9}}}
types:
  read: {per: token, cell: scores.yaml, inputs: {x: "words[word]"}}
  more: {per: token, where: best COMPARED 2, cell: scores.yaml, inputs: {x: read.y}}
  part: {per: a, where: depth COMPARED 2, cell: scores.yaml, inputs: {x: "depths[depth] or idle"}}
  score: {per: a, cell: scores.yaml, inputs: {x: up.part.y or idle}}
outputs: {more: more.y, part: part.y}
"""


@pytest.mark.parametrize("comparison", ["<", "<=", "!="])
def test_an_absent_number_passes_no_condition(random_folder: Path, comparison: str) -> None:
    """Neither where types run in rounds nor where they run after growth."""
    spec = random_folder / "absent.yaml"
    spec.write_text(ABSENT.replace("COMPARED", comparison))
    workload = opened(spec)
    params = init_params(workload.network, 0)
    made = grown(workload, ready(workload, "reference", params))
    check_as_the_oracle(workload, made, params)
    sizes = {t.name: n for t, n in zip(workload.network.types, made.graph.type_sizes.tolist(), strict=True)}
    assert (sizes["more"], sizes["part"], sizes["score"]) == (0, 2 * 5, 3 * 5)


@pytest.mark.parametrize("name", ["stackrnn", "berxit"])
def test_what_has_grown_in_operations_and_with_reductions_in_place(name: str) -> None:
    """Not while it grows; the finished graph of operations computes what the one of cells does."""
    model = open_model(SPECS / f"{name}.yaml", Overrides(dims={"hidden": 4}, limit=2))
    cells = load_workload(model, "cell")
    params = init_params(cells.network, 1)

    def computed(workload: Workload) -> Result:
        executor = ReferenceExecutor()
        executor.prepare(workload.network, params)
        return executor.run_graph(workload.graph(0, 2))

    expected = computed(cells)
    for granularity, fuse in (("op", False), ("cell", True)):
        workload = load_workload(model, granularity, fuse=fuse)  # type: ignore[arg-type]
        same_instances(workload.instances, cells.instances)
        found = computed(workload)
        assert (len(found.nodes) > len(expected.nodes)) == (granularity == "op")
        for ours, theirs in zip(found.nodes.results, expected.nodes.results, strict=True):
            np.testing.assert_allclose(found.values(ours.reference), expected.values(theirs.reference))


def test_granularity_op_is_refused(tmp_path: Path) -> None:
    model: Model = open_model(SPECS / "greedy.yaml", Overrides())
    for granularity, fuse in (("op", False), ("cell", True)):
        with pytest.raises(AbwError, match="greedy grows"):
            open_networks(model, granularity, fuse=fuse)  # type: ignore[arg-type]


def test_nothing_follows_the_end() -> None:
    """Where </s> scores well it ends half of the sentences, and the others at `most`."""
    workload = opened(SPECS / "greedy.yaml", hidden=5, limit=12)
    params = init_params(workload.network, 3)
    scores = next(
        v for p, v in zip(workload.network.params, params.values, strict=True) if p.name == "score.b"
    )
    ends = workload.model.tables[1].vocab
    assert ends is not None
    endless = grown(workload, ready(workload, "reference", params)).result.value(2, 0).reshape(12, 20, -1)
    behind = endless.max(axis=2) - endless[:, :, ends.rows["</s>"]]
    scores[ends.rows["</s>"]] += np.median(behind.min(axis=1))
    made = grown(workload, ready(workload, "reference", params))
    check_as_the_oracle(workload, made, params)
    lengths = set()
    step = made.instances.schema.kinds.index("step")
    for begin, end in zip(made.instances.start[:-1], made.instances.start[1:], strict=True):
        inside = np.flatnonzero(made.instances.kind[begin:end] == step) + begin
        words = made.instances.fields["next"][inside].tolist()
        assert ends.rows["</s>"] not in words[:-1]
        assert len(words) == 20 or words[-1] == ends.rows["</s>"]
        lengths.add(len(words))
    assert len(lengths) > 1 and 0 < made.cut["step"] < 12


def test_a_sample_ends_before_the_first_that_fails_in_whatever_round() -> None:
    model = open_model(SPECS / "stackrnn.yaml", Overrides())
    networks = open_networks(model, "cell")
    params = init_params(networks.cells, 0)
    params.tables[[table.name for table in model.tables].index("moves")][2] = np.nan  # after each `right`
    executor = CpuExecutor()
    executor.prepare(networks.network, params)
    with pytest.raises(InstanceError, match="is not a number at") as first:
        open_sample(model, networks, 48, executor=executor)
    found, used = open_sample(model, networks, 48, skip_bad=True, executor=executor)
    # one that is met earlier may stand behind others that fail in later rounds
    assert first.value.instance > 0 and used == 1
    assert found.ground is None
