"""The README says what is so."""

from __future__ import annotations

import re
from pathlib import Path


def test_the_model_shown_is_the_one_that_ships(root: Path) -> None:
    shown = re.search(r"```yaml\n(.*?)```", (root / "README.md").read_text(), re.DOTALL)
    assert shown
    assert (root / "specs" / "treelstm.yaml").read_text().endswith(shown[1])
