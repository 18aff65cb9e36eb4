"""The README says what is so."""

from __future__ import annotations

import re
from pathlib import Path


def test_the_model_shown_is_the_one_that_ships(root: Path) -> None:
    shown = re.search(r"```yaml\n(.*?)```", (root / "README.md").read_text(), re.DOTALL)
    assert shown
    assert (root / "specs" / "treelstm.yaml").read_text().endswith(shown[1])


def test_every_link_leads_somewhere(root: Path) -> None:
    for page in (root / "README.md", *(root / "docs").glob("*.md")):
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), (page.name, target)
