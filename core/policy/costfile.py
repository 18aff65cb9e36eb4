"""The file of a cost: for each type what a launch and a row cost, as YAML, written by hand or measured.

`char: {launch: 2.0e-6, row: 5.0e-8, tile: 8}`, a type a line; `default:` speaks for the types not named.
`launch` and `row` are numbers of one unit, at least 0, and 0 where left out; `tile` is 1 where left out.
`$version: 1` may say which version of this the file is written in.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from abw.core.policy.cost import Cost
from abw.core.spec.text import document, fields
from abw.core.spec.text.document import Node, Scalar
from abw.core.spec.text.report import note, report, reporting, suggest

DEFAULT = "default"
KEYS = ("launch", "row", "tile")
VERSION_KEY, VERSION = "$version", 1
# The smallest price but 0 and the largest, so that no sum or ratio of them is infinite; the largest tile.
LEAST, MOST, MOST_TILE = 1e-100, 1e100, 1 << 20


@reporting()
def read_cost(path: Path, types: tuple[str, ...]) -> Cost:
    """The costs of these types. Errors: SpecError, with all that is wrong and where."""
    top = document.read(path)
    given = fields.mapping(top, "a file of costs")
    named: dict[str, tuple[float, float, int]] = {}
    for key, node in given.items if given else ():
        if key.text == VERSION_KEY:
            if not isinstance(node, Scalar) or fields.plain_integer(node) != VERSION:
                message = f"costs of another version: this abw reads version {VERSION}"
                note(message, node.where, "measure them anew: `abw calibrate SPEC -o FILE`")
            continue
        if key.text not in (*types, DEFAULT):
            note(f"the model has no type '{key.text}'", key.where, suggest(key.text, (*types, DEFAULT)))
        named[key.text] = _entry(node, f"the cost of '{key.text}'")
    missing = [t for t in types if t not in named]
    if given and missing and DEFAULT not in named:
        note(f"no cost is given for {', '.join(missing)}", given.where, f"name them, or add {DEFAULT}:")
    report().check()
    entries = [named.get(t) or named[DEFAULT] for t in types]
    launch, row, tile = zip(*entries, strict=True)
    return Cost(np.array(launch, np.float64), np.array(row, np.float64), np.array(tile, np.int32))


def _entry(node: Node, what: str) -> tuple[float, float, int]:
    given = fields.mapping(node, what)
    if given is None:
        return 0.0, 0.0, 1
    fields.keys(given, what, optional=KEYS)
    prices = []
    for name in ("launch", "row"):
        price = fields.number(given.get(name), f"{name} in {what}")
        if price and not LEAST <= price <= MOST:
            wrong = "below 0" if price < 0 else f"neither 0 nor from {LEAST:g} to {MOST:g}"
            note(f"{name} in {what} is {wrong}", given.where)
        prices.append(price or 0.0)
    tile = fields.integer(given.get("tile"), f"tile in {what}") or 1
    if tile > MOST_TILE:
        note(f"tile in {what} is above {MOST_TILE:,}", given.where)
    return prices[0], prices[1], tile


def cost_text(cost: Cost, types: tuple[str, ...], heading: str) -> str:
    """The file of a cost, which `read_cost` reads to four digits. `heading`: a line to stand above."""
    lines = [f"# {heading}", f"{VERSION_KEY}: {VERSION}"]
    for t, name in enumerate(types):
        tile = f", tile: {cost.tile[t]}" if cost.tile[t] > 1 else ""
        key = name if fields.NAME.fullmatch(name) else json.dumps(name, ensure_ascii=False)
        lines.append(f"{key}: {{launch: {cost.launch[t]:.3e}, row: {cost.row[t]:.3e}{tile}}}")
    return "\n".join(lines) + "\n"
