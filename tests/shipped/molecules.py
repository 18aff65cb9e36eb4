"""Writes molecules.jsonl and elements.txt to specs/data: `python tests/shipped/molecules.py`.

A molecule is its name, its atoms without hydrogens, and its bonds: `0-1` single, `0=1` double. Links: `near`
from each atom to itself and to those bound to it, `single` and `double` to those bound to it so.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

MOLECULES = """
water: O
ethanol: C C O: 0-1 1-2
acetic acid: C C O O: 0-1 1=2 1-3
acetone: C C O C: 0-1 1=2 1-3
glycine: N C C O O: 0-1 1-2 2=3 2-4
alanine: C C N C O O: 0-1 1-2 1-3 3=4 3-5
urea: N C O N: 0-1 1=2 1-3
lactic acid: C C O C O O: 0-1 1-2 1-3 3=4 3-5
ethene: C C: 0=1
butadiene: C C C C: 0=1 1-2 2=3
benzene: C C C C C C: 0=1 1-2 2=3 3-4 4=5 5-0
toluene: C C C C C C C: 0=1 1-2 2=3 3-4 4=5 5-0 0-6
phenol: C C C C C C O: 0=1 1-2 2=3 3-4 4=5 5-0 0-6
aniline: C C C C C C N: 0=1 1-2 2=3 3-4 4=5 5-0 0-6
pyridine: N C C C C C: 0=1 1-2 2=3 3-4 4=5 5-0
furan: O C C C C: 0-1 1=2 2-3 3=4 4-0
thiophene: S C C C C: 0-1 1=2 2-3 3=4 4-0
cyclohexane: C C C C C C: 0-1 1-2 2-3 3-4 4-5 5-0
chloroform: C Cl Cl Cl: 0-1 0-2 0-3
dimethyl sulfoxide: C S O C: 0-1 1=2 1-3
citric acid: C C O O C O C O O C C O O: 0-1 1=2 1-3 0-4 4-5 4-6 6=7 6-8 4-9 9-10 10=11 10-12
salicylic acid: C C C C C C O C O O: 0=1 1-2 2=3 3-4 4=5 5-0 0-6 1-7 7=8 7-9
"""


def main() -> None:
    """Write both files."""
    here = Path(__file__).parents[2] / "specs/data"
    elements: dict[str, None] = {}
    with (here / "molecules.jsonl").open("w", encoding="utf-8") as out:
        for line in MOLECULES.strip().splitlines():
            name, atoms, bonds = (f"{line}:" if line.count(":") == 1 else line).split(":")[:3]
            near = [[atom, atom] for atom in range(len(atoms.split()))]
            links: dict[str, list[list[int]]] = {"near": near, "single": [], "double": []}
            for a, kind, b in re.findall(r"(\d+)([-=])(\d+)", bonds):
                for both in ([int(a), int(b)], [int(b), int(a)]):
                    links["near"].append(both)
                    links["double" if kind == "=" else "single"].append(both)
            elements |= dict.fromkeys(atoms.split())
            vertices = [{"kind": "atom", "element": element} for element in atoms.split()]
            out.write(json.dumps({"id": name, "vertices": vertices, "links": links}) + "\n")
    (here / "elements.txt").write_text("".join(f"{element}\n" for element in elements), encoding="utf-8")


if __name__ == "__main__":
    main()
