"""Bare lists of batches in YAML: a memory-layout problem without a cell around it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from abw.core.spec.text import fields
from abw.core.spec.text.document import Mapping, Node, Scalar, Sequence, pairs, read
from abw.core.spec.text.report import note, report, reporting, suggest

REQUIRED = ("layout", "batches")
OPTIONAL = ("size", "sizes", "inputs", "params")


@dataclass(frozen=True, slots=True)
class Subgraph:
    """Variables and the batches that read and write them.

    `floats[v]` is the size of variable v in floats a lane of the mini-batch; `inputs` come from outside,
    `params` are the same for all lanes. A batch is its result operand followed by its sources, each a
    variable for each lane; `ops[b]` says what it does, "" if that is not known.
    """

    name: str
    names: tuple[str, ...]
    floats: tuple[int, ...]
    inputs: frozenset[int]
    params: frozenset[int]
    batches: tuple[tuple[tuple[int, ...], ...], ...]
    ops: tuple[str, ...]


@reporting()
def is_subgraph(path: Path) -> bool:
    """Whether a file says that it is a list of batches. Errors: SpecError where it cannot be read at all."""
    top = fields.mapping(read(path), "a spec")
    report().check()
    return top is not None and top.get("layout") is not None


@reporting()
def load_subgraph(path: Path) -> Subgraph:
    """A checked list of batches. Errors: SpecError with all that is wrong in the file."""
    top = fields.mapping(read(path), "a list of batches")
    graph = _Reader(top).subgraph(path) if top else None
    return report().checked(graph, path, "list of batches")


class _Reader:
    """Reads one file; variables are numbered as they are met."""

    def __init__(self, top: Mapping) -> None:
        self.top = top
        self.number: dict[str, int] = {}

    def subgraph(self, path: Path) -> Subgraph:
        """What the file says; a placeholder where it is wrong."""
        top = self.top = fields.keys(self.top, "a list of batches", REQUIRED, OPTIONAL)
        name = fields.text(top.get("layout"), "the layout's name")
        batches = tuple(self._batch(node) for node in self._list(top.get("batches"), "batches"))
        if not batches and top.get("batches") is not None:
            note("there are no batches", top.where)
        usual = fields.integer(top.get("size"), "size") or 1
        floats = dict.fromkeys(self.number, usual)
        for key, value in pairs(fields.mapping(top.get("sizes"), "sizes")):
            if self._known(key):
                floats[key.text] = fields.integer(value, f"the size of '{key.text}'") or 1
        return Subgraph(
            name.text if name else path.stem,
            tuple(self.number),
            tuple(floats.values()),
            self._some("inputs"),
            self._some("params"),
            batches,
            ("",) * len(batches),
        )

    def _some(self, what: str) -> frozenset[int]:
        nodes = self._list(self.top.get(what), what)
        return frozenset(
            self.number[key.text] for key in nodes if isinstance(key, Scalar) and self._known(key)
        )

    def _known(self, key: Scalar) -> bool:
        if key.text in self.number:
            return True
        note(f"no batch has a variable '{key.text}'", key.where, suggest(key.text, self.number))
        return False

    def _list(self, node: Node | None, what: str) -> tuple[Node, ...]:
        if isinstance(node, Sequence):
            return node.items
        if node is not None:
            note(f"{what} must be a list: [a, b]", node.where)
        return ()

    def _batch(self, node: Node) -> tuple[tuple[int, ...], ...]:
        operands = [self._operand(item) for item in self._list(node, "a batch")]
        if any(len(operand) != len(operands[0]) for operand in operands):
            note("the operands of a batch must have equally many lanes", node.where)
        if isinstance(node, Sequence) and not all(operands or [()]):
            note("a batch is a list of operands: [[result, …], [source, …], …]", node.where)
        return tuple(operands)

    def _operand(self, node: Node) -> tuple[int, ...]:
        operands = []
        for item in self._list(node, "an operand"):
            text = fields.text(item, "a variable")
            if text is not None:
                operands.append(self.number.setdefault(text.text, len(self.number)))
        return tuple(operands)
