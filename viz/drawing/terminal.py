"""Pictures for the terminal, as rich renderables."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from math import log1p
from typing import Any

import numpy as np
from rich.console import Console as RichConsole
from rich.console import ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from abw.core.base.console import Console, drawing_width
from abw.viz.data.pictures import (
    ENCODINGS,
    END,
    NO_STATES,
    ArenaPicture,
    BatchesPicture,
    FrontierPicture,
    GraphPicture,
    Lane,
    MemoryPicture,
    ModelPicture,
    Ordering,
    PolicyPicture,
    RoundsPicture,
    TreePicture,
    merged,
)
from abw.viz.drawing.model_rows import beside, facts, head, link_row, rows
from abw.viz.drawing.palette import colour, ink, marks
from abw.viz.drawing.rounds_text import rounds_text
from abw.viz.drawing.svg_model import block_layers, paints

BARS = "▁▂▃▄▅▆▇█"
# The most states, symbols of a state, lines of steps, and nodes that a terminal is given.
STATES, SYMBOLS, STRIPS, NODES = 24, 5, 3, 60


def _table(*columns: str) -> Table:
    return Table(*columns, box=None, pad_edge=False)


def _type(types: Sequence[str], t: int) -> Text:
    return Text(types[t], style=f"bold {colour(t)}")


def _set(names: Sequence[str], types: Sequence[str]) -> Text:
    shown = Text(", ").join(_type(types, types.index(name)) for name in names[:SYMBOLS])
    return shown.append(f", … {len(names) - SYMBOLS} more" if len(names) > SYMBOLS else "", style="dim")


def policy_text(picture: PolicyPicture) -> RenderableType:
    """The FSM as a table: the states by how often they were met, what is chosen there, where it leads."""
    number = sorted(
        range(len(picture.states)),
        key=lambda s: (-sum(picture.states[s].taken.values()), -sum(picture.states[s].visits.values()), s),
    )
    learned = picture.training is not None
    table = _table("state", "ready", "next batch", "here")
    table.columns[3].justify = "right"
    if learned:
        table.add_column("tried", justify="right")
        table.add_column("Q")
    table.add_column("leads to")
    for s in number[:STATES]:
        state = picture.states[s]
        moves = [t for t in merged(picture) if t.source == s]
        moves.sort(key=lambda t: (-t.count, t.target))
        leads = ", ".join(
            ("end" if t.target == END else f"s{t.target}") + (f" ×{t.count}" if t.count > 1 else "")
            for t in moves[:6]
        ) + (", …" if len(moves) > 6 else "")
        ranked = sorted(state.q.items(), key=lambda item: -item[1])
        q = " > ".join(f"{name} {value:.2f}" for name, value in ranked)
        chosen = _set([*state.taken] or [state.chosen], picture.types)
        row = [
            Text(f"s{s}" + ("" if state.known else " (unseen)")),
            _set(state.ready, picture.types).append("".join(f" / {more}" for more in state.also)),
            chosen,
            Text(str(sum(state.taken.values()) or "–")),
        ]
        table.add_row(*row, *([str(sum(state.visits.values())), q] if learned else []), leads)
    said = f"{len(picture.states)} states, encoding {picture.encoding} ({ENCODINGS[picture.encoding]})"
    if not learned:
        said += f"; {NO_STATES}"
    rest = len(number) - STATES
    more = [Text(f"… and {rest} states more: --json or --html has all", style="dim")] if rest > 0 else []
    head = Text.assemble(("policy ", "dim"), (picture.policy, "bold"), (f"  {said}", "dim"))
    return Group(head, table, *more)


def batches_text(picture: BatchesPicture) -> RenderableType:
    """Which type costs how many batches under which policy, then the schedules as lanes."""
    table = _table("type", "mark", "lower bound", *(lane.policy for lane in picture.lanes))
    for column in table.columns[2:]:
        column.justify = "right"
    letters = marks(picture.types)
    for t in range(len(picture.types)):
        bound = int(picture.lower_bound[t])
        counts = [int((lane.type == t).sum()) for lane in picture.lanes]
        cells = [Text(str(c), style="bold red" if c > bound else "") for c in counts]
        table.add_row(_type(picture.types, t), letters[t], str(bound), *cells)
    total = int(picture.lower_bound.sum())
    table.add_row("all", "", str(total), *(Text(str(len(lane.type)), style="bold") for lane in picture.lanes))
    lanes = [_Strip(lane, letters) for lane in picture.lanes]
    note = Text(
        "a column is a batch: its size (log scale), its type; ! one more than the lower bound", style="dim"
    )
    return Group(table, Text(), *lanes, note)


class _Strip:
    """A lane as text: bars for widths (log scale), a mark for the type, `!` under what was not free."""

    def __init__(self, lane: Lane, letters: Sequence[str]) -> None:
        self.lane, self.letters = lane, letters

    def __rich_console__(self, console: RichConsole, options: ConsoleOptions) -> RenderResult:
        lane = self.lane
        yield Text.assemble(
            (lane.policy, "bold"), f"  {len(lane.type)} batch{'es' if len(lane.type) != 1 else ''}"
        )
        room = max(20, drawing_width(options) - 2)
        highest = max(1, int(lane.width.max(initial=1)))
        for first in range(0, min(len(lane.type), STRIPS * room), room):
            part = slice(first, first + room)
            bars, letters, flags = Text("  "), Text("  "), Text("  ")
            for t, width, free in zip(lane.type[part], lane.width[part], lane.free[part], strict=True):
                shown = colour(int(t))
                bars.append(_bar(int(width), highest), style=shown)
                letters.append(self.letters[t], style=f"{ink(shown)} on {shown}")
                flags.append(" " if free else "!", style="bold red")
            yield bars
            yield letters
            if not lane.free[part].all():
                yield flags
        if len(lane.type) > STRIPS * room:
            yield Text(
                f"  … and {len(lane.type) - STRIPS * room} batches more: --html shows all", style="dim"
            )


def _bar(value: int, highest: int) -> str:
    """A character that grows with the logarithm of a number, so that 1 and 2,000 fit; a blank for none."""
    return BARS[min(len(BARS) - 1, int(len(BARS) * log1p(value) / log1p(highest + 1)))] if value else " "


def frontier_text(picture: FrontierPicture) -> RenderableType:
    """How many nodes of each type were ready before each step; the chosen type is set off."""
    return Group(
        Text.assemble(("frontier under ", "dim"), (picture.lane.policy, "bold")),
        _Frontier(picture),
        Text(
            "a column is a step: bars are ready nodes (log scale), the type set off was executed; "
            "+ marks a free step, ! one that was not",
            style="dim",
        ),
    )


class _Frontier:
    def __init__(self, picture: FrontierPicture) -> None:
        self.picture = picture

    def __rich_console__(self, console: RichConsole, options: ConsoleOptions) -> RenderResult:
        picture, lane = self.picture, self.picture.lane
        label = max([len(name) for name in picture.types] + [4]) + 2
        most = picture.ready.max(axis=0, initial=0)
        room = max(20, drawing_width(options) - label - 8)
        for first in range(0, min(len(lane.type), STRIPS * room), room):
            last = min(first + room, len(lane.type))
            for t, name in enumerate(picture.types):
                line = Text(name.ljust(label), style=f"bold {colour(t)}")
                shown = colour(t)
                for b in range(first, last):
                    bar = _bar(int(picture.ready[b, t]), int(most[t]))
                    line.append(bar, style=f"{ink(shown)} on {shown}" if lane.type[b] == t else shown)
                line.append(f" {most[t]} max"[:8], style="dim") if not first else None
                yield line
            yield Text("step".ljust(label) + "".join("+" if free else "!" for free in lane.free[first:last]))
        if len(lane.type) > STRIPS * room:
            yield Text(f"… and {len(lane.type) - STRIPS * room} steps more: --html shows all", style="dim")


def graph_text(picture: GraphPicture) -> RenderableType:
    """Small graphs node by node: type, batch under each policy, and the nodes it reads."""
    head = Text(
        f"{len(picture.type)} nodes, {len(picture.source)} edges, "
        f"{int(picture.instance.max(initial=-1)) + 1} instances",
        style="dim",
    )
    table = _table("node", "type", "instance", *(f"batch ({p})" for p in picture.policies), "reads")
    for column in table.columns[2:-1]:
        column.justify = "right"
    for v in range(min(len(picture.type), NODES)):
        reads = np.sort(picture.source[picture.target == v]).tolist()
        table.add_row(
            str(v),
            _type(picture.types, int(picture.type[v])),
            str(picture.instance[v]),
            *(str(batch + 1) for batch in picture.batch[:, v]),
            " ".join(map(str, reads[:12])) + (" …" if len(reads) > 12 else ""),
        )
    rest = len(picture.type) - NODES
    more = (
        [Text(f"… and {rest} nodes more: --svg draws, --html lets you walk through", style="dim")]
        if rest > 0
        else []
    )
    return Group(head, table, *more)


def memory_text(picture: MemoryPicture) -> RenderableType:
    """A cell's variables in order, before and after, and what that makes of every operand."""
    used = f" ({', '.join(picture.types)})" if picture.types else ""
    head = Text.assemble(("cell ", "dim"), (picture.cell, "bold"), used)
    return Group(head, *_ordering("declared", picture.before), *_ordering("planned", picture.after))


