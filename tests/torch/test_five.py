"""The five models that people ask for: values, decisions and gradients are PyTorch's."""

from __future__ import annotations

import copy
import gc
import pickle
import runpy
import tempfile
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install torch")
pytest.importorskip("greenlet", reason="models that decide need greenlet: pip install greenlet")

from abw.core.train.programs.gradients import ProgramBackward  # noqa: E402
from abw.torch import batch  # noqa: E402
from tests.torch.models import FIVE, Kinds, assert_alike, check, five, gradients, loss_of  # noqa: E402


@pytest.mark.parametrize("name", FIVE)
def test_values_decisions_and_gradients_are_pytorchs(name):
    model, columns = five(name)
    fast = check(model.eval(), *columns)
    report = fast.report()
    assert "cell" in report
    assert "one operation at a time" not in report


def test_stretches_of_code_are_cells_and_are_named_by_their_lines():
    model, columns = five("tree")
    fast = batch(model)
    with torch.no_grad():
        fast(*columns)
    report = fast.report()
    assert report.startswith("2 cells")
    assert report.count("BinaryTreeLSTM.traverse, line") == 2


def test_mini_batches_of_any_size_give_the_same():
    model, columns = five("parser", count=7)
    with torch.no_grad():
        wanted = [model(*item) for item in zip(*columns, strict=True)]
        for size in (1, 3, 64):
            assert_alike(wanted, batch(model, batch=size)(*columns))
        assert_alike(wanted, list(batch(model, batch=2).stream(*columns)))


@pytest.mark.parametrize("name", FIVE)
def test_losses_of_a_training_follow_pytorchs(name):
    model, columns = five(name)
    twin = copy.deepcopy(model)
    fast = batch(model)
    losses: list[list[float]] = []
    for trained, forward in (
        (twin, lambda: [twin(*item) for item in zip(*columns, strict=True)]),
        (model, lambda: fast(*columns)),
    ):
        optimizer = torch.optim.Adam(trained.parameters(), lr=0.01)
        losses.append([])
        for _ in range(4):
            outputs = forward()
            loss = loss_of(outputs) ** 2
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[-1].append(float(loss.detach()))
    for theirs, ours in zip(*losses, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-3)
    with torch.no_grad():
        assert_alike([twin(*i) for i in zip(*columns, strict=True)], fast(*columns), 1e-3)


def test_a_state_dict_loaded_between_calls_counts():
    model, columns = five("tree")
    other, _ = five("tree")
    with torch.no_grad():
        for p in other.parameters():
            p.add_(0.1)
        fast = batch(model)
        fast(*columns)
        model.load_state_dict(other.state_dict())
        assert_alike([other(*i) for i in zip(*columns, strict=True)], fast(*columns))


def test_gradcheck():
    model, columns = five("tree", hidden=2, count=3)
    fast, parameters = batch(model), list(model.parameters())
    with pytest.warns(UserWarning, match="double precision"):  # steps are those that single precision allows
        assert torch.autograd.gradcheck(
            lambda *_: tuple(fast(*columns)), parameters, eps=1e-2, atol=2e-3, rtol=2e-2,
            check_batched_grad=False, nondet_tol=1e-6,
        )  # fmt: skip


def test_what_is_written_through_data_counts():
    model, columns = five("child-sum")
    fast = batch(model)
    for factor in (0.5, 2.0, 0.9):
        for p in model.parameters():
            p.data.mul_(factor)
        theirs = gradients(model, [model(*i) for i in zip(*columns, strict=True)])
        for name, gradient in gradients(model, fast(*columns)).items():
            assert_alike(theirs[name], gradient, 1e-5)
        with torch.no_grad():
            assert_alike([model(*i) for i in zip(*columns, strict=True)], fast(*columns))


def test_copies_and_pickles_run_for_themselves():
    model, columns = five("plans")
    fast = batch(model)
    with torch.no_grad():
        wanted = fast(*columns)
        for other in (copy.deepcopy(fast), pickle.loads(pickle.dumps(fast))):
            for p in other.parameters():
                p.mul_(2)
            assert_alike([other.model(*i) for i in zip(*columns, strict=True)], other(*columns))
        assert_alike(wanted, fast(*columns))


def test_two_mini_batches_forward_then_backward():
    model, columns = five("child-sum")
    theirs = gradients(model, [model(*i) for i in zip(*columns, strict=True)])
    fast = batch(model, batch=2)
    for name, gradient in gradients(model, fast(*columns)).items():
        assert_alike(theirs[name], gradient, 1e-5)


def test_gradients_of_decisions_with_other_mini_batches_in_between():
    model, columns = five("parser")
    model.embed.padding_idx = columns[0][0][0]
    theirs = gradients(model, [model(*i) for i in zip(*columns, strict=True)])
    fast = batch(model, batch=2)
    for _ in range(3):  # from the second time on the backward pass reads what was computed for decisions
        outputs = fast(*columns)
        with torch.no_grad():
            fast(*columns)
        ours = gradients(model, outputs)
        assert ours.keys() == theirs.keys()  # what only decides has none
        for name, gradient in theirs.items():
            assert_alike(gradient, ours[name], 1e-5)


