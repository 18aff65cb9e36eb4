"""A workspace as bytes: its tables and arrays, and which of their words are addresses of what."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from abw.core.jit.pointers import Pointer, Table

Longs = NDArray[np.int64]

# What a part begins at a multiple of, in the image and in memory.
LINE = 64
# Numbers that a word of a table can be only if it is an address.
_ADDRESSES = range(1 << 36, 1 << 48)

# Kinds of relocations.
TO_PART, TO_CODE = range(2)


@dataclass(frozen=True, slots=True)
class Image:
    """Memory of a workspace as parts, the first of which is the root.

    `parts` (p, 3): where each begins in `data`, its bytes, and whether it is shared: read there by all
    workspaces. `relocations` (r, 5): the part and the byte where an address stands; its kind; and what it is
    the address of: a part and a byte in it, or a function and 0.
    """

    data: bytes
    parts: Longs
    relocations: Longs


def image_of(root: Table, code: Mapping[int, int], shared: Collection[NDArray[Any]]) -> Image:
    """The image of a table and of all that it leads to.

    `code`: the numbers of functions by their addresses. `shared`: arrays that nothing writes to. Raises
    RuntimeError for a word that is the address of something else. Cost: linear in the memory.
    """
    reached = [*_reached(root, set())]
    found = {at: memory for at, memory in map(_memory, reached) if len(memory)}
    begins: list[int] = []
    for at in sorted(found):
        if not begins or at >= begins[-1] + len(found[begins[-1]]):
            begins.append(at)
        elif at + len(found[at]) > begins[-1] + len(found[begins[-1]]):
            raise RuntimeError("two arrays overlap")
    order = sorted(range(len(begins)), key=lambda n: begins[n] != root.at)
    number = {n: part for part, n in enumerate(order)}
    relocations = []
    for table in {each.at: each for each in reached if isinstance(each, Table) and each.at}.values():
        part = bisect(begins, table.at) - 1
        for word, value in enumerate(np.asarray(table.words, np.int64).tolist()):
            here = number[part], table.at - begins[part] + 8 * word
            target = bisect(begins, value) - 1
            if target >= 0 and value < begins[target] + len(found[begins[target]]):
                relocations.append((*here, TO_PART, number[target], value - begins[target]))
            elif value in code:
                relocations.append((*here, TO_CODE, code[value], 0))
            elif value in _ADDRESSES:
                raise RuntimeError(f"word {word} of a table is an unknown address")
    fixed = {Pointer(array).at for array in shared}
    data, parts = bytearray(), []
    for n in order:
        memory = found[begins[n]]
        parts.append((len(data), len(memory), begins[n] in fixed))
        data += memory
        data += bytes(-len(memory) % LINE)
    return Image(bytes(data), np.array(parts, np.int64), np.array(relocations, np.int64).reshape(-1, 5))


def _reached(thing: object, met: set[int]) -> Iterator[Table | NDArray[Any]]:
    """The tables and arrays that a table leads to, itself first."""
    if id(thing) in met:
        return
    met.add(id(thing))
    if isinstance(thing, Table):
        yield thing
        for kept in thing.kept:
            yield from _reached(kept, met)
    elif isinstance(thing, np.ndarray):
        yield thing
    elif isinstance(thing, Pointer):
        yield from _reached(thing.owner, met)


def _memory(thing: Table | NDArray[Any]) -> tuple[int, memoryview]:
    """Where a table or an array lies, and its bytes."""
    array = np.asarray(thing.words) if isinstance(thing, Table) else thing
    at = thing.at if isinstance(thing, Table) else Pointer(array).at
    return at, memoryview(cast(Any, array.reshape(-1).view(np.uint8)))
