"""The checker of layouts finds every kind of lie."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from abw.pqtree import Layout, Status, plan_layout
from tests.pqtree.verify import LayoutError, verify_layout

SIZES = [8] * 12
BATCHES = [
    [[0, 1, 2]],
    [[4, 5, 6], [8, 8, 8]],
    [[9, 10, 11], [0, 3, 3]],
]


def sound() -> Layout:
    layout = plan_layout(SIZES, BATCHES)
    verify_layout(layout, SIZES, BATCHES)
    return layout


def with_operand(layout: Layout, b: int, k: int, **changes: Any) -> Layout:  # noqa: ANN401
    operands = [list(batch) for batch in layout.operands]
    operands[b][k] = replace(operands[b][k], **changes)
    return replace(layout, operands=tuple(map(tuple, operands)))


def expect(layout: Layout, fault: str) -> None:
    with pytest.raises(LayoutError, match=fault) as caught:
        verify_layout(layout, SIZES, BATCHES)
    assert caught.value.faults


def test_places() -> None:
    layout = sound()
    swapped = list(layout.offsets)
    first, second = layout.order[:2]
    swapped[first], swapped[second] = swapped[second], swapped[first]
    expect(replace(layout, offsets=tuple(swapped)), "overlaps")
    expect(replace(layout, offsets=(0,) * len(swapped)), "overlaps")
    expect(replace(layout, order=layout.order[1:]), "each variable once")
    expect(replace(layout, offsets=layout.offsets[1:]), "not those of the variables")
    more = replace(layout, order=(*layout.order, 12), offsets=(*layout.offsets, 96))
    expect(more, "not those of the variables")


def test_lanes_and_operands() -> None:
    layout = sound()
    expect(replace(layout, lanes=((0, 0, 1), *layout.lanes[1:])), "each lane once")
    turned = layout.lanes[0][1:] + layout.lanes[0][:1]
    expect(replace(layout, lanes=(turned, *layout.lanes[1:])), "does not have lane")
    expect(with_operand(layout, 0, 0, variables=(1, 0, 2)), "is another")
    expect(replace(layout, operands=layout.operands[:2]), "not those of the batches")


def test_statuses() -> None:
    layout = sound()
    expect(with_operand(layout, 0, 0, offset=layout.operands[0][0].offset + 8), "where it says")
    expect(with_operand(layout, 0, 0, stride=16), "with a gap")
    expect(with_operand(layout, 0, 0, stride=0, status=Status.STRIDED), "at one place")
    expect(with_operand(layout, 0, 0, packed=8), "is not copied")
    expect(with_operand(layout, 0, 0, status=Status.BROADCAST), "not one variable")
    expect(with_operand(layout, 1, 1, offset=layout.operands[1][1].offset + 8), "not one variable")
    expect(with_operand(layout, 1, 1, status=Status.CONTIGUOUS, stride=8), "where it says")


def test_costs() -> None:
    layout = sound()
    key = next(o.key for batch in layout.operands for o in batch if o.moved)
    expect(with_operand(layout, *key, moved=0), "not counted")
    expect(with_operand(layout, 0, 0, moved=24), "is not copied")
    key = next(o.key for batch in layout.operands for o in batch if o.status is Status.COPIED)
    expect(with_operand(layout, *key, reason=""), "without a reason")
    expect(with_operand(layout, *key, moved=1), "not counted")
    with pytest.raises(LayoutError, match="not counted"):
        verify_layout(layout, SIZES, BATCHES, constant=[0])


def test_arenas_and_sizes() -> None:
    layout = plan_layout([8, 8], [[[0, 1]]])
    with pytest.raises(LayoutError, match="mixes arenas"):
        verify_layout(layout, [8, 8], [[[0, 1]]], arenas=["a", "b"])
    with pytest.raises(LayoutError, match="one size"):
        verify_layout(layout, [8, 4], [[[0, 1]]])