STATUS_STYLE = {"copied": "bold red", "contiguous": "green"}


def _ordering(name: str, ordering: Ordering) -> list[RenderableType]:
    order = Text("  ")
    for variable in ordering.variables:
        order.append(variable.name + ("* " if variable.staged else " "))
    table = _table("  batch", "operand", "status", "variables, lane by lane")
    for b, batch in enumerate(ordering.batches, 1):
        if len(batch.operands[0].variables) == 1:
            continue  # an operation alone: nothing can go wrong
        for operand in batch.operands:
            table.add_row(
                f"  {b} {batch.op}" if operand is batch.operands[0] else "",
                operand.role,
                Text(operand.status, style=STATUS_STYLE.get(operand.status, "")),
                " ".join(operand.variables),
            )
    return [
        Text.assemble((f"{name} order", "bold"), f"  {ordering.in_words}"),
        order,
        *([table] if table.row_count else []),
    ]


def arena_text(picture: ArenaPicture) -> RenderableType:
    """A plan's arenas: their rows, and how they fill over the batches."""
    table = _table("arena", "shape of a row", "constants", "rows", "MB", "written by", "filling over time")
    for column in table.columns[2:5]:
        column.justify = "right"
    for a, shape in enumerate(picture.shapes):
        blocks = [b for b in picture.blocks if b.arena == a]
        floats = int(np.prod(shape)) if shape else 1
        table.add_row(
            str(a),
            "×".join(map(str, shape)) or "1",
            str(picture.head[a]),
            str(picture.rows[a]),
            f"{picture.rows[a] * floats * 4 / 1e6:.2f}",
            ", ".join(dict.fromkeys(f"{b.type}.{b.output}" for b in blocks)) or "–",
            _filling(picture, a),
        )
    return Group(Text("arenas", style="dim"), table)


