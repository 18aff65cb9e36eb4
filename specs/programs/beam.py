"""Translation by beam search: the best of all continuations of all sentences that are under way."""

from __future__ import annotations

from pathlib import Path

import abw

net = abw.cells(Path(__file__).with_suffix(".yaml"), allow_outside=True)
BEGIN, END = 1, 0
WIDTH, MOST = 4, 20


def translate(source: list[str]) -> tuple[list[int], float]:
    """The words (rows) of the best sentence found, and the log of its probability."""
    h = c = net.zeros("hidden")
    for word in source:
        h, c = net.encode(net.words[word], h, c)
    beam = [(0.0, [BEGIN], h, c)]
    done: list[tuple[float, list[int]]] = []
    for _ in range(MOST):
        steps = [net.decode(net.said[said[-1]], h, c) for _, said, h, c in beam]
        scores = [score for score, *_ in beam]
        picked = abw.best(WIDTH, [net.out(h) for h, _ in steps], plus=scores)
        longer = [(score, [*beam[which][1], word], *steps[which]) for which, word, score in picked]
        done += [(score, said) for score, said, _, _ in longer if said[-1] == END]
        beam = [found for found in longer if found[1][-1] != END]
        if not beam or (done and max(done)[0] > beam[0][0]):
            break  # what goes on can only get worse
    score, said = max(done + [(score, said) for score, said, _, _ in beam])
    return said, score
