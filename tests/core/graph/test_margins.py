"""What came second, where there is little to choose from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from abw.core.base.errors import Span
from abw.core.data.vertices import Columns
from abw.core.graph.growing.history import margins
from abw.core.graph.growing.history.margins import together
from abw.core.ir.growth import Decision


def test_a_sample_without_anything_allowed_has_no_second(monkeypatch: pytest.MonkeyPatch) -> None:
    shut = -np.inf
    scores = np.array([[shut, shut, shut], [shut, 1.0, shut], [0.0, 0.0, shut]])
    monkeypatch.setattr(margins, "masked", lambda _, __, at, ___: (scores[at], None))
    decision = Decision("next", "sample", 0, 0, 0.0, None, None, Span("model.yaml", 1))
    read: Any = None
    at = np.arange(3, dtype=np.int32)
    found = margins.margins(decision, Columns(3), at, read, np.array([-1, 1, 0], np.int32))
    assert found.second.tolist() == [-1, -1, 1]
    np.testing.assert_equal(found.score, [np.nan, 1.0, 0.5])
    np.testing.assert_equal(found.second_score, [np.nan, np.nan, 0.5])


def test_no_decisions_have_no_margins() -> None:
    assert len(together([]).vertex) == 0
