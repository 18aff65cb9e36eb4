"""Models that grow by one pass: the bits of the ordinary way, or left to that."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from abw.core.api import LoadedModel, load
from abw.core.base.errors import AbwError
from abw.core.exec.cpu.executor import CpuExecutor
from abw.core.graph.growing import state as grown
from abw.core.run.onepass import state as at
from abw.core.run.onepass import workspace
from abw.core.run.onepass.growing import growth as growing
from abw.core.run.onepass.growing import stages
from abw.core.run.onepass.loop import answer_text
from abw.core.run.onepass.onepass import Pass, Passes, refusal
from abw.core.run.parallel import PartRunner
from tests.conftest import ROOT
from tests.core.run.growing.drafts import Draft
from tests.core.run.onepass.generated import ordinary, same

SPECS = (
    "beam", "berxit", "drnn", "early-exit", "experts", "greedy", "greedy-attention", "nested", "seq2seq",
    "stackrnn", "stackrnn-gold", "torch-beam", "torch-greedy",
)  # fmt: skip
POLICIES = ("critical", "depth", "agenda", "sufficient", "share-reversed")


@cache
def model(name: str) -> LoadedModel:
    """A shipped model, with its passes."""
    made = load(ROOT / "specs" / f"{name}.yaml", threads=1, policy="critical")
    assert made._passes.make(made._ready()) is not None
    return made


@cache
def texts(name: str) -> tuple[str, ...]:
    """The first instances of a shipped model's data."""
    found = model(name).spec.data.path.read_text(encoding="utf-8").splitlines()
    return tuple(line for line in found if line.strip())[:6]


def the_pass(made: LoadedModel) -> Pass:
    found = made._passes.made
    assert found is not None and found.reading
    return found


def passed_as_ordinary(made: LoadedModel, instances: list[object]) -> None:
    """Compare a pass with the ordinary way, which it may not take."""
    found = the_pass(made).objects(instances)
    assert found is not None
    same(found, ordinary(made, instances))


def bound_as_ordinary(made: LoadedModel, windows: list[tuple[int, int]]) -> None:
    """Compare passes of bound instances with the ordinary way."""
    some = made.read(made.spec.data.path)
    with patch.object(PartRunner, "_planned", side_effect=AssertionError("the ordinary way")):
        found = list(made.columns(some, windows=windows))
    with patch.object(Passes, "of", return_value=None):
        expected = list(made.columns(some, windows=windows))
    for (window, columns), (other, others) in zip(found, expected, strict=True):
        assert window == other
        for mine, theirs in zip(columns, others, strict=True):
            for field in ("values", "counts", "vertex"):
                assert getattr(mine, field).tobytes() == getattr(theirs, field).tobytes()
                assert getattr(mine, field).dtype == getattr(theirs, field).dtype


@pytest.mark.parametrize("name", SPECS)
def test_shipped_models_have_the_same_bits(name: str) -> None:
    made, some = model(name), list(texts(name))
    passed_as_ordinary(made, list(some))
    for text in some[:2]:
        passed_as_ordinary(made, [text])
    bound_as_ordinary(made, [(0, 4), (2, 5), (5, 6)])
    passed_as_ordinary(made, list(some[3:]))


@pytest.mark.parametrize("name", ["greedy", "beam", "stackrnn", "nested"])
def test_too_little_room_is_made(name: str) -> None:
    """Vertices, rows, registers, picks; and each round may be the last before Ctrl-C is looked for."""
    spec = ROOT / "specs" / f"{name}.yaml"
    with (
        patch.object(growing, "FIRST_GUESS", 1),
        patch.object(growing, "LEAST_ROOM", 2),
        patch.object(growing, "PAUSE_FLOPS", 1),
    ):
        made = load(spec, threads=1, policy="critical")
        made._passes.make(made._ready())
    own = the_pass(made)._growing
    assert own is not None and own.table.words[stages.QUOTA] == 1
    own.share.words[grown.ENTRIES] = 3
    some: list[object] = [*texts(name)] * 3
    passed_as_ordinary(made, some)
    assert own.table.words[stages.PER_INSTANCE] > 1 and own.share.words[grown.ENTRIES] > 3


