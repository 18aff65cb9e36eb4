"""`abw.arrow`: outputs as columns of Arrow tables, in Ray Data and in Spark.

Skipped where pyarrow is not installed, each engine where it is not; `.ci/run` has all of them.
"""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import abw
from abw.core.base.errors import AbwError

pa = pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")
COINS = """
model: coins
data: {format: words, path: d.txt, seed: 5}
tables: {w: {dim: 2, rows: 9}}
cells:
  c: {inputs: {x: 2}, equations: "y = x + 1", outputs: {y: y}}
types:
  t: {per: token, where: coin == 1, cell: c, inputs: {x: "w[index]"}}
outputs: {y: t.y}
"""
OPTIONS = {"dims": {"hidden": 8}, "policy": "critical", "threads": 1}


@pytest.fixture
def texts(root: Path, kernels_home: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("ABW_HOME", str(kernels_home))
    return (root / "specs/data/trees.txt").read_text().splitlines()


def predictor(**options: Any) -> Any:  # noqa: ANN401
    from abw.arrow import Predictor

    return Predictor("treelstm", **{**OPTIONS, **options})


def expected(texts: list[str]) -> list[Any]:
    return [rows.tolist() for rows in abw.load("treelstm", **OPTIONS)(texts)["classes"]]


def test_a_table_gets_its_outputs(texts: list[str]) -> None:
    table = pa.table({"n": list(range(len(texts))), "text": texts})
    found = pickle.loads(pickle.dumps(predictor()))(table)
    assert found.column_names == ["n", "text", "classes"]
    assert str(found.schema.field("classes").type) == "list<item: list<item: float>>"
    assert found.column("classes").to_pylist() == expected(texts)


def test_without_a_seed_the_coin_is_the_specs(tmp_path: Path, texts: list[str]) -> None:
    from abw.arrow import Predictor

    (tmp_path / "d.txt").write_text("a b\n")
    spec = tmp_path / "coins.yaml"
    spec.write_text(COINS)
    found = Predictor(str(spec), policy="critical")(pa.table({"text": ["a b c d e f g h"]}))
    usual, zero = (
        abw.load(spec, policy="critical", seed=seed)(["a b c d e f g h"])["y"] for seed in (None, 0)
    )
    assert found.column("y").to_pylist() == [rows.tolist() for rows in usual]
    assert [rows.tolist() for rows in usual] != [rows.tolist() for rows in zero]  # whose weights are the same


def test_what_is_wrong_is_null_and_said(texts: list[str]) -> None:
    table = pa.table({"text": [texts[0], "(3 (2 It)", None, texts[1]]})
    with pytest.raises(AbwError, match="inside a tree"):
        predictor()(table)
    found = predictor(errors="wrong")(table)
    first, *wrong, last = found.column("classes").to_pylist()
    assert [first, last] == expected(texts[:2]) and wrong == [None, None]
    said = found.column("wrong").to_pylist()
    assert said[0] is said[3] is None and "inside a tree" in said[1] and said[2]


def test_two_columns_of_one_name_are_refused(texts: list[str]) -> None:
    table = pa.table({"text": texts[:2]})
    again = table.append_column("classes", pa.array([1, 2]))
    for given, errors in ((again, ""), (table, "text"), (table, "classes")):
        with pytest.raises(AbwError, match=f"would have two columns '{errors or 'classes'}'"):
            predictor(errors=errors)(given)


def test_one_value_an_instance_and_none_at_all(root: Path, tmp_path: Path, texts: list[str]) -> None:
    from abw.arrow import Predictor

    made = Predictor("sst", errors="wrong", threads=1, policy="critical")
    outputs = {o.name: o for o in abw.load("sst", policy="critical").outputs}
    found = made(pa.table({"text": [texts[0], "x", texts[1]]}))
    for name, output in outputs.items():
        rows = found.column(name).to_pylist()
        assert rows[1] is None and rows[0] is not None
        assert isinstance(rows[0], list) or output.single
    assert made(pa.table({"text": pa.array([], pa.string())})).num_rows == 0


def test_in_ray_data(texts: list[str], tmp_path: Path) -> None:
    ray = pytest.importorskip("ray", reason="the extra ray is not installed")
    pytest.importorskip("pandas", reason="Ray Data wants pandas")
    from ray import data

    from abw.arrow import Predictor

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    path = tmp_path / "trees.txt"
    path.write_text("\n".join(texts) + "\n")
    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100_000_000, log_to_driver=False)
    try:
        lines = data.read_text(str(path)).map_batches(
            Predictor,
            fn_constructor_args=["treelstm"],
            fn_constructor_kwargs=OPTIONS,
            batch_format="pyarrow",
            batch_size=16,
            concurrency=1,
        )
        rows = {row["text"]: row["classes"] for row in lines.take_all()}
    finally:
        ray.shutdown()
    assert len(rows) == len(set(texts))
    for text, wanted in zip(texts, expected(texts), strict=True):
        assert np.array_equal([np.asarray(v) for v in rows[text]], np.asarray(wanted, np.float32))


def test_in_spark(texts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed")
    path = tmp_path / "trees.txt"
    path.write_text("\n".join(texts) + "\n")
    session = (
        sql.SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    try:
        table = session.read.text(str(path))
        scored = table.mapInArrow(
            predictor(column="value").batches, "value string, classes array<array<float>>"
        )
        rows = {row["value"]: row["classes"] for row in scored.collect()}
    finally:
        session.stop()
    for text, wanted in zip(texts, expected(texts), strict=True):
        assert rows[text] == wanted


def test_outputs_are_a_dataset_whether_joined_or_left_in_parts(tmp_path: Path) -> None:
    from abw.core.data.feed import Section
    from abw.core.store.shard_files import Part, join, leave, writing_part

    output = tmp_path / "out.jsonl"
    for number, some in enumerate(([0, 1], [2, 3, 4]), 1):
        with writing_part(Part(output, number, 2), {}, Section(0, 0, 1, 0, 0)) as draft:
            lines = (f'{{"id":{i},"outputs":{{"y":[{i}.5,1.0]}}}}\n' for i in some)
            draft.path.write_text("".join(lines))
    wanted = [{"id": i, "outputs": {"y": [i + 0.5, 1.0]}} for i in range(5)]
    leave(output)
    assert abw.arrow.outputs(output).to_table().to_pylist() == wanted
    join(output)
    assert abw.arrow.outputs(output).to_table().to_pylist() == wanted
