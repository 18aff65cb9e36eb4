"""A transition parser with a stack LSTM (Dyer et al., 2015): what it computes decides each action."""

from __future__ import annotations

from pathlib import Path

import abw

net = abw.cells(Path(__file__).with_suffix(".yaml"), allow_outside=True)
SHIFT, LEFT, RIGHT = range(3)


def parse(sentence: list[int]) -> tuple[list[int], abw.Value]:
    """The actions for a sentence of word numbers, and what its last word on the stack stands for."""
    zero = net.zeros("hidden")
    buffers = [(zero, zero)]  # of each suffix, the empty one first
    for word in reversed(sentence):
        buffers.append(net.buffer(net.words[word], *buffers[-1]))
    stack = [(zero, zero, zero)]  # a value, and the state of the stack up to it
    past, front, actions = (zero, zero), len(sentence), []
    while front or len(stack) > 2:
        allowed = [front > 0, len(stack) > 2, len(stack) > 2]
        action = net.score(stack[-1][1], buffers[front][0], past[0]).argmax(allowed)
        if action == SHIFT:
            value, front = net.words[sentence[-front]], front - 1
        else:
            right, left = stack.pop()[0], stack.pop()[0]
            value = net.compose(left, right) if action == LEFT else net.compose(right, left)
        stack.append((value, *net.stack(value, *stack[-1][1:])))
        past = net.history(net.did[action], *past)
        actions.append(action)
    return actions, stack[-1][0]
