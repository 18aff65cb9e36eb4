"""Pictures as data: the content of each, without its appearance. `--json` prints exactly these."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]
# In place of a state's number: every node is executed.
END = -1


class Picture:
    """The content of a picture. `kind` is its name in JSON and selects how it is drawn."""

    __slots__ = ()
    kind: ClassVar[str]

    def __init_subclass__(cls, kind: str = "") -> None:
        # a dataclass with slots is made twice, the second time with `kind` in its namespace
        if kind:
            cls.kind = kind


# What a state says, by encoding; with phases, then which part of the graph is being executed.
ENCODINGS = {
    "base": "ready",
    "max": "ready / with the most nodes",
    "sort": "ready, most first",
    "critical": "ready / before the longest path",
}


@dataclass(frozen=True, slots=True)
class State:
    """A state of an FSM, and the type `chosen` there for the next batch.

    `ready`: the types on the frontier, in the encoding's order; `also`: what else the encoding says (see
    `ENCODINGS`).

    `q` and `visits` are what learning found, by type; empty for a policy that was not learned. `taken`: how
    often each type was taken here in the mini-batch at hand. `known` is False where learning never met it.
    """

    ready: tuple[str, ...]
    also: tuple[str, ...]
    chosen: str
    q: Mapping[str, float]
    visits: Mapping[str, int]
    taken: Mapping[str, int]
    known: bool

    @property
    def met(self) -> int:
        """How often the mini-batch comes here."""
        return sum(self.taken.values())

    @property
    def tried(self) -> int:
        """How often learning chose here."""
        return sum(self.visits.values())

    def ranked(self, most: int | None = None) -> str:
        """The types with their Q-values, the best first."""
        order = sorted(self.q.items(), key=lambda item: -item[1])
        return " > ".join(f"{name} {value:.2f}" for name, value in order[:most])


@dataclass(frozen=True, slots=True)
class Transition:
    """From state number `source` to `target` (or END) by a batch of `type`; observed `count` times."""

    source: int
    target: int
    type: str
    count: int


@dataclass(frozen=True, slots=True)
class PolicyPicture(Picture, kind="policy"):
    """A policy as an FSM over the steps of one mini-batch; `steps` (B,) is the state before each batch.

    Without a mini-batch (a policy's file alone) `steps` is empty and nothing was taken.
    """

    policy: str
    encoding: str
    types: tuple[str, ...]
    states: tuple[State, ...]
    transitions: tuple[Transition, ...]
    steps: tuple[int, ...]
    training: Mapping[str, Any] | None

    def merged(self) -> list[Transition]:
        """One transition for each pair of states: the most frequent type, the counts of all together."""
        pairs: dict[tuple[int, int], list[Transition]] = defaultdict(list)
        for t in self.transitions:
            pairs[t.source, t.target].append(t)
        return [
            Transition(a, b, max(ts, key=lambda t: t.count).type, sum(t.count for t in ts))
            for (a, b), ts in pairs.items()
        ]

    def by_frequency(self) -> list[int]:
        """The numbers of all states, those met most often first, then those tried most often."""
        return sorted(range(len(self.states)), key=lambda s: (-self.states[s].met, -self.states[s].tried, s))

    def in_words(self, drawn: str = "") -> str:
        """How many states there are, which of them are `drawn`, and what tells them apart."""
        said = f"{len(self.states):,} states, encoding {self.encoding} ({ENCODINGS[self.encoding]}){drawn}"
        # the states of a policy without training are those that its choices were observed in
        rule = "; the policy is a rule and has no states"
        return said if self.training is not None else said + rule


@dataclass(frozen=True, slots=True)
class Lane:
    """A schedule of B batches as it runs: their `type` and `width` (B,), and which steps were `free` (B,).

    A free step lowers the lower bound on what remains by one; a step that is not free is one batch more
    than the bound promised, and its type is to blame: `late` (B,) critical nodes of it come later, the last
    of them behind node `behind` (B,) (see `abw.core.tools.explain`). 0 and -1 where a step is free.
    """

    policy: str
    type: Ints
    width: Ints
    free: NDArray[np.bool_]
    late: Ints
    behind: Ints


@dataclass(frozen=True, slots=True)
class BatchesPicture(Picture, kind="batches"):
    """Schedules of one graph side by side; `lower_bound` (T,) by type."""

    types: tuple[str, ...]
    lower_bound: Ints
    lanes: tuple[Lane, ...]


@dataclass(frozen=True, slots=True)
class FrontierPicture(Picture, kind="frontier"):
    """What was ready: `ready` (B, T) nodes of each type before each batch; `lane` is what was chosen."""

    types: tuple[str, ...]
    ready: Ints
    lane: Lane


@dataclass(frozen=True, slots=True)
class GraphPicture(Picture, kind="graph"):
    """n nodes and m edges. `type`, `instance`, `vertex` (n,); `source`, `target` (m,).

    `equal` (n,): how many equal nodes each stands for, itself included. `batch` (P, n): for each of
    `policies` the number of the batch that executes the node.
    """

    types: tuple[str, ...]
    type: Ints
    instance: Ints
    vertex: Ints
    source: Ints
    target: Ints
    equal: Ints
    policies: tuple[str, ...]
    batch: Ints


@dataclass(frozen=True, slots=True)
class OperandView:
    """One operand of a cell's batch: `role` ('result', 'source 1', ...), its `variables` lane by lane."""

    role: str
    variables: tuple[str, ...]
    status: str


@dataclass(frozen=True, slots=True)
class CellBatchView:
    """A batch of one cell operation."""

    op: str
    operands: tuple[OperandView, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable in scratch memory: what it `means`, and its size in floats a node.

    `staged`: it is an input that is copied there before the first batch.
    """

    name: str
    means: str
    floats: int
    staged: bool


@dataclass(frozen=True, slots=True)
class Ordering:
    """Variables in the order they have in memory, and what that order makes of the cell's operands.

    A node of the cell then costs `copies` memory kernels a batch, which move `copied_floats` a node.
    """

    variables: tuple[Variable, ...]
    batches: tuple[CellBatchView, ...]
    copies: int
    copied_floats: int

    @property
    def in_words(self) -> str:
        """The cost of the order, in words."""
        kernels = f"{self.copies} memory kernel{'' if self.copies == 1 else 's'} a batch"
        staged = [variable.name for variable in self.variables if variable.staged]
        first = f"; {', '.join(staged)} copied in first (*)" if staged else ""
        return f"{kernels}, {self.copied_floats} floats copied a node{first}"


@dataclass(frozen=True, slots=True)
class MemoryPicture(Picture, kind="memory"):
    """A cell's memory: `before` in the order of definition, `after` in the planned one.

    `types` of the model run this cell.
    """

    cell: str
    types: tuple[str, ...]
    before: Ordering
    after: Ordering


@dataclass(frozen=True, slots=True)
class ArenaBlock:
    """Rows `first` to `first + rows` of arena number `arena`, written by batch `batch` as output `output`."""

    arena: int
    batch: int
    type: str
    output: str
    first: int
    rows: int


@dataclass(frozen=True, slots=True)
class ArenaPicture(Picture, kind="arena"):
    """A plan's arenas over time: `shape`s and `rows` of each, `head` rows of constants, blocks by batch."""

    shapes: tuple[tuple[int, ...], ...]
    rows: tuple[int, ...]
    head: tuple[int, ...]
    batches: int
    types: tuple[str, ...]
    blocks: tuple[ArenaBlock, ...]


@dataclass(frozen=True, slots=True)
class TreePicture(Picture, kind="pqtree"):
    """The PQ-tree of a cell's variables, lying as they are planned: `text` with numbers into `names`."""

    cell: str
    text: str
    names: tuple[str, ...]


# What becomes of a choice: a beam's hypothesis is kept, ends there, is the likeliest in the end, or goes on
# nowhere.
FATES = ("made", "kept", "ended", "won", "given up")


@dataclass(frozen=True, slots=True)
class ChoiceView:
    """What a decision chose at a vertex (`place`: its kind and number), in which round, and `said` in words.

    `second` is the best that was not chosen, empty where there was none. Scores are None where there are none
    or they are infinite; see `abw.core.graph.growing.history.margins.Margins` for what they are.
    """

    round: int
    instance: int
    vertex: int
    place: str
    decision: str
    chosen: str
    score: float | None
    second: str
    second_score: float | None
    fate: str
    said: str


@dataclass(frozen=True, slots=True)
class CutView:
    """Instances that had `most` of a kind and would have grown more."""

    kind: str
    most: int
    instances: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RoundsPicture(Picture, kind="rounds"):
    """How the `instances` of a mini-batch grew in R rounds.

    `growing` (R,): how many of them had not ended before each. `came` (R, K): vertices of each of `kinds`
    that came to be. `nodes` (R + 2,): computed before growth, in each round, after. `choices` are in their
    order.
    """

    kinds: tuple[str, ...]
    instances: int
    growing: Ints
    came: Ints
    nodes: Ints
    decisions: tuple[str, ...]
    choices: tuple[ChoiceView, ...]
    cut: tuple[CutView, ...]


@dataclass(frozen=True, slots=True)
class SlotView:
    """A value with its shape: one that a block gives, or one that it takes, with where that comes from."""

    name: str
    shape: tuple[int, ...]
    source: str = ""


@dataclass(frozen=True, slots=True)
class ParamView:
    """A parameter of a type's cell. `of`: whose it is, where it is another's."""

    name: str
    shape: tuple[int, ...]
    of: str = ""


Role = Literal["table", "param", "field", "type", "growth", "output"]


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a model: a table, a parameter of its own, a field of the data, a type, a kind that grows or
    decides, an output.

    `does`: the cell, the reduction, what is chosen. `per`: the vertices that it is on. `layers`: how many
    types it stands for, repeated with `repeat`; its inputs then say where each of them reads. `numbers`: how
    many numbers its parameters or rows are, of all layers together and without those of others. `notes`:
    what else there is to know of it, a line each.
    """

    role: Role
    name: str
    does: str = ""
    per: str = ""
    layers: int = 1
    inputs: tuple[SlotView, ...] = ()
    params: tuple[ParamView, ...] = ()
    outputs: tuple[SlotView, ...] = ()
    numbers: int = 0
    notes: tuple[str, ...] = ()


# Where a value is read: on the same vertex, along links from others, from the layer below.
Way = Literal["here", "links", "below"]


@dataclass(frozen=True, slots=True)
class Flow:
    """`values` of block number `source` are read by block number `target`."""

    source: int
    target: int
    values: tuple[str, ...]
    way: Way


@dataclass(frozen=True, slots=True)
class LinkView:
    """A link that the model follows: from which kinds, to which from each, and what it is made of (`how`)."""

    name: str
    reach: Mapping[str, tuple[str, ...]]
    many: bool
    how: str


@dataclass(frozen=True, slots=True)
class ModelPicture(Picture, kind="model"):
    """A model as it is written, apart from any data: its blocks, what flows between them, the links.

    `numbers`: of all its parameters and tables.
    """

    model: str
    data: str
    dims: Mapping[str, int]
    blocks: tuple[Block, ...]
    flows: tuple[Flow, ...]
    links: tuple[LinkView, ...]
    numbers: int


def as_json(value: Any) -> Any:  # noqa: ANN401 - a picture, or a part of one
    """A picture as what `json.dumps` takes: fields by name, arrays as lists, floats finite."""
    if is_dataclass(value):
        return {f.name: as_json(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: as_json(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [as_json(item) for item in value]
    return value


def listed(**arrays: NDArray[Any]) -> dict[str, list[Any]]:
    """Arrays by name as lists, for JSON."""
    return {name: array.tolist() for name, array in arrays.items()}
