"""How mini-batches have grown, on disk: it comes back, is left out of old runs, and is checked when read."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.base.errors import AbwError
from abw.core.graph.growing.history.history import History
from abw.core.run.minibatches import history_again
from abw.core.run.pipeline import RunOptions, run
from abw.core.run.workload import open_model
from abw.core.spec.load import Overrides
from abw.core.store.checked import arrays_file, load_history, save_history
from abw.core.store.runs import find_run, load_batch

SPEC = Path(__file__).resolve().parents[3] / "specs" / "beam.yaml"


@pytest.fixture(scope="module")
def grown() -> History:
    found = history_again(open_model(SPEC, Overrides(dims={"hidden": 4}, limit=3)), 0, 3)
    assert found is not None
    return found


def same(one: History, other: History) -> None:
    for field in fields(History):
        np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name), field.name)


def test_a_run_keeps_what_its_spec_does_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grown: History
) -> None:
    monkeypatch.setenv("ABW_HOME", str(tmp_path))
    run(SPEC, Overrides(dims={"hidden": 4}, limit=6, batch=3), RunOptions(policy="agenda", verify=True))
    kept = find_run(None)
    dag, _, instance, vertex = load_batch(kept, 0)
    found = load_history(kept.path, 0, len(dag), 3)
    assert found is not None
    same(found, grown)
    np.testing.assert_array_equal(found.instance[vertex], instance)
    assert load_history(kept.path, 1, len(load_batch(kept, 1)[0]), 3) is not None
    assert load_history(kept.path, 2, 1, 3) is None  # as of a run of an abw that wrote none
    with pytest.raises(AbwError, match=r"growth/0000\.npz is damaged: 'node_round' has"):
        load_history(kept.path, 0, len(dag) - 1, 3)


def test_other_versions_are_refused(tmp_path: Path, grown: History) -> None:
    save_history(tmp_path, 0, grown)
    with np.load(arrays_file(tmp_path, "growth", 0)) as file:
        arrays = {name: file[name] for name in file.files}
    np.savez(arrays_file(tmp_path, "growth", 0), **{**arrays, "version": np.array([2], np.int32)})
    with pytest.raises(AbwError, match="it has version 2, this abw reads 1"):
        load_history(tmp_path, 0, len(grown.node_round), 3)


@given(st.data())
def test_no_number_out_of_range_is_believed(
    tmp_path_factory: pytest.TempPathFactory, grown: History, data: st.DataObject
) -> None:
    """Whatever is changed, it is refused, or what pictures do with it is possible."""
    folder = tmp_path_factory.mktemp("run")
    save_history(folder, 0, grown)
    with np.load(arrays_file(folder, "growth", 0)) as file:
        arrays = {name: file[name] for name in file.files}
    name = data.draw(st.sampled_from(sorted(arrays)))
    values = arrays[name].copy()
    if values.dtype.kind in "if" and values.size:
        at = data.draw(st.integers(0, values.size - 1))
        values.reshape(-1)[at] = data.draw(st.integers(-3, 40) | st.sampled_from([-(2**31), 2**31 - 1]))
    arrays[name] = values[: data.draw(st.integers(max(0, len(values) - 1), len(values)))]
    np.savez(arrays_file(folder, "growth", 0), **arrays)
    try:
        found = load_history(folder, 0, len(grown.node_round), 3)
    except AbwError as error:
        assert "0000.npz is damaged: " in error.message
        return
    assert found is not None
    assert len(found.growing) == found.rounds <= len(found.kind)
    for words in (found.word, found.second_word):
        assert all(found.words[w] for w in words[words >= 0].tolist())
    assert len({len(found.decision), len(found.score), len(found.fate), len(found.made_in)}) == 1
