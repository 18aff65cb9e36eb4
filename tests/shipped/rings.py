"""Make `rings.jsonl`: rings of atoms in space, some with a tail, drawn from a fixed seed.

Run: `python tests/shipped/rings.py`. An atom has an element (6, 7 or 8), a position (three floats) and
mostly a charge; a bond is a vertex with its length, between the links `from` and `to`, in both directions.
"""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

RINGS = 24
DATA = Path(__file__).parents[2] / "specs/data"


def ring(draw: random.Random) -> dict[str, object]:
    """One ring: its atoms, then its bonds, then the links of these."""
    size, tail = draw.randint(3, 8), draw.randint(0, 3)
    places = []
    for n in range(size + tail):
        turn, out = 2 * math.pi * n / size, 1.4 + 1.5 * max(0, n - size + 1)
        at = (out * math.cos(turn), out * math.sin(turn), draw.gauss(0, 0.3))
        places.append([round(x, 3) for x in at])
    atoms: list[dict[str, object]] = []
    for place in places:
        atom: dict[str, object] = {"kind": "atom", "element": draw.choice([6, 6, 6, 7, 8]), "position": place}
        atoms.append(atom | ({"charge": round(draw.gauss(0, 0.4), 3)} if draw.random() < 0.8 else {}))
    pairs = [(n, (n + 1) % size) for n in range(size)] + [(n - 1, n) for n in range(size, size + tail)]
    both = [*pairs, *((b, a) for a, b in pairs)]
    bonds = [{"kind": "bond", "length": round(math.dist(places[a], places[b]), 3)} for a, b in both]
    first = len(atoms)
    ends = {
        "from": [[first + n, a] for n, (a, _) in enumerate(both)],
        "to": [[first + n, b] for n, (_, b) in enumerate(both)],
    }
    return {"vertices": [*atoms, *bonds], "links": ends}


if __name__ == "__main__":
    draw = random.Random(1)
    lines = [json.dumps({"id": f"r{n}", **ring(draw)}) for n in range(RINGS)]
    (DATA / "rings.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
