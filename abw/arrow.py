"""abw models over Arrow tables: for Ray Data's `map_batches`, Spark's `mapInArrow`, or tables of your own.

    from abw.arrow import Predictor
    scores = ray.data.read_text("s3://bucket/trees.txt").map_batches(
        Predictor, fn_constructor_args=["treelstm"], batch_format="pyarrow", concurrency=4
    )

    predictor = Predictor("treelstm", column="value")
    scores = table.mapInArrow(predictor.batches, "value string, classes array<array<float>>")

    abw.arrow.outputs("out.jsonl").to_table()

Needs pyarrow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import dataset

from abw.core.api import Floats, LoadedModel, load
from abw.core.base.errors import AbwError
from abw.core.store.ragged import Outputs, Ragged
from abw.core.store.reading import StoredLines, open_outputs


class Predictor:
    """A model as a function of tables: it adds a column for each output to a column of instances' texts.

    A row's text is an instance as in a line of a file. An output is a list of values, or the value itself if
    an instance has exactly one; a value is a number, a label's name or nested lists. With `errors` a column
    of that name has the error of a row's instance, whose outputs are then null; without it an error ends the
    call. Each process loads the model once, at its first table; a predictor is sent to processes as these
    arguments.
    """

    def __init__(self, spec: str, column: str = "text", *, errors: str = "", **options: Any) -> None:  # noqa: ANN401
        """`options`: those of `abw.load`."""
        self._given = (spec, column, errors, options)
        self._model: LoadedModel | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, self._given

    def __call__(self, table: pa.Table) -> pa.Table:
        """The table with its outputs.

        Errors: those of `abw.load` and of a model's call; AbwError where two columns would have one name;
        KeyError.
        """
        spec, column, errors, options = self._given
        if self._model is None:
            self._model = load(spec, **options)
        texts = table.column(column).to_pylist()
        added = [*(output.name for output in self._model.outputs), *([errors] if errors else [])]
        names = Counter([*table.column_names, *added])
        if twice := [name for name in added if names[name] > 1]:
            raise AbwError(
                f"the table would have two columns '{twice[0]}'",
                hint="rename or drop its own, rename the output of the model, or give another `errors`",
            )
        found = self._outputs(self._model, ["" if text is None else text for text in texts])
        single = {output.name for output in self._model.outputs if output.single}
        for name, ragged in found.items():
            bad = np.isin(np.arange(len(ragged)), list(found.errors))
            table = table.append_column(name, _column(ragged, bad, name in single))
        if errors:
            said = [str(found.errors[i]) if i in found.errors else None for i in range(len(texts))]
            table = table.append_column(errors, pa.array(said, pa.string()))
        return table

    def _outputs(self, model: LoadedModel, texts: list[str]) -> Outputs:
        """What instances give; of none, columns without rows."""
        if texts:
            return model(texts, errors="return" if self._given[2] else "raise")
        none = np.zeros(1, np.int64)
        made = [(o, o.nothing) for o in model.outputs]
        return Outputs({o.name: Ragged(cast(Floats, c.values), none, c.vertex, o.words) for o, c in made})

    def batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the model on record batches one after the other, for Spark's `mapInArrow`."""
        for batch in batches:
            yield from self(pa.Table.from_batches([batch])).to_batches()


def outputs(path: str | Path) -> dataset.Dataset:
    """The JSON lines of `abw run --output PATH` as a dataset of Arrow's, a row for each instance.

    They may lie in parts that `abw join --leave-parts` has listed. Errors: as `abw.open_outputs`; AbwError
    for arrays.
    """
    stored = open_outputs(path)
    if not isinstance(stored, StoredLines):
        raise AbwError(f"{path} holds arrays", hint="abw.open_outputs gives them by name")
    return dataset.dataset([str(file) for file in stored.files], format="json")


def _again(spec: str, column: str, errors: str, options: dict[str, Any]) -> Predictor:
    return Predictor(spec, column, errors=errors, **options)


def _column(ragged: Ragged, bad: NDArray[np.bool_], single: bool) -> pa.Array:
    """An output as a column: of `bad` rows null."""
    if single:
        values = ragged.values
        if bad.any():  # they have no values: those of others stand there, and are not seen
            values = np.zeros((len(bad), *values.shape[1:]), values.dtype)
            values[~bad] = ragged.values
        return _nested(values, ragged.names, bad)
    inner = _nested(ragged.values, ragged.names)
    mask = pa.array(bad) if bad.any() else None
    return pa.ListArray.from_arrays(pa.array(ragged.offsets.astype(np.int32)), inner, mask=mask)


def _nested(
    values: NDArray[Any], names: Sequence[str] | None, bad: NDArray[np.bool_] | None = None
) -> pa.Array:
    """Values (m, *shape) as m numbers, names, or lists of them, without copying numbers.

    Lists are of any length in their type: Spark knows no others.
    """
    mask = bad if bad is not None and bad.any() else None
    if values.ndim == 1:
        if names is None:
            return pa.array(values, mask=mask)
        said = [names[number] if number >= 0 else None for number in values.tolist()]
        return pa.array(said, pa.string(), mask=mask)
    inner = _nested(values.reshape(-1, *values.shape[2:]), names)
    ends = np.arange(len(values) + 1, dtype=np.int32) * np.int32(values.shape[1])
    return pa.ListArray.from_arrays(pa.array(ends), inner, mask=None if mask is None else pa.array(mask))
