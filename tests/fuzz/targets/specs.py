"""Specs with the cells, vocabularies and data that they name; cells by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from abw.core.run.workload import open_model, open_networks
from abw.core.spec.library import load_library
from abw.core.spec.load import Overrides, is_cell
from abw.core.tools.inspect import inspect, inspect_cell
from tests.core.spec.writing import LATTICE, LINEAR, LSTM
from tests.fuzz.target import ROOT, put, shipped, target

KEYS = (
    *(
        b"model: m",
        b"cell: c",
        b"dims:",
        b"data:",
        b"types:",
        b"outputs:",
        b"tables:",
        b"params:",
        b"weights:",
    ),
    *(
        b"per: position",
        b"sum:",
        b" or ",
        b"zeros",
        b"*a",
        b"&a ",
        b"- ",
        b"!!python/object:os.system",
        b"<<:",
    ),
    *(b"{", b"}", b"[", b"]", b"@", b"+", b"concat(", b"softmax(", b"transpose(", b"x[0:1]", b"1e309", b": "),
)
SHIPPED = ("fig1", "treelstm-2type", "mvrnn", "dag", "torch-lstm", "greedy", "beam", "sst")


def _corpus() -> list[Mapping[str, bytes]]:
    lattice = {
        "model.yaml": LATTICE,
        "lstm.yaml": LSTM,
        "linear.yaml": LINEAR,
        "d.txt": "1\n2\n0 0\n0\n1 0 5\n",
    }
    return [{name: text.encode() for name, text in lattice.items()}, *map(_shipped, SHIPPED)]


def _shipped(name: str) -> dict[str, bytes]:
    specs = ROOT / "specs"
    files = open_model(specs / f"{name}.yaml", Overrides()).files
    data = open_model(specs / f"{name}.yaml", Overrides()).data.path
    found = {str(path.relative_to(specs)): path.read_bytes() for path in files}
    found["model.yaml"] = found.pop(f"{name}.yaml")
    text = data.read_bytes()
    lines = text.split(b"\n")
    few = text if len(text) < 2000 or lines[0].isdigit() else b"\n".join(lines[:4]) + b"\n"
    found[str(data.relative_to(specs))] = few
    return found


@target("specs", _corpus, words=KEYS)
def spec(case: Mapping[str, bytes], folder: Path) -> None:
    put(folder, case)
    path = folder / "model.yaml"
    if len(case["model.yaml"]) % 2:
        model = open_model(path, Overrides(hoist=True))
        if model.growth:
            open_networks(model, "cell", "paper")
        else:
            open_networks(model, "op", "paper", fuse=True, group=True)
    else:
        inspect(path, Overrides(), "cell")


PROGRAMS = sorted((ROOT / "specs/programs").glob("*.yaml"))


def _libraries() -> list[Mapping[str, bytes]]:
    """Libraries that programs call, each with the cells that are shipped."""
    cells = {f"cells/{path.name}": path.read_bytes() for path in (ROOT / "specs/cells").glob("*.yaml")}
    return [{**cells, "programs/library.yaml": path.read_bytes()} for path in PROGRAMS]


@target("libraries", _libraries, share=0.3, words=(*KEYS, b"library: l", b"cell: ../cells/lstm.yaml"))
def library(case: Mapping[str, bytes], folder: Path) -> None:
    put(folder, case)
    load_library(folder / "programs" / "library.yaml", Overrides(allow_outside=True))


CELLS = [f"cells/{path.name}" for path in sorted((ROOT / "specs/cells").glob("*.yaml"))]


@target("cells", shipped(*CELLS, most=10_000), words=KEYS)
def cell(case: bytes, folder: Path) -> None:
    path = folder / "cell.yaml"
    path.write_bytes(case)
    is_cell(path)
    inspect_cell(path, {})
