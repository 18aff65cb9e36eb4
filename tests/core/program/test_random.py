"""Random programs: the same together, alone, cell by cell in double precision, and in plain NumPy."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import abw
from abw import Net
from tests.core.program.cells import Plain, Programs, small

# What programs return.
Found = Any
CALLS = ("step", "join", "two", "score", "gate", "each", "value", "input")

calls = st.lists(st.tuples(st.sampled_from(CALLS), st.integers(0, 30), st.integers(0, 30)), max_size=10)
instances = st.lists(st.tuples(st.integers(0, 19), calls), min_size=1, max_size=6)


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Net:
    return small(tmp_path_factory.mktemp("random"))


def program(net: Any, each: Any, instance: tuple[int, list[tuple[str, int, int]]]) -> Found:  # noqa: ANN401
    """What the calls say, one after the other; what is decided says which values the later ones take."""
    word, todo = instance
    held = [net.words[word], net.start]
    decided: list[int] = []
    for number, (call, i, j) in enumerate(todo):
        a, b = held[(i + sum(decided)) % len(held)], held[j % len(held)]
        if call == "two":
            held += net.two(a)
        elif call == "score":
            decided.append(net.score(a, b).argmax([i % 2 == 0, True, j % 2 == 0]))
        elif call == "gate":
            decided.append(int(net.gate(a).above(0.0)))
        elif call == "value":
            decided.append(int(a.value()[0] > b.value()[1]))
        elif call == "input":
            held.append(net.join(net.input([i / 30] * 6), [j / 30] * 6))
        elif call == "each":
            inner = [((word + k) % 20, todo[number + 1 :][: 2 + k]) for k in range(j % 3)]
            for ended, values in each(lambda item: program(net, each, item), inner):
                decided += ended
                held += values[-1:]
        else:
            held.append(getattr(net, call)(a, b))
    return decided, held


def yielding(net: Any, instance: tuple[int, list[tuple[str, int, int]]]) -> Generator[Any, Any, Found]:  # noqa: ANN401
    """The same as a generator function."""
    word, todo = instance
    held = [net.words[word], net.start]
    decided: list[int] = []
    for number, (call, i, j) in enumerate(todo):
        a, b = held[(i + sum(decided)) % len(held)], held[j % len(held)]
        if call == "two":
            held += net.two(a)
        elif call == "score":
            decided.append((yield net.score(a, b).argmax([i % 2 == 0, True, j % 2 == 0])))
        elif call == "gate":
            decided.append(int((yield net.gate(a).above(0.0))))
        elif call == "value":
            first = (yield a.value())[0]
            decided.append(int(first > (yield b.value())[1]))
        elif call == "input":
            held.append(net.join(net.input([i / 30] * 6), [j / 30] * 6))
        elif call == "each":
            inner = [((word + k) % 20, todo[number + 1 :][: 2 + k]) for k in range(j % 3)]

            def branch(item: tuple[int, list[tuple[str, int, int]]]) -> Generator[Any, Any, Found]:
                return (yield from yielding(net, item))

            for ended, values in (yield abw.each(branch, inner)):
                decided += ended
                held += values[-1:]
        else:
            held.append(getattr(net, call)(a, b))
    return decided, held


def bits(found: Found) -> Found:
    return [(decided, [value.tobytes() for value in held]) for decided, held in found]


@given(instances)
@settings(max_examples=12)
def test_random_programs(net: Net, drawn: list[tuple[int, list[tuple[str, int, int]]]]) -> None:
    together = net.run(lambda instance: program(net, abw.each, instance), drawn)
    alone = net.run(lambda instance: program(net, abw.each, instance), drawn, batch=1)
    assert bits(together) == bits(alone)

    def generator(instance: tuple[int, list[tuple[str, int, int]]]) -> Generator[Any, Any, Found]:
        return (yield from yielding(net, instance))

    assert bits(net.run(generator, drawn)) == bits(together)
    exact = net.run(lambda instance: program(net, abw.each, instance), drawn, eager=True)
    plain = Plain(net.params)
    for found, eager, instance in zip(together, exact, drawn, strict=True):
        wanted, values = program(plain, plain.each, instance)
        assert found[0] == eager[0] == wanted
        for got, wide, right in zip(found[1], eager[1], values, strict=True):
            np.testing.assert_allclose(wide, right.array, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(got, right.array, atol=2e-5)
    assert net.verify(lambda instance: program(net, abw.each, instance), drawn).ok


def test_the_oracle_agrees_on_the_parser(net: Net, tmp_path: Path) -> None:
    sentences = [[1, 2, 3], [4], [5, 6, 7, 8, 9]]
    plain = Programs(Plain(net.params)).parse
    for (actions, value), sentence in zip(net.run(Programs(net).parse, sentences), sentences, strict=True):
        wanted, exact = plain(sentence)
        assert actions == wanted
        np.testing.assert_allclose(value, exact.array, atol=1e-5)
