"""Models as Python functions: what recording, waiting and rounds take, beside kernels and PyTorch by hand."""

from __future__ import annotations

from collections.abc import Callable, Generator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from abw.bench.executors.contenders import import_torch
from abw.bench.growth.beams import beams, beside
from abw.bench.growth.byhand import Parser
from abw.bench.growth.opened import opened
from abw.bench.options import SPECS, DataDir, Runs, SpecsDir, Torch
from abw.bench.rows import Row, Rows
from abw.bench.timing import interleaved
from abw.core.base.errors import AbwError
from abw.core.data.lookup import hashed
from abw.core.data.read import read
from abw.core.plan.plan import plan
from abw.core.policy.registry import get_policy
from abw.core.program.net import Net
from abw.core.program.recording.recorder import joined
from abw.core.program.recording.values import Value

CALLS = 20_000
ASKS = 50
PARSER = """\
library: parser
dims: {hidden: 64, in: hidden, actions: 3}
tables: {words: {dim: hidden, rows: 256}, moves: {dim: hidden, rows: actions}}
types:
  buffer: SPECS/cells/rnn.yaml
  stack: SPECS/cells/rnn.yaml
  history: SPECS/cells/rnn.yaml
  compose: SPECS/cells/compose.yaml
  score: SPECS/cells/actions.yaml
"""
TREES = """\
library: trees
dims: {hidden: 64, embed: hidden, classes: 5}
tables: {words: {dim: embed}}
types:
  leaf: SPECS/cells/treelstm-leaf.yaml
  internal: SPECS/cells/treelstm.yaml
  output: {cell: SPECS/cells/linear.yaml, dims: {in: hidden, out: classes}}
"""


def programs(data: DataDir, specs: SpecsDir = SPECS, torch: Torch = True, runs: Runs = 7) -> Rows:
    """Time models as Python functions, compared with PyTorch batched by hand (needs torch).

    CPU time of one thread, medians of interleaved runs with equal decisions.
    """
    library = import_torch() if torch else None
    for what, seconds in recording(specs, runs).items():
        yield Row("one", what=what, taken_seconds=seconds)
    yield trees(specs, data / "trees/dev.txt", 64, runs)
    for hidden in (64, 256):
        yield parsing(library, specs, data / "tags/dev.txt", hidden, runs)
    for hidden in (64, 256):
        yield from beams(library, specs, data / "pairs/tst2012.en-vi.txt", hidden, runs)


