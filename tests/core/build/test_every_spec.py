"""A library of every shipped spec that can be one: its answers are those of `abw run`, bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest

from abw.core.base.errors import AbwError
from tests.core.build.library import ROOT, Library, lines_of, loaded, needs_compiler, require_equal

pytestmark = [needs_compiler, pytest.mark.libraries]
SPECS = sorted(
    str(path.relative_to(ROOT / "specs").with_suffix(""))
    for folder in (ROOT / "specs", ROOT / "specs/plans")
    for path in folder.glob("*.yaml")
    if "\ndata:" in path.read_text()
)
# Why others cannot be a library.
REFUSED = r"cannot be a library: (the model grows|the data have `(frequency|beside)`|link '|field '|table ')"


@pytest.mark.parametrize("spec", SPECS)
def test_library(spec: str, tmp_path: Path) -> None:
    model = loaded(spec)
    try:
        model.build(tmp_path / "lib.so")
    except AbwError as error:
        with pytest.raises(AbwError, match=REFUSED):
            raise error from None
        return
    library, lines = Library(str(tmp_path / "lib.so")), lines_of(model, 8)
    for some in [*([line] for line in lines[:3]), *([lines] if model.spec.data.format != "lattice" else [])]:
        require_equal(library, model, some)
