"""Molecules of RDKit's package: 4,991 of the NCI's, as atoms and bonds."""

from __future__ import annotations

import json
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path


def there() -> bool:
    """Whether RDKit is installed, with the molecules that it ships."""
    return (file := _file()) is not None and file.is_file()


def _file() -> Path | None:
    found = find_spec("rdkit")
    if found is None or found.origin is None:
        return None
    return Path(found.origin).parent / "Data/NCI/first_5K.smi"


def write_molecules(folder: Path, count: int) -> tuple[Path, Path]:
    """Write so many molecules in the format of `specs/gat.yaml`; returns the file, and that of the elements.

    Raises FileNotFoundError unless they are `there`.
    """
    if not there():
        raise FileNotFoundError("rdkit is not installed, or has no Data/NCI/first_5K.smi")
    chem = import_module("rdkit.Chem")
    import_module("rdkit.RDLogger").DisableLog("rdApp.*")
    file = _file()
    assert file is not None
    lines: list[str] = []
    elements: dict[str, None] = {}
    for line in file.read_text().splitlines():
        molecule = chem.MolFromSmiles(line.split()[0])
        if molecule is None or not molecule.GetNumAtoms():
            continue
        atoms = [{"kind": "atom", "element": atom.GetSymbol()} for atom in molecule.GetAtoms()]
        elements.update(dict.fromkeys(atom["element"] for atom in atoms))
        near = [[a, a] for a in range(len(atoms))]
        single: list[list[int]] = []
        double: list[list[int]] = []
        for bond in molecule.GetBonds():
            a, b = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
            near += [[a, b], [b, a]]
            (single if bond.GetBondTypeAsDouble() == 1 else double).extend(([a, b], [b, a]))
        links = {"near": near, "single": single, "double": double}
        lines.append(json.dumps({"id": f"molecule-{len(lines)}", "vertices": atoms, "links": links}) + "\n")
        if len(lines) == count:
            break
    data, names = folder / "molecules.jsonl", folder / "elements.txt"
    data.write_text("".join(lines), encoding="utf-8")
    names.write_text("\n".join(elements) + "\n", encoding="utf-8")
    return data, names
