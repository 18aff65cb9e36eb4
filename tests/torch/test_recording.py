"""Regions are recorded in machine code as by Python; what it does not take is left to Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("greenlet", reason="models that decide need greenlet: pip install greenlet")

from abw.torch import batch  # noqa: E402
from abw.torch.recording import assembler, writer  # noqa: E402
from abw.torch.recording.standins import Concat, Stack  # noqa: E402
from tests.torch.grammar import drawn  # noqa: E402
from tests.torch.models import FIVE, assert_alike, five, gradients, tensors  # noqa: E402

D = 4


def _recorded(model: Any, columns: Any) -> tuple[int, list[Any], dict[str, Any]]:
    """How many nodes there are, all outputs and gradients."""
    fast = batch(model)
    for _ in range(2):  # the first mini-batch is recorded several times
        outputs = fast(*columns)
    return fast.nodes, tensors(outputs), gradients(model, outputs)


@pytest.mark.parametrize("name", [*FIVE, 11, 12])
def test_machine_code_records_what_python_records(name: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if isinstance(name, int):
        model, trees, _ = drawn(name)
        columns: Any = (trees,)
    else:
        model, columns = five(name)
    nodes, outputs, learnt = _recorded(model, columns)
    monkeypatch.setattr(writer, "assembled", lambda *_: None)
    wanted, values, theirs = _recorded(model, columns)
    assert nodes == wanted
    assert all(torch.equal(a, b) for a, b in zip(outputs, values, strict=True))
    assert all(torch.equal(learnt[n], theirs[n]) for n in theirs)


class Pooled(torch.nn.Module):  # type: ignore[name-defined]
    """Rows and sums of lists, rows of a table, a concatenation, a cell that is an argument."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.one, self.two = (
            torch.nn.Embedding(5, D),
            torch.nn.Linear(D, D),
            torch.nn.Linear(D, D),
        )
        self.cell, self.out = torch.nn.LSTMCell(2 * D, D), torch.nn.Linear(D, 1)

    def pooled(self, a: Any, b: Any) -> Any:
        both = torch.tanh(self.one(torch.stack(a))) * torch.stack(b)
        return both.sum(0), torch.stack(a)

    def run(self, cell: Any, x: Any, n: int) -> Any:
        state = torch.zeros(D), torch.zeros(D)
        for _ in range(n):
            state = cell(x, state)
        return state[0]

    def forward(self, left: Any, right: Any) -> Any:
        a = [self.words(torch.tensor(i)) for i in left]
        b = [self.words(torch.tensor(i)) for i in right]
        total, rows = self.pooled(a, b)
        x = torch.cat([total, self.two(total)])
        return self.out(self.run(self.cell, x, len(left))), rows


@settings(max_examples=12, deadline=None)
@given(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=5), min_size=1, max_size=4))
def test_lists_of_all_lengths_are_recorded(items: list[list[int]]) -> None:
    model, others = Pooled(), [one[::-1] for one in items]
    theirs = [model(*both) for both in zip(items, others, strict=True)]
    assert_alike(theirs, batch(model)(items, others))


@pytest.mark.parametrize(
    ("left", "right", "error"),
    [
        ([1, 2, 3], [3, 4], RuntimeError),
        ([], [], RuntimeError),
        ([1, 5], [1, 1], IndexError),
        ([-1], [1], IndexError),
    ],
)
def test_what_machine_code_does_not_take_fails_as_in_pytorch(left: Any, right: Any, error: type) -> None:
    model = Pooled()
    fast = batch(model)
    fast([[1, 2]], [[3, 4]])
    fast([[1, 2], [3]], [[3, 4], [1]])
    with pytest.raises(error) as found:
        fast([[1, 2], left], [[3, 4], right])
    assert "in instance 1" in found.value.__notes__
    kinds = [[np.int64(1), 2]], [[3, np.int32(4)]]
    assert_alike([model([1, 2], [3, 4])], fast(*kinds))


class Long(torch.nn.Module):  # type: ignore[name-defined]
    """More calls than a tape has room for at first; what stands for a module keeps what is assigned."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = torch.nn.GRUCell(D, D)

    def forward(self, n: int) -> Any:
        h = torch.zeros([1, D])
        x = torch.zeros(1, D)
        self.cell.steps = n
        for _ in range(self.cell.steps):
            h = self.apply_to(self.cell, x, h)
        return h

    def apply_to(self, cell: Callable[..., Any], x: Any, h: Any) -> Any:
        return cell(x, h)


def test_a_tape_grows_and_stand_ins_keep_what_is_assigned() -> None:
    model = Long()
    fast = batch(model)
    with torch.no_grad():
        for counts in ([2], [3000, 7], [1]):
            assert_alike([model(n) for n in counts], fast(counts), 1e-5)
    with pytest.raises(AttributeError, match="nothing"):
        assert fast._rewriter.module(model.cell).nothing
    assert fast._rewriter.module(model.cell).hidden_size == D


def test_fields_are_found_where_they_lie() -> None:
    assert assembler.fields_of(Stack) == ("_class", "cells", "k", "rows", "shape_")
    assert assembler.fields_of(Concat) == ("_value", "cells", "ends", "parts")
