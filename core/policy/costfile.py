"""The file of a cost: for each type what a launch and a row cost, as YAML, written by hand or measured.

`char: {launch: 2.0e-6, row: 5.0e-8, tile: 8}`, a type a line; `default:` speaks for the types not named.
`launch` and `row` are numbers of one unit, at least 0, and 0 where left out; `tile` is 1 where left out.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from abw.core.policy.cost import Cost
from abw.core.spec import document, fields
from abw.core.spec.document import Node
from abw.core.spec.report import Report, suggest

DEFAULT = "default"
KEYS = ("launch", "row", "tile")


def read_cost(path: Path, types: tuple[str, ...]) -> Cost:
    """The costs of these types. Errors: SpecError, with all that is wrong and where."""
    report = Report()
    top = document.read(path, report)
    found = fields.mapping(top, "a file of costs", report)
    named: dict[str, tuple[float, float, int]] = {}
    for key, node in found.items if found else ():
        if key.text not in (*types, DEFAULT):
            report.add(f"the model has no type '{key.text}'", key.where, suggest(key.text, (*types, DEFAULT)))
        named[key.text] = _entry(node, f"the cost of '{key.text}'", report)
    missing = [t for t in types if t not in named]
    if found and missing and DEFAULT not in named:
        report.add(f"no cost is given for {', '.join(missing)}", found.where, f"name them, or add {DEFAULT}:")
    report.check()
    entries = [named.get(t) or named[DEFAULT] for t in types]
    launch, row, tile = zip(*entries, strict=True)
    return Cost(np.array(launch, np.float64), np.array(row, np.float64), np.array(tile, np.int32))


def _entry(node: Node, what: str, report: Report) -> tuple[float, float, int]:
    found = fields.mapping(node, what, report)
    if found is None:
        return 0.0, 0.0, 1
    fields.keys(found, what, report, optional=KEYS)
    prices = []
    for name in ("launch", "row"):
        price = fields.number(found.get(name), f"{name} in {what}", report)
        if price is not None and price < 0:
            report.add(f"{name} in {what} is below 0", found.where)
        prices.append(price or 0.0)
    return prices[0], prices[1], fields.integer(found.get("tile"), f"tile in {what}", report) or 1


def cost_text(cost: Cost, types: tuple[str, ...], heading: str) -> str:
    """The file of a cost, which `read_cost` reads to four digits. `heading`: a line to stand above."""
    lines = [f"# {heading}"]
    for t, name in enumerate(types):
        tile = f", tile: {cost.tile[t]}" if cost.tile[t] > 1 else ""
        key = name if fields.NAME.fullmatch(name) else json.dumps(name, ensure_ascii=False)
        lines.append(f"{key}: {{launch: {cost.launch[t]:.3e}, row: {cost.row[t]:.3e}{tile}}}")
    return "\n".join(lines) + "\n"
