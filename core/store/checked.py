"""Arrays of mini-batches in runs' folders, checked when they are read: whole, and what they say can be.

They lie in `KIND/NNNN.npz`, one file a mini-batch, by their number.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple, get_args
from zipfile import ZIP_STORED, ZipFile

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.base.files import writing
from abw.core.data.tensors import read_header
from abw.core.graph.dag import Dag
from abw.core.graph.graph import Graph
from abw.core.graph.growing.history.history import History
from abw.core.graph.growing.history.margins import DROPPED
from abw.core.ir.growth import How
from abw.core.policy.schedule import Schedule
from abw.core.policy.user_policy import checked

Ints = NDArray[np.int32]
Array = NDArray[Any]

# What to do about a damaged run.
AGAIN = "run it anew: `abw run SPEC`"


def arrays_file(folder: Path, kind: str, number: int) -> Path:
    """Where the arrays of a mini-batch lie in a run's folder."""
    return folder / kind / f"{number:04d}.npz"


def write_arrays(folder: Path, kind: str, number: int, arrays: Mapping[str, Any]) -> None:
    """Write the arrays of a mini-batch into a run's folder. Errors: AbwError."""
    target = arrays_file(folder, kind, number)
    with writing(target):
        target.parent.mkdir(exist_ok=True)
        np.savez(target, **arrays)


@contextmanager
def damaged(path: Path) -> Iterator[None]:
    """Raise AbwError, that a file is damaged, for what its arrays cannot hold: a ValueError of the block."""
    try:
        yield
    except (ValueError, IndexError, TypeError) as error:
        raise AbwError(f"{path} is damaged: {error}", hint=AGAIN) from None


def read_batch(path: Path, instances: int) -> tuple[Dag, Schedule, Ints, Ints]:
    """A mini-batch of at most so many instances: its dag, its schedule, its nodes' instances and vertices.

    Errors: AbwError where the file is missing or damaged: node and batch numbers must be in range, edges
    without a cycle, and the schedule one of the dag. Cost: reading, and some 10 ns a node.
    """
    names = ("types", "type", "succ_ptr", "succ", "instance", "vertex", "batch_type", "batch_ptr", "nodes")
    found = read_arrays(path, names)
    with damaged(path):
        types = require_names("types", found.pop("types"))
        if len(set(types)) < len(types):
            raise ValueError("'types' names a type twice")
        ints = {name: require_row(name, array) for name, array in found.items()}
        n = len(ints["type"])
        require_offsets("succ_ptr", ints["succ_ptr"], n, len(ints["succ"]))
        require_range("succ", ints["succ"], n)
        require_range("type", ints["type"], len(types))
        require_range("instance", ints["instance"], instances, n)
        require_range("vertex", ints["vertex"], 2**31, n)
    indegree = np.bincount(ints["succ"], minlength=n).astype(np.int32)
    dag = Dag.of(types, ints["type"], ints["succ_ptr"], ints["succ"], indegree)
    # a schedule with every node after its producers is there for no graph with a cycle
    schedule = checked(
        Schedule(ints["batch_type"], ints["batch_ptr"], ints["nodes"]), dag, f"{path} is damaged"
    )
    return dag, schedule, ints["instance"], ints["vertex"]


class Equal(NamedTuple):
    """Which nodes of a kept mini-batch stand for equal ones that were left out.

    Of each node as constructed `stands` (n,) is the node that stands for it, and `instance` (n,) its own
    instance. With `part` (instances,) equal nodes were left out within parts alone.
    """

    stands: Ints
    instance: Ints
    part: Ints | None


def equal_of(graph: Graph) -> Equal | None:
    """Which nodes of a graph stand for equal ones; None where none were looked for."""
    found = graph.distinct
    return Equal(found.nodes(graph.type_ptr), found.instance, found.part) if found else None


