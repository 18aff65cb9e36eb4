"""The row of an embedding table for each vertex, one field looked up by itself."""

from __future__ import annotations

import numpy as np

from abw.core.data.instances import Instances, Ints
from abw.core.data.intern import word_rows
from abw.core.ir.model import Table


def table_rows(instances: Instances, field: str, table: Table) -> Ints:
    """(V,), by one of the data's own fields; -1 where a vertex has none. Errors: as `word_rows`."""
    numbers = instances.fields[field]
    rows = word_rows(instances, field, table)
    if not len(rows):
        return np.where(numbers >= 0, numbers % table.rows, np.int32(-1))
    return np.append(rows, np.int32(-1))[numbers]