def recording(specs: Path, runs: int) -> dict[str, float]:
    """Seconds of a call that records a node of three inputs, with its loop, and of an empty function; of an
    ask of one of 64 programs, by greenlets and by generators; of a round of one program.
    """
    nets = {"call": opened(specs, PARSER, 8), "python": opened(specs, PARSER, 8, "python")}
    net = nets["call"]

    def empty(stack: Value, buffer: Value, history: Value) -> None:
        pass

    def calling(function: Callable[[Value, Value, Value], object], zero: Value) -> None:
        for _ in range(CALLS):
            function(zero, zero, zero)

    def recorded(net: Net) -> None:
        with net.batching():
            calling(net.score, net.zeros("hidden"))
            net._recorder.take()  # as arrays, but not executed

    def asking(_: int) -> None:
        zero = net.zeros("hidden")
        score = net.score(zero, zero, zero)
        for _ in range(ASKS):
            score.argmax()

    def yielding(_: int) -> Generator[Any, Any, None]:
        zero = net.zeros("hidden")
        score = net.score(zero, zero, zero)
        for _ in range(ASKS):
            yield score.argmax()

    def rounds(_: int) -> Generator[Any, Any, None]:
        zero = net.zeros("hidden")
        for _ in range(CALLS // 10):
            yield net.score(zero, zero, zero).argmax()

    work: dict[str, tuple[Callable[[], object], int]] = {
        "call, recorded by machine code": (lambda: recorded(nets["call"]), CALLS),
        "call, recorded by Python": (lambda: recorded(nets["python"]), CALLS),
        "call of an empty function": (lambda: calling(empty, net.zeros("hidden")), CALLS),
        "question of one of 64 programs": (lambda: net.run(asking, range(64)), 64 * ASKS),
        "question, yielded": (lambda: net.run(yielding, range(64)), 64 * ASKS),
        "round of one program": (lambda: net.run(rounds, [0]), CALLS // 10),
    }
    taken = interleaved({name: function for name, (function, _) in work.items()}, runs)
    return {name: seconds / work[name][1] for name, seconds in taken.items()}


def trees(specs: Path, file: Path, hidden: int, runs: int) -> Row:
    """A tree LSTM by recursion on up to 64 trees: recorded alone, by machine code and by Python; run; and
    its kernels, by the plan of all nodes.
    """
    instances = read(file, "trees")
    words, kinds = instances.vocabulary["word"], instances.schema.kinds
    left, right = (instances.links[side].target.tolist() for side in ("left", "right"))
    leaves = [kinds[kind] == "leaf" for kind in instances.kind.tolist()]
    named = [words[w] if w >= 0 else "" for w in instances.fields["word"].tolist()]
    roots = instances.links["root"].target[instances.start[:-1]][:64].tolist()

    def classifier(net: Net) -> Callable[[int], None]:
        leaf, internal, output, table = net.leaf, net.internal, net.output, net.words

        def state(vertex: int) -> Any:  # noqa: ANN401 (h and c)
            if leaves[vertex]:
                both = leaf(table[named[vertex]])
            else:
                left_h, left_c = state(left[vertex])
                right_h, right_c = state(right[vertex])
                both = internal(left_h, left_c, right_h, right_c)
            output(both[0])
            return both

        def classify(root: int) -> None:
            state(root)

        return classify

    net = opened(specs, TREES, hidden)
    programs = {each: classifier(each) for each in (net, opened(specs, TREES, hidden, "python"))}

    def recorded(net: Net) -> None:
        with net.batching():
            for root in roots:
                programs[net](root)
            net._recorder.take()

    def run() -> None:
        net.run(programs[net], roots, batch=64)

    run()
    engine = net._ready().engine
    graph = engine.graph(joined(engine.segments))[0]
    made = plan(graph, get_policy("critical").schedule(graph.dag))
    by_machine, by_python = programs
    work = {
        "recorded": lambda: recorded(by_machine),
        "recorded_by_python": lambda: recorded(by_python),
        "run": run,
        "kernels": lambda: net.executor.run(made),
    }
    seconds = {f"{name}_seconds": taken for name, taken in interleaved(work, runs).items()}
    return Row("TreeLSTM by recursion", trees=len(roots), nodes=len(graph), **seconds)


class Parsing:
    """The parser of `specs/stackrnn.yaml` as programs."""

    def __init__(self, net: Net) -> None:
        self.net = net

    def plain(self, sentence: list[int]) -> list[int]:
        """The actions for a sentence."""
        net = self.net
        zero = net.zeros("hidden")
        buffer = [zero]
        for word in reversed(sentence):
            buffer.append(net.buffer(net.words[word], buffer[-1]))
        stack, moved, past, left = [(zero, zero)], zero, zero, len(sentence)
        done: list[int] = []
        while left or len(stack) > 2:
            past = net.history(moved, past)
            two = len(stack) > 2
            action = net.score(stack[-1][1], buffer[left], past).argmax([left > 0, two, two])
            if action == 0:
                value, left = net.words[sentence[-left]], left - 1
            else:
                (upper, _), (lower, _) = stack.pop(), stack.pop()
                value = net.compose(lower, upper) if action == 1 else net.compose(upper, lower)
            stack.append((value, net.stack(value, stack[-1][1])))
            moved = net.moves[action]
            done.append(action)
        return done

    def yielding(self, sentence: list[int]) -> Generator[Any, Any, list[int]]:
        """The same as a generator function."""
        net = self.net
        zero = net.zeros("hidden")
        buffer = [zero]
        for word in reversed(sentence):
            buffer.append(net.buffer(net.words[word], buffer[-1]))
        stack, moved, past, left = [(zero, zero)], zero, zero, len(sentence)
        done: list[int] = []
        while left or len(stack) > 2:
            past = net.history(moved, past)
            two = len(stack) > 2
            action = yield net.score(stack[-1][1], buffer[left], past).argmax([left > 0, two, two])
            if action == 0:
                value, left = net.words[sentence[-left]], left - 1
            else:
                (upper, _), (lower, _) = stack.pop(), stack.pop()
                value = net.compose(lower, upper) if action == 1 else net.compose(upper, lower)
            stack.append((value, net.stack(value, stack[-1][1])))
            moved = net.moves[action]
            done.append(action)
        return done


def parsing(library: Any, specs: Path, file: Path, hidden: int, runs: int) -> Row:  # noqa: ANN401
    """The parser on up to 64 sentences, and by PyTorch's hand-made batches.

    PyTorch is given the buffer's states. Errors: AbwError where it decides otherwise.
    """
    net = opened(specs, PARSER.replace("in: hidden", f"in: {hidden}"), hidden)
    instances = read(file, "tags")
    kinds = [k for k, name in enumerate(instances.schema.kinds) if name in instances.schema.members("token")]
    rows = hashed(instances.vocabulary["word"], 256)[instances.fields["word"]]
    token = np.isin(instances.kind, kinds)
    spans = list(pairwise(instances.start[:65].tolist()))
    sentences = [rows[a:b][token[a:b]].tolist() for a, b in spans]
    programs = Parsing(net)

    def run(function: Callable[[list[int]], Any]) -> list[list[int]]:
        return net.run(function, sentences, batch=64)

    said = run(programs.plain)
    assert net._last is not None
    rounds = net._last.rounds
    work: dict[str, Callable[[], object]] = {
        "plain": lambda: run(programs.plain),
        "yielding": lambda: run(programs.yielding),
    }
    if run(programs.yielding) != said:
        raise AbwError("the generator function decides otherwise than the plain one")
    if library is not None:
        states = [np.stack(each) for each in net.run(lambda words: _buffer(net, words), sentences)]
        theirs = Parser(library, dict(net.params), sentences, states, 200)
        if [actions[:-1] for actions in theirs.run()] != said:
            raise AbwError("PyTorch decides otherwise than the program")
        work["torch"] = theirs.run
    seconds = interleaved(work, runs)
    return Row(
        "parser",
        hidden=hidden,
        sentences=len(sentences),
        actions=sum(map(len, said)),
        rounds=rounds,
        **beside(seconds),
    )


def _buffer(net: Net, sentence: list[int]) -> list[Value]:
    """The buffer's states, of the first word first."""
    states = [net.zeros("hidden")]
    for word in reversed(sentence):
        states.append(net.buffer(net.words[word], states[-1]))
    return states[:0:-1]