def read_equal(path: Path, instances: int) -> Equal | None:
    """Which nodes of a mini-batch of at most so many instances stand for equal ones, if its file says so.

    Errors: AbwError where the file is missing or damaged.
    """
    found = read_arrays(path)
    if "stands" not in found:
        return None
    with damaged(path):
        names = [n for n in ("type", "stands", "stands_instance", "part") if n in found]
        ints = {name: require_row(name, found[name]) for name in names}
        if len(ints) < 3:
            raise ValueError("it lacks the array 'stands_instance'")
        require_range("stands", ints["stands"], len(ints["type"]))
        require_range("stands_instance", ints["stands_instance"], instances, len(ints["stands"]))
        if "part" in ints:
            require_range("part", ints["part"], instances)
    return Equal(ints["stands"], ints["stands_instance"], ints.get("part"))


def read_outputs(path: Path, names: Sequence[str], first: int, last: int) -> dict[str, Array]:
    """Read the outputs `names` of instances `first` to `last` (exclusive) from a run's file.

    Values are float32, of labels int32 (m, *shape); a name that the file lacks is left out. Errors: AbwError
    where the file is damaged.
    """
    arrays = read_arrays(path)
    found = {}
    for name in names:
        if name not in arrays:
            continue
        values, begin, end = arrays[name], first, last
        with damaged(path):
            if values.dtype not in (np.float32, np.int32) or not values.ndim:
                raise ValueError(f"'{name}' is {values.shape} of {values.dtype}")
            if (offsets := arrays.get(f"{name}.offsets")) is not None:
                require_offsets(f"{name}.offsets", offsets, len(offsets) - 1, len(values))
                begin, end = offsets[[first, last]].tolist()
            if end > len(values):
                raise ValueError(f"'{name}' has {len(values)} values")
        found[name] = values[begin:end]
    return found


def read_arrays(path: Path, names: Sequence[str] | None = None) -> dict[str, Array]:
    """Arrays of an `.npz` that NumPy or abw wrote uncompressed: those named, or all.

    Errors: AbwError where the file or an array is missing or not whole. Memory: the file's size at most,
    whatever it says.
    """
    try:
        with ZipFile(path) as archive:
            members = {name.removesuffix(".npy"): name for name in archive.namelist()}
            found = {}
            for name in members if names is None else names:
                if name not in members:
                    raise ValueError(f"it lacks the array '{name}'")
                if archive.getinfo(members[name]).compress_type != ZIP_STORED:
                    raise ValueError(f"the array '{name}' is compressed")
                file = io.BytesIO(archive.read(members[name]))
                read_header(file, len(file.getbuffer()), name)
                file.seek(0)
                found[name] = npy.read_array(file, allow_pickle=False)
            return found
    except FileNotFoundError:
        raise AbwError(f"{path} does not exist", hint=AGAIN) from None
    except Exception as error:  # zipfile and NumPy, on bytes of any kind
        raise AbwError(f"{path} is damaged: {error or type(error).__name__}", hint=AGAIN) from None


def require_names(name: str, array: Array) -> tuple[str, ...]:
    """Strings (m,). Raises ValueError."""
    if array.ndim != 1 or array.dtype.kind != "U":
        raise ValueError(f"'{name}' are not names")
    return tuple(map(str, array))


def require_row(name: str, array: Array, dtype: type[np.int32 | np.float32] = np.int32) -> Array:
    """32-bit integers or floats (m,). Raises ValueError."""
    if array.ndim != 1 or array.dtype != dtype:
        what = "integers" if dtype is np.int32 else "floats"
        raise ValueError(f"'{name}' is not a vector of 32-bit {what} but {array.shape} of {array.dtype}")
    return array


def require_range(name: str, values: Ints, end: int, length: int | None = None, low: int = 0) -> None:
    """Raise ValueError unless all are from `low` to below `end`, and so many as there must be."""
    if length is not None and len(values) != length:
        raise ValueError(f"'{name}' has {len(values)} numbers for {length}")
    if len(values) and not low <= values.min() <= values.max() < end:
        at = int(np.argmax((values < low) | (values >= end)))
        raise ValueError(f"'{name}' holds {values[at]} at {at}, which is not in {low} .. {end - 1}")