@pytest.mark.parametrize(("name", "short"), [("treelstm", 1), ("seq2seq", 1), ("early-exit", 2)])
def test_a_pass_goes_on_where_rows_run_short(name: str, short: int) -> None:
    """Also after growth, whose values stay."""
    made = load(ROOT / "specs" / f"{name}.yaml", threads=1, policy="critical")
    made._passes.make(made._ready())
    of = patch.object(CpuExecutor, "have_rows", autospec=True, side_effect=CpuExecutor.have_rows)
    begun = patch.object(workspace, "answer_text", side_effect=answer_text)
    with of as more, begun as once:
        found = the_pass(made).objects([*texts(name)])
    assert found is not None and once.call_count == 1 and more.call_count == short
    same(found, ordinary(made, [*texts(name)]))


def test_threads_grow_large_mini_batches() -> None:
    made = load(ROOT / "specs/greedy.yaml", threads=2, policy="critical")
    made._passes.make(made._ready())
    some: list[object] = [*texts("greedy")]
    assert the_pass(made).objects(some[:1]) is not None
    with patch.object(the_pass(made)._growing, "_limit", 1):
        assert the_pass(made).objects(some) is None
        assert the_pass(made).objects(some[:1]) is not None


def test_threads_run_large_mini_batches_after_growth() -> None:
    """Once it is known what types after growth take."""
    made = load(ROOT / "specs/nested.yaml", threads=2, policy="critical")
    made._passes.make(made._ready())
    some: list[object] = [*texts("nested")]
    with patch.object(the_pass(made)._growing, "_limit", 1):
        assert the_pass(made).objects(some) is not None
        assert the_pass(made).objects(some) is None
        assert the_pass(made).objects(some[:1]) is not None


def test_what_is_wrong_is_told_by_the_ordinary_way(tmp_path: Path) -> None:
    made = model("greedy")
    network, params = made.network, made._params
    values = [value.copy() for value in params.values]
    values[[p.name for p in network.params].index("score.b")][:] = np.nan
    assert the_pass(made).objects(["a b"]) is None
    try:
        made.executor.update(type(params)(tuple(values), params.tables))
        assert the_pass(made).objects([texts("greedy")[0]]) is None
        with pytest.raises(AbwError, match="is not a number at step 0"):
            made([texts("greedy")[0]])
    finally:
        made.executor.update(params)
    passed_as_ordinary(made, [texts("greedy")[0]])


def test_passes_and_runs_of_two_models_in_turns() -> None:
    one, other = model("greedy"), model("beam")
    for text in texts("greedy")[:3]:
        passed_as_ordinary(one, [text])
        ordinary(one, [*texts("greedy")])
        passed_as_ordinary(other, [text])


def test_streams_and_engines_take_the_pass() -> None:
    made, some = model("greedy"), [*texts("greedy")]
    numbers = np.array([7, 3], np.int64)
    found = made.passed(list(some[:2]), numbers, 1000)
    assert found is not None and made.passed(list(some[:2]), numbers, 3) is None
    with patch.object(PartRunner, "_planned", side_effect=AssertionError("the ordinary way")):
        streamed = list(made.stream(made.spec.data.path))
    with patch.object(Passes, "of", return_value=None):
        expected = list(made.stream(made.spec.data.path))
    for mine, theirs in zip(streamed, expected, strict=True):
        same(mine, theirs)


def test_chance_goes_by_the_numbers_of_instances(tmp_path: Path) -> None:
    """What is sampled depends on an instance's number in its file or request."""
    text = (ROOT / "specs/greedy.yaml").read_text().replace("argmax", "sample")
    (tmp_path / "greedy.yaml").write_text(
        text.replace("cells/", f"{ROOT}/specs/cells/").replace("data/", f"{ROOT}/specs/data/")
    )
    made = load(tmp_path / "greedy.yaml", threads=1, policy="critical", allow_outside=True)
    made._passes.make(made._ready())
    some: list[object] = [*texts("greedy")]
    passed_as_ordinary(made, some)
    bound_as_ordinary(made, [(0, 4), (2, 5)])
    passed_as_ordinary(made, some)
    first, second = (made.passed([some[0]], np.array([n]), at.ENDLESS) for n in (0, 9))
    assert first is not None and second is not None
    assert first[0][0].values.tobytes() != second[0][0].values.tobytes()


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), seed=st.integers(0, 100))
def test_random_sections_have_the_same_bits(random_folder: Path, data: st.DataObject, seed: int) -> None:
    spec = random_folder / "model.yaml"
    spec.write_text(Draft(data).text())
    try:
        made = load(spec, threads=1, policy=data.draw(st.sampled_from(POLICIES)), seed=seed)
    except AbwError:
        return
    some: list[object] = [line for line in made.spec.data.path.read_text().splitlines() if line]
    found = made._passes.make(made._ready())
    assert found is not None and found._texted
    try:
        expected = ordinary(made, some)
    except AbwError:
        assert found.objects(some) is None
        return
    passed = found.objects(some)
    assert passed is not None
    same(passed, expected)
    bound_as_ordinary(made, [(0, len(some)), (1, 3)])


