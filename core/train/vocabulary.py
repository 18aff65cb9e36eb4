"""Vocabularies made of the training data, for tables of words that have none, and kept with the weights."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from abw.core.data.instances import Instances
from abw.core.data.tensors import VOCABULARY
from abw.core.ir.model import Model, TableSource

# Row 0: what stands for all words that have no row of their own.
UNKNOWN = "<unk>"


def vocabularies(model: Model, instances: Instances, least: int) -> dict[str, tuple[str, ...]]:
    """By table the words of its rows: UNKNOWN, then those that are there `least` times, the most frequent
    first. Of tables that have a vocabulary, or are of numbers, nothing.
    """
    fields: dict[int, set[str]] = {}
    for source in (s for t in model.types for i in t.inputs for s in i.sources):
        if isinstance(source, TableSource) and source.field in instances.vocabulary:
            fields.setdefault(source.table, set()).add(source.field)
    found = {}
    for number, names in sorted(fields.items()):
        table = model.tables[number]
        if table.vocab is None:
            counts: dict[str, int] = {}
            for name in sorted(names):
                ids = instances.fields[name]
                times = np.bincount(ids[ids >= 0], minlength=len(instances.vocabulary[name])).tolist()
                for word, count in zip(instances.vocabulary[name], times, strict=True):
                    counts[word] = counts.get(word, 0) + count
            known = sorted((-n, w) for w, n in counts.items() if n >= least and w != UNKNOWN)
            found[table.name] = (UNKNOWN, *(word for _, word in known))
    return found


def packed_words(words: Mapping[str, tuple[str, ...]]) -> dict[str, NDArray[np.uint8]]:
    """Vocabularies as tensors of a file of weights (see `abw.core.data.tensors.words_in`)."""
    return {
        f"{VOCABULARY}{table}": np.frombuffer("\n".join(rows).encode(), np.uint8)
        for table, rows in words.items()
    }