def require_offsets(name: str, values: Array, lists: int, members: int) -> None:
    """Raise ValueError unless `values` (lists + 1,) rise from 0 to the number of members."""
    if values.shape != (lists + 1,) or values.dtype.kind != "i":
        raise ValueError(f"'{name}' must be offsets of {lists} lists, not {values.shape} of {values.dtype}")
    if values[0] != 0 or values[-1] != members or (values[1:] < values[:-1]).any():
        raise ValueError(f"the offsets '{name}' do not rise from 0 to {members}")


# The version of the files: other ones are not read.
VERSION = 1
_NAMES = ("kinds", "decisions", "hows", "words")


def save_history(folder: Path, number: int, history: History) -> None:
    """Write a mini-batch's history into a run's folder. Errors: AbwError."""
    arrays: dict[str, Any] = {"version": np.array([VERSION], np.int32)}
    for field in fields(History):
        value = getattr(history, field.name)
        if field.name in _NAMES:
            value = np.array(value, dtype=np.str_)
        arrays[field.name] = np.array([value], np.int32) if isinstance(value, int) else value
    write_arrays(folder, "growth", number, arrays)


def load_history(folder: Path, number: int, nodes: int, instances: int) -> History | None:
    """Read what `save_history` wrote of a mini-batch of `nodes`, at most `instances`; None if nothing.

    Errors: AbwError where the file is damaged: all numbers must be in range.
    """
    path = arrays_file(folder, "growth", number)
    if not path.is_file():
        return None
    found = read_arrays(path, ("version", *(field.name for field in fields(History))))
    with damaged(path):
        return _checked(found, nodes, instances)


def _checked(found: dict[str, Array], nodes: int, instances: int) -> History:
    names = {name: require_names(name, found.pop(name)) for name in _NAMES}
    scores = ("score", "second_score")
    floats = {name: require_row(name, found.pop(name), np.float32) for name in scores}
    cut = found.pop("cut")
    if cut.dtype != np.int32 or cut.ndim != 2 or cut.shape[1] != 3:
        raise ValueError(f"'cut' must be kinds, instances and rounds, not {cut.shape} of {cut.dtype}")
    ints = {name: require_row(name, array) for name, array in found.items()}
    (version,), (rounds,) = _one("version", ints.pop("version")), _one("rounds", ints.pop("rounds"))
    if version != VERSION:
        raise ValueError(f"it has version {version}, this abw reads {VERSION}")
    if set(names["hows"]) - set(get_args(How)) or len(names["hows"]) != len(names["decisions"]):
        raise ValueError("'hows' are not kinds of decisions")
    vertices, choices = len(ints["kind"]), len(ints["decision"])
    require_range("rounds", np.array([rounds], np.int32), vertices + 1)
    kinds, words = len(names["kinds"]), len(names["words"])
    for name, low, end, length in (
        ("most", -1, 2**31, kinds),
        ("kind", 0, kinds, vertices),
        ("index", 0, vertices, vertices),
        ("instance", 0, instances, vertices),
        ("round", 0, rounds + 1, vertices),
        ("node_round", 0, rounds + 2, nodes),
        ("decision", 0, len(names["hows"]), choices),
        ("vertex", 0, vertices, choices),
        ("chosen", -1, 2**31, choices),
        ("second", -1, 2**31, choices),
        ("fate", 0, DROPPED + 1, choices),
        ("word", -1, words, choices),
        ("second_word", -1, words, choices),
    ):
        require_range(name, ints[name], end, length, low)
    for name, values in floats.items():
        if len(values) != choices:
            raise ValueError(f"'{name}' has {len(values)} numbers for {choices} choices")
    for column, end in enumerate((kinds, instances, rounds + 1)):
        require_range("cut", np.ascontiguousarray(cut[:, column]), end)
    return History(rounds=rounds, **names, **floats, cut=cut, **ints)  # type: ignore[arg-type]


def _one(name: str, array: Array) -> list[int]:
    if len(array) != 1:
        raise ValueError(f"'{name}' is not a number")
    found: list[int] = array.tolist()
    return found