# A shipped model whose vertices first choose a row, which other types read: these run after growth.
DECIDING = {
    "treelstm-2type": ("leaf", "words[word]"),
    "treelstm-nary": ("leaf", "words[word]"),
    "lattice": ("char-arc", "chars[id]"),
    "rings": ("atom", "elements[element]"),
    "bilstm": ("token", "words[word]"),
    "torch-childsum": ("word", "words[word]"),
}


def deciding(name: str, folder: Path) -> Path:
    kind, read = DECIDING[name]
    text = (ROOT / f"specs/{name}.yaml").read_text().replace(f'"{read}"', '"picks[pick]"')
    for there in ("cells", "data"):
        text = text.replace(f"{there}/", f"{ROOT}/specs/{there}/")
    width = "hidden" if name == "rings" else "embed"
    table = f"tables: {{picks: {{dim: {width}, rows: 3}}, "
    text = text.replace("tables: {", f"grow: {{{kind}: {{choose: {{pick: argmax gate.y}}}}}}\n{table}", 1)
    cell = f"{ROOT}/specs/cells/linear.yaml"
    gate = f'  gate: {{per: {kind}, cell: {cell}, dims: {{in: {width}, out: 3}}, inputs: {{x: "{read}"}}}}\n'
    (folder / f"{name}.yaml").write_text(text.replace("types:\n", f"types:\n{gate}", 1))
    return folder / f"{name}.yaml"


@pytest.mark.parametrize("name", [name for name in DECIDING if name != "torch-childsum"])
def test_types_after_growth_follow_the_links_of_the_data(name: str, tmp_path: Path) -> None:
    made = load(
        deciding(name, tmp_path), threads=1, policy="critical", allow_outside=True, dims={"hidden": 8}
    )
    assert made._networks.growth_model is not None and made._networks.growth_model.phases.after
    assert made._passes.make(made._ready()) is not None
    lines = [line for line in made.spec.data.path.read_text().splitlines() if line][:12]
    if name != "lattice":
        passed_as_ordinary(made, [*lines])
    bound_as_ordinary(made, [(0, 5), (3, 9)])


def test_lists_of_the_data_are_followed_the_ordinary_way(tmp_path: Path) -> None:
    made = load(deciding("torch-childsum", tmp_path), threads=1, policy="critical", allow_outside=True)
    said = refusal(made.spec, made._networks, made._ready())
    assert said == "types after growth follow 'children', which has no compiled stage there"


@pytest.mark.parametrize("read", [True, False])
def test_outputs_that_are_reductions(read: bool, tmp_path: Path) -> None:
    """The only value of a list stands for its sum, also where no type reads that."""
    text = (ROOT / "specs/greedy.yaml").read_text().replace("most: 20", "most: 1")
    total = "  total: {per: instance, sum: {s: step.decoder.h}}\n"
    cell = f"{ROOT}/specs/cells/linear.yaml"
    total += (
        f"  end: {{per: instance, cell: {cell}, dims: {{in: hidden, out: 3}}, inputs: {{x: total.s}}}}\n"
        if read
        else ""
    )
    text = text.replace("outputs: {", f"{total}outputs: {{total: total.s, ")
    for there in ("cells", "data"):
        text = text.replace(f"{there}/", f"{ROOT}/specs/{there}/")
    (tmp_path / "greedy.yaml").write_text(text.replace(f"{ROOT}/specs/{ROOT}", f"{ROOT}"))
    made = load(tmp_path / "greedy.yaml", threads=1, policy="critical", allow_outside=True)
    some: list[object] = [*texts("greedy")]
    assert made._passes.make(made._ready()) is not None
    for _ in range(3):
        passed_as_ordinary(made, some)