def test_an_optimizer_leaves_alone_what_a_mini_batch_does_not_use():
    model, columns = five("plans", count=6)
    twin = copy.deepcopy(model)
    fast = batch(model)
    for trained, run in ((twin, lambda *c: [twin(*i) for i in zip(*c, strict=True)]), (model, fast)):
        optimizer = torch.optim.Adam(trained.parameters(), lr=0.01)
        for some in (slice(0, 6), slice(0, 1), slice(1, 2)):  # the last ones have not all kinds of operators
            optimizer.zero_grad()
            loss_of(run(*(column[some] for column in columns))).backward()
            unused = sum(p.grad is None for p in trained.parameters())
            optimizer.step()
        assert unused
    for theirs, ours in zip(twin.parameters(), model.parameters(), strict=True):
        assert_alike(theirs, ours, 1e-4)


def test_what_was_computed_for_decisions_is_not_computed_again(monkeypatch):
    model, columns = five("parser", count=20)
    fast, found = batch(model), []
    plans = ProgramBackward.planned

    def planned(*args):
        passes = plans(*args)
        found.append(int((passes.plan.schedule.nodes < passes.made.forward).sum()) / passes.made.forward)
        return passes

    monkeypatch.setattr(ProgramBackward, "planned", planned)
    for _ in range(2):  # the first has another network, made without decisions
        first = gradients(model, fast(*columns))
    monkeypatch.setattr(ProgramBackward, "engine", lambda self, usual: usual)
    again = gradients(model, fast(*columns))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert found[0] == found[2] == 1
    assert found[1] < 0.2


def test_cells_that_a_later_mini_batch_adds_leave_earlier_gradients_as_they_are():
    model, columns = five("plans", count=6)
    theirs = gradients(model, [model(*i) for i in zip(*columns, strict=True)])
    ours = gradients(model, batch(model, batch=1)(*columns))
    for name, gradient in ours.items():
        assert_alike(theirs[name], gradient, 1e-5)


def test_a_loss_of_several_calls_has_the_gradients_of_tables_where_cells_were_added_in_between():
    torch.manual_seed(0)
    model = Kinds()
    calls = [([0] * 4, [1, 2, 0, 3]), ([0] * 4, [4, 0, 3, 2]), ([1] * 4, [1, 2, 3, 0]), ([2, 0], [5, 6])]
    fast = batch(model)
    for _ in range(2):  # the second time with other parameters
        theirs = gradients(model, [model(*i) for c in calls for i in zip(*c, strict=True)])
        ours = gradients(model, [y for c in calls for y in fast(*c)])
        assert theirs.keys() == ours.keys()
        for name, wanted in theirs.items():
            assert_alike(wanted, ours[name], 1e-5)
        assert not ours["embed.weight"][0].any()
        torch.optim.SGD(model.parameters(), 0.1).step()


def test_parameters_changed_between_forward_and_backward_are_refused():
    model, columns = five("tree")
    loss = sum(out.sum() for out in batch(model)(*columns))
    with torch.no_grad():
        next(model.parameters()).add_(1)
    with pytest.raises(RuntimeError, match="changed between"):
        loss.backward()


def test_the_example_of_the_docs():
    text = (Path(__file__).parents[2] / "docs/torch.md").read_text(encoding="utf-8")
    code = text.split("```python\n")[1].split("```")[0]
    file = Path(tempfile.mkdtemp()) / "example.py"
    file.write_text(code, encoding="utf-8")
    scope = runpy.run_path(str(file))
    model, trees = scope["model"], scope["trees"]
    assert all(p.grad is not None for p in model.parameters())
    assert_alike([model(tree) for tree in trees], scope["scores"])


def test_inference_mode_and_threads_give_the_same():
    model, columns = five("child-sum")
    with torch.no_grad():
        wanted = [model(*item) for item in zip(*columns, strict=True)]
        assert_alike(wanted, batch(model, threads=2)(*columns))
    fast = batch(model)
    with torch.inference_mode():
        assert_alike(wanted, fast(*columns))
    assert_alike(wanted, [out.detach() for out in fast(*columns)])


def test_calls_from_several_threads_wait_for_each_other():
    model, columns = five("parser")
    fast = batch(model)
    with torch.no_grad():
        wanted = [model(*item) for item in zip(*columns, strict=True)]

    def call(_):
        with torch.no_grad():
            return fast(*columns)

    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(call, range(8)):
            assert_alike(wanted, found)


@pytest.mark.parametrize("name", FIVE)
def test_a_model_that_is_no_longer_used_is_freed(name):
    model, columns = five(name)
    batched = batch(model)
    with torch.no_grad():
        batched(*columns)
    batched(*columns)
    loss = loss_of(batched(*columns))
    known = weakref.ref(model), weakref.ref(batched)
    parameters = list(model.parameters())
    del batched, model
    gc.collect()
    loss.backward()  # which needs neither
    assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in parameters)
    del loss
    gc.collect()
    assert [reference() for reference in known] == [None, None]