def _filling(picture: ArenaPicture, arena: int, columns: int = 14) -> str:
    """How full an arena is at equal distances in time."""
    filled = np.zeros(picture.batches + 1, np.int64)
    filled[0] = picture.head[arena]
    for block in picture.blocks:
        if block.arena == arena:
            filled[block.batch + 1] += block.rows
    filled = np.cumsum(filled)
    at = np.linspace(0, picture.batches, min(columns, picture.batches + 1)).round().astype(int)
    rows = max(1, picture.rows[arena])
    return "".join(" " if not now else BARS[-(-now * len(BARS) // rows) - 1] for now in filled[at].tolist())


def tree_text(picture: TreePicture) -> RenderableType:
    """A PQ-tree in brackets: round where children may be in any order, square where only reversed."""
    words = picture.text.replace("(", " ( ").replace(")", " ) ").replace("[", " [ ").replace("]", " ] ")
    named = [picture.names[int(word)] if word.isdigit() else word for word in words.split()]
    text = " ".join(named).replace("( ", "(").replace(" )", ")").replace("[ ", "[").replace(" ]", "]")
    return Group(Text.assemble(("PQ-tree of cell ", "dim"), (picture.cell, "bold")), Text("  " + text))


def model_text(picture: ModelPicture) -> RenderableType:
    """A model block by block in the order of the flow, then the links it follows."""
    paint, layer = paints(picture), block_layers(picture)
    parts: list[RenderableType] = [Text.assemble(("model ", "dim"), (picture.model, "bold"))]
    parts.append(Text(facts(picture), style="dim"))
    for b in np.argsort(layer, kind="stable").tolist():
        block = picture.blocks[b]
        style = f"bold {colour(paint[b])}" if block.role == "type" else "bold"
        parts.append(Text.assemble((head(block), style), (f"  {beside(block)}", "dim")))
        for row in rows(block):
            indent = "      " if row.part == "input" and not row.name else "  "
            parts.append(Text(f"{indent}{row}", style="dim" if row.part == "inside" else ""))
    table = _table("link", "from → to", "")
    for link in picture.links:
        table.add_row(*link_row(link))
    if picture.links:
        parts += [Text(), table]
    return Group(*parts)


_TEXTS: dict[type[Any], Callable[[Any], RenderableType]] = {
    PolicyPicture: policy_text,
    BatchesPicture: batches_text,
    FrontierPicture: frontier_text,
    RoundsPicture: rounds_text,
    GraphPicture: graph_text,
    MemoryPicture: memory_text,
    ArenaPicture: arena_text,
    TreePicture: tree_text,
    ModelPicture: model_text,
}


def as_text(picture: object) -> RenderableType:
    """Any picture for the terminal. Raises KeyError for what is none."""
    return _TEXTS[type(picture)](picture)


def show(title: str, pictures: Sequence[object], console: Console | None = None) -> None:
    """Print pictures under a title, to standard output unless told otherwise."""
    console = console or Console()
    console.print(title, style="bold")
    for picture in pictures:
        console.print()
        console.print(as_text(picture))


def plain(title: str, pictures: Sequence[object], width: int = 120) -> str:
    """What `show` prints to a terminal of this width, without colours."""
    out = io.StringIO()
    show(title, pictures, Console(file=out, width=width, color_system=None))
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())
