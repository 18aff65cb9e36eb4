"""What is written in place: where others see it, they do, or the model is refused with the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from abw.core.base.errors import AbwError  # noqa: E402
from abw.torch import batch  # noqa: E402

ROWS = 3


class Model(torch.nn.Module):  # type: ignore[name-defined]
    """What the cases are methods of."""

    def __init__(self) -> None:
        super().__init__()
        self.l = torch.nn.Linear(4, 4)


def bumped(v: Any) -> None:
    v.add_(1)


def alias(self: Any, x: Any) -> Any:
    a = self.l(x)
    b = a
    b += 1
    return a * 1


def rows_by_number(self: Any, x: Any) -> Any:
    h = torch.zeros(ROWS, 4)
    for i in range(ROWS):
        h[i] = self.l(x) if i == 0 else self.l(h[i - 1])
    return h.sum(0)


def rows_twice(self: Any, x: Any) -> Any:
    h = torch.zeros(ROWS, 4)
    for i in range(ROWS):
        h[i] = h[i] + self.l(x)
        h[i] += 1
    return h.sum(0)


def rows_of_undefined(self: Any, x: Any) -> Any:
    h, g = torch.Tensor(ROWS, 4), torch.empty(ROWS, 4)
    for i in range(ROWS):
        h[i], g[i] = self.l(x), x
    return h.sum(0) - g.sum(0)


def rows_of_new(self: Any, x: Any) -> Any:
    h = self.l(x).new(ROWS, 4).fill_(0.0)
    for i in range(ROWS):
        h[i] = self.l(x)
    return h.sum(0)


def row_seen_before(self: Any, x: Any) -> Any:
    h = torch.zeros(ROWS, 4)
    seen = []
    for i in range(ROWS):
        y = h[i]
        h[i] = self.l(x)
        seen.append(y)
    return seen[0] + seen[1] * seen[2]


def row_seen_after(self: Any, x: Any) -> Any:
    h = torch.zeros(ROWS, 4)
    h[0] = self.l(x)
    y = h[0]
    y += 1
    return h.sum(0)


def rows_listed(self: Any, x: Any) -> Any:
    h = torch.zeros(2, 4)
    rows = list(h)
    h[1] = self.l(x)
    return rows[1] * 1


def clone_of_rows(self: Any, x: Any) -> Any:
    h = torch.zeros(2, 4)
    h[1] = self.l(x)
    s = h.clone()
    h[0] = self.l(x) * 2
    return s.sum(0)


def clone(self: Any, x: Any) -> Any:
    a = self.l(x)
    y = a.clone()
    for _ in range(1):
        y += 1
    return a + y * 2


def whole_stack(self: Any, x: Any) -> Any:
    h = torch.zeros(ROWS, 4)
    h[0] = self.l(x)
    g = h
    h += 1
    return g.sum(0)


def joined_then_written(self: Any, x: Any) -> Any:
    a = self.l(x)
    c = torch.cat([a, x])
    a += 1
    return c * 1


def joined_written(self: Any, x: Any) -> Any:
    c = torch.cat([self.l(x), x])
    for _ in range(2):
        c += 1
    c[0] = 2.0
    return torch.tanh(c)


def joined_viewed(self: Any, x: Any) -> Any:
    c = torch.cat([self.l(x), x])
    for _ in range(1):
        v = c.view(2, 4)
    bumped(c)
    return v.sum(0)


def mask_viewed(self: Any, x: Any) -> Any:
    mask = (self.l(x) > 0).clone()
    for _ in range(1):
        v = mask.unsqueeze(0)
    mask[0] = True
    return torch.where(v, x, -x)


def mask_written(self: Any, x: Any) -> Any:
    mask, h = torch.zeros(4, dtype=torch.bool), self.l(x)
    for i in range(ROWS):
        h = torch.softmax(self.l(h.masked_fill(mask, -1e9)), 0)
        mask[i] = True
    return h


def stacked_then_written(self: Any, x: Any) -> Any:
    a = self.l(x)
    s = torch.stack([a, self.l(a)])
    a += 1
    return s.sum(0)


def zeros_apart(self: Any, x: Any) -> Any:
    z, w = torch.zeros(1, 4), torch.zeros(1, 4)
    v = z.view(4)
    for _ in range(2):
        w += self.l(x)
    return v + w[0]


def helper_writes(self: Any, x: Any) -> Any:
    a = self.l(x)
    bumped(a)
    return a * 2


def view_then_written(self: Any, x: Any) -> Any:
    a = self.l(x)
    v = a.view(2, 2)
    bumped(a)
    return v.sum(1)


def part_written(self: Any, x: Any) -> Any:
    a = self.l(x)
    c = a[:2]
    for _ in range(2):
        c += 1
    return a * 1


def element_written(self: Any, x: Any) -> Any:
    a = self.l(x)
    for i in range(3):
        y = a[i]
        y += 1
    return a * 1


def unbound_written(self: Any, x: Any) -> Any:
    a = self.l(x)
    s = torch.stack([a, a])
    v = s.unbind(0)[0]
    v.mul_(2)
    return s.sum(0)


def listed_then_written(self: Any, x: Any) -> Any:
    rows = [self.l(x * i) for i in range(ROWS)]
    s = torch.stack(rows)
    for _ in range(1):
        s += 1
    return s.sum(0) + rows[0]


def list_written_after(self: Any, x: Any) -> Any:
    rows = [self.l(x * i) for i in range(ROWS)]
    s = torch.stack(rows)
    for h in rows:
        h += 1
    return s.sum(0)


def instance_written(self: Any, x: Any) -> Any:
    x += 1
    return self.l(x)


RIGHT = [
    alias, rows_by_number, rows_twice, rows_of_undefined, rows_of_new, row_seen_before, row_seen_after,
    rows_listed, clone_of_rows, clone, whole_stack, joined_then_written, stacked_then_written, zeros_apart,
    helper_writes, joined_written, mask_written,
]  # fmt: skip
REFUSED = [
    element_written, view_then_written, part_written, unbound_written, instance_written, listed_then_written,
    list_written_after, joined_viewed, mask_viewed,
]  # fmt: skip
# Views of a vector or matrix of 4 numbers.
VIEWS: dict[str, Callable[[Any], Any]] = {
    "t": lambda v: v.t(), "chunk": lambda v: v.chunk(2)[1], "part": lambda v: v[1:2], "row": lambda v: v[-1],
    "unbind": lambda v: v.unbind()[0], "view": lambda v: v.view(-1), "reshape": lambda v: v.reshape(1, 4),
    "select": lambda v: v.select(0, 1), "expand": lambda v: v.expand(3, *v.shape), "all": lambda v: v[...],
    "new axis": lambda v: v[None], "turned": lambda v: v.unsqueeze(0).movedim(0, 1),
    "clone": lambda v: v.clone(), "copy": lambda v: v * 1, "kept": lambda v: v.contiguous(),
}  # fmt: skip


def made(forward: Callable[..., Any]) -> tuple[Any, list[Any]]:
    torch.manual_seed(0)
    model = type(forward.__name__, (Model,), {"forward": forward})()
    return model, [torch.randn(4) for _ in range(3)]


@pytest.mark.parametrize("forward", RIGHT, ids=lambda f: f.__name__)
def test_what_is_written_is_seen_as_by_pytorch(forward: Callable[..., Any]) -> None:
    model, instances = made(forward)
    with torch.no_grad():
        wanted = [model(x) for x in instances]
        for found, right in zip(batch(model)(instances), wanted, strict=True):
            assert torch.allclose(found, right, atol=1e-6)


@pytest.mark.parametrize("forward", REFUSED, ids=lambda f: f.__name__)
def test_what_others_would_see_is_refused(forward: Callable[..., Any]) -> None:
    model, instances = made(forward)
    with torch.no_grad(), pytest.raises(AbwError, match="in place"):
        batch(model)(instances)


@pytest.mark.parametrize("matrix", [False, True])
@pytest.mark.parametrize("base", [False, True])
@pytest.mark.parametrize("name", VIEWS)
def test_a_view_or_what_it_is_of_is_written(name: str, base: bool, matrix: bool) -> None:
    def forward(self: Any, x: Any) -> Any:
        a = torch.tanh(self.l(x))
        s = a.view(2, 2) if matrix else a
        for view in (VIEWS[name],):
            v = view(s)
        w = torch.tanh(a)
        for _ in range(1):
            if base:
                s += 1
            else:
                v += 1
        return s.sum() + v.sum() * 2 + a.sum() * 3 + w.sum()

    model, instances = made(forward)
    with torch.no_grad():
        try:
            wanted = torch.stack([model(x) for x in instances])
        except RuntimeError:  # PyTorch cannot write it
            return
        try:
            found = batch(model)(instances)
        except AbwError as error:
            assert "in place" in str(error)
        else:
            torch.testing.assert_close(torch.stack(found), wanted)


def test_a_list_is_wanted_for_each_argument() -> None:
    class Pairs(Model):
        def forward(self, x: Any, y: Any) -> Any:
            return self.l(x) + y

    pairs = [(torch.ones(4), torch.ones(4))] * 2
    model = Pairs()
    with pytest.raises(AbwError, match=r"Pairs.forward\(x: .*y: .* was given 1 of its arguments"):
        batch(model)(pairs)
    assert torch.equal(batch(model)(*zip(*pairs, strict=True))[0], model(*pairs[0]))


def test_a_result_that_no_parameter_reaches_is_given_beside_those_that_learn() -> None:
    class Counted(Model):
        def forward(self, x: Any) -> Any:
            total = torch.zeros(1)
            for i in range(len(x)):
                total = total + x[i] * 2
            return self.l(x), total

    torch.manual_seed(0)
    model, instances = Counted(), [torch.randn(4) for _ in range(3)]
    found = batch(model)(instances)
    for (y, total), x in zip(found, instances, strict=True):
        torch.testing.assert_close(total, x.sum(0, keepdim=True) * 2)
        torch.testing.assert_close(y, model.l(x))
    sum(y.sum() + total.sum() for y, total in found).backward()
    own = model.l.weight.grad.clone()
    model.zero_grad()
    sum(model(x)[0].sum() for x in instances).backward()
    torch.testing.assert_close(own, model.l.weight.grad)


class Several(Model):
    """Returns tensors in all forms: rows, numbers of one size, a single number, more dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.o = torch.nn.Linear(4, 1)

    def forward(self, x: Any) -> Any:
        h = torch.tanh(self.l(x))
        rows, again = torch.stack([h, 2 * h]), torch.stack([h, 3 * h]).unsqueeze(0)
        return rows, again, 4 * h, self.o(h)[0], torch.cat([self.o(h), self.o(2 * h)]), 5 * h[None]


@pytest.mark.parametrize("learns", [True, False])
def test_results_are_written_in_place_one_by_one(learns: bool) -> None:
    torch.manual_seed(0)
    model, xs = Several(), [torch.randn(4) for _ in range(4)]
    with torch.set_grad_enabled(learns):
        both = [batch(model)(xs), [model(x) for x in xs]]
        for results in both:
            kept = results[3][2]
            seen = (kept * kept).sum()  # for its gradient `kept` must stay as it is
            for i in range(6):
                results[0][i].mul_(2).add_(i)
            if learns:
                seen.backward(retain_graph=True)
        for ours, theirs in zip(*both, strict=True):
            assert [t.shape for t in ours] == [t.shape for t in theirs]
            for a, b in zip(ours, theirs, strict=True):
                assert torch.allclose(a, b, atol=1e-6)
    if learns:
        gradients = [
            torch.autograd.grad(
                sum(t.square().sum() for some in results for t in some), [*model.parameters()]
            )
            for results in both
        ]
        for a, b in zip(*gradients, strict=True):
            assert torch.allclose(a, b, atol=1e-4)
