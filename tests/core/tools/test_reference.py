"""docs/reference.md is made from the program's own tables, and up to date."""

from __future__ import annotations

from pathlib import Path

from abw.core.exec.registry import EXECUTORS
from abw.core.policy.learned.states import ENCODINGS
from abw.core.policy.registry import POLICIES
from abw.core.policy.registry import SUMMARIES as POLICY_SUMMARIES
from abw.core.run.learning import SUMMARIES as ENCODING_SUMMARIES
from abw.core.spec.keys.model import model_schema
from tests.pages.reference import reference


def test_the_page_is_what_the_program_says(root: Path) -> None:
    page = (root / "docs" / "reference.md").read_text()
    assert page == reference().rstrip() + "\n", "mend it: python -m tests.pages.reference > docs/reference.md"


def test_everything_that_has_a_name_has_a_summary() -> None:
    assert set(POLICY_SUMMARIES) == set(POLICIES)
    assert all(entry.summary for entry in EXECUTORS.values())
    assert set(ENCODING_SUMMARIES) == {"best", *ENCODINGS}


def test_every_key_of_a_spec_is_a_row(root: Path) -> None:
    page = reference()
    found = list(_keys(model_schema()))
    assert len(found) > 30
    assert [key for key in found if f"`{key}`" not in page] == []


def _keys(schema: object) -> set[str]:
    """The names of all keys anywhere in a JSON Schema."""
    if isinstance(schema, list):
        return set().union(*map(_keys, schema))
    if not isinstance(schema, dict):
        return set()
    own = set(schema["properties"]) if isinstance(schema.get("properties"), dict) else set()
    return own.union(*map(_keys, schema.values()))
