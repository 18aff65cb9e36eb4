"""Reads outputs: a file, or the parts of one as if they were joined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.data.tensors import read_tensors
from abw.core.store.outputs import require_suffix, writes_lines
from abw.core.store.shard_files import listed_parts


class StoredLines:
    """JSON lines: iterating gives the document of each instance, in their order.

    `files`: those that hold them, one after the other.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self.files = tuple(files)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for path in self.files:
            with path.open("rb") as file:
                for number, line in enumerate(file, 1):
                    try:
                        yield orjson.loads(line)
                    except ValueError as error:
                        raise AbwError(f"{path}:{number}: not JSON: {error}") from None


class StoredArrays(Mapping[str, NDArray[Any]]):
    """Arrays by name, each read when it is asked for; those of parts are concatenated.

    `files`: those that hold them, one after the other.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self.files = tuple(files)
        self._stored = [read_tensors(path).tensors for path in files]

    def __getitem__(self, name: str) -> NDArray[Any]:
        parts = [np.asarray(stored[name].read()) for stored in self._stored]
        if len(parts) > 1 and name.endswith(".offsets"):
            counts = np.concatenate([np.diff(part) for part in parts])
            return np.concatenate([parts[0][:1], np.cumsum(counts)]).astype(parts[0].dtype)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored[0])

    def __len__(self) -> int:
        return len(self._stored[0])


def open_outputs(path: str | Path) -> StoredLines | StoredArrays:
    """Open what `abw run --output PATH` has written, or its parts that were left as they are.

    Parts are those that `abw join --leave-parts` has listed. Errors: AbwError where there is nothing, or what
    is there is damaged.
    """
    path = Path(path)
    require_suffix(path)
    files = listed_parts(path)
    return StoredLines(files) if writes_lines(path) else StoredArrays(files)
