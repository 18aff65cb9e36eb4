"""What cannot be batched is said, with the line of the model; nothing is silently wrong."""

from __future__ import annotations

import re
import warnings

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install torch")
pytest.importorskip("greenlet", reason="models that decide need greenlet: pip install greenlet")

from abw.core.base.errors import AbwError  # noqa: E402
from abw.torch import batch  # noqa: E402
from tests.torch import idioms, odd  # noqa: E402
from tests.torch.models import assert_alike, check, five  # noqa: E402

ITEMS = [[1, 2], [3, 4, 5], [6], [7, 8, 9, 1], [2, 2]]


def model_of(name):
    torch.manual_seed(1)
    return odd.MODELS[name]().eval()


@pytest.mark.parametrize("name", odd.TAKEN)
def test_what_is_taken_is_right(name):
    check(model_of(name), ITEMS, trains=name not in odd.NOT_TRAINED)


@pytest.mark.parametrize("name", idioms.MODELS)
def test_idioms_are_right(name):
    torch.manual_seed(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if name in idioms.WARNED else "error")  # nothing is left to PyTorch
        fast = check(idioms.MODELS[name]().eval(), idioms.ITEMS.get(name, ITEMS))
    lines = fast.report().splitlines()
    assert len(lines) == len({*lines})


@pytest.mark.parametrize(("name", "message"), odd.REFUSED.items())
def test_what_is_refused_names_the_line(name, message):
    with pytest.raises(AbwError, match=message) as error:
        batch(model_of(name))(ITEMS)
    assert "odd.py:" in str(error.value)


def test_what_cells_do_not_have_is_left_to_pytorch_with_a_warning():
    model = model_of("left")
    fast = batch(model)
    with torch.no_grad(), pytest.warns(UserWarning, match=r"odd\.py:\d+: torch\.\w+ is computed by PyTorch"):
        assert_alike([model(item) for item in ITEMS], fast(ITEMS))
    with pytest.raises(AbwError, match="no gradient would pass through it"):
        fast(ITEMS)


@pytest.mark.parametrize("name", ["out_of_range", "raises", "wrong_shape"])
def test_errors_are_the_models_own_and_name_the_instance(name):
    model = model_of(name)
    try:
        theirs: Exception = AssertionError(f"PyTorch takes it: {[model(item) for item in ITEMS]}")
    except Exception as error:
        theirs = error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(type(theirs)) as ours:
            batch(model)(ITEMS)
    assert str(ours.value) == str(theirs)
    assert any(note.startswith("in instance") for note in ours.value.__notes__)


def test_verify_finds_state_that_is_carried_from_instance_to_instance():
    with torch.no_grad(), pytest.raises(AbwError, match="instance 1 differs from PyTorch's"):
        batch(model_of("carries"), verify=1)(ITEMS)
    model, columns = five("parser")
    fast = batch(model, verify=2, batch=3)
    fast(*columns)
    assert re.search(r"narrowest decision, at .*single\.py:\d+, had a margin of \d", fast.report())


def test_verify_says_where_a_decision_is_as_good_as_even():
    model = model_of("close")
    fast = batch(model, verify=1)
    with (
        torch.no_grad(),
        pytest.warns(UserWarning, match=r"odd\.py:\d+, had a margin of .*: that may be rounding"),
    ):
        fast(ITEMS)
    model.step = 1e-2
    with torch.no_grad(), pytest.raises(AbwError, match="differs from PyTorch's"):
        batch(model, verify=1)(ITEMS)


def test_hooks_parametrisations_types_and_devices_are_refused():
    model, columns = five("tree")
    fast = batch(model)
    handle = model.leaf.register_forward_hook(lambda *_: None)
    for call in (lambda: batch(model), lambda: fast(*columns)):
        with pytest.raises(AbwError, match="leaf has hooks"):
            call()
    handle.remove()
    torch.nn.utils.parametrizations.weight_norm(model.leaf)
    with pytest.raises(AbwError, match="leaf is parametrised"):
        batch(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = torch.nn.Sequential(torch.jit.script(torch.nn.Linear(2, 2)))
    with pytest.raises(AbwError, match="0 is compiled by PyTorch"):
        batch(compiled)
    with pytest.raises(AbwError, match=r"torch\.float64"):
        batch(five("tree")[0].double())
    with pytest.raises(AbwError, match="takes an nn"):
        batch(lambda tree: tree)
    with pytest.raises(AbwError, match="autocast"), torch.autocast("cpu"):
        batch(five("tree")[0])(*columns)


def test_gradients_switched_off_inside_are_refused_after_a_call_without_gradients():
    model = model_of("no_grad_inside")
    fast = batch(model)
    with torch.no_grad():
        assert_alike([model(item) for item in ITEMS], fast(ITEMS))
    with pytest.raises(AbwError, match=odd.REFUSED["no_grad_inside"]):
        fast(ITEMS)


def test_calls_that_make_no_sense_are_refused():
    model, (trees,) = five("tree")
    for call, message in (
        (lambda: batch(model, batch=0), "batch cannot be 0"),
        (lambda: batch(model, method="encode"), "no method 'encode'"),
        (lambda: batch(model)(), "no instances"),
        (lambda: batch(model)(trees, trees[:2]), "the lists of arguments have 6, 2 items"),
    ):
        with pytest.raises(AbwError, match=message):
            call()
    assert batch(model)([]) == []


def test_a_tensor_of_the_instance_that_is_written_later_is_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(AbwError, match="written in place after it has been used"):
            batch(model_of("written_given"))(ITEMS)


def test_numbers_of_the_model_may_be_changed_between_calls():
    model = model_of("factor")
    fast = batch(model)
    with torch.no_grad():
        for model.factor in (0.5, 2.0):
            assert_alike([model(item) for item in ITEMS], fast(ITEMS))
        model.linear = torch.nn.Linear(6, 6)
        assert_alike([model(item) for item in ITEMS], fast(ITEMS))
        model.linear.weight.data = torch.ones(6, 6)
        assert_alike([model(item) for item in ITEMS], fast(ITEMS))


def test_gradients_of_gradients_are_refused():
    model, columns = five("tree")
    loss = sum(out.sum() for out in batch(model)(*columns))
    gradients = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
    with pytest.raises(RuntimeError, match="differentiated once"):
        sum(gradient.square().sum() for gradient in gradients).backward()
