"""Tabular Q-learning of an FSM's transitions with n-step returns (paper, 2.3)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from abw.core.errors import AbwError
from abw.core.graph.bounds import lower_bound
from abw.core.graph.dag import Dag
from abw.core.jit import njit
from abw.core.policy.frontier import Edges, Frontier, edges, execute, room, start
from abw.core.policy.fsm import FsmPolicy, Training, run
from abw.core.policy.states import (
    ENCODINGS,
    Encoding,
    Table,
    add,
    best_actions,
    encode,
    find,
    new_table,
    resized,
)
from abw.core.policy.sufficient import HeldBack, held_back, release

Ints = NDArray[np.int32]
Arrays = TypeVar("Arrays", bound=tuple[Any, ...])

CHECK = 10  # trials between two looks at the greedy policy
STOP = 50  # trials between two looks at the lower bound, as in the paper


class Hyper(NamedTuple):
    """The learner's constants: one set for all models, chosen on trees, lattices, chains and pairs.

    `alpha` weighs Eq. 1's second term; `steps` is the n of the n-step returns; a trial explores with
    probability max(`floor`, `epsilon` * `decay` ** trial).
    """

    alpha: float = 1.0
    rate: float = 0.1
    steps: int = 4
    epsilon: float = 0.5
    decay: float = 0.99
    floor: float = 0.05


def learn(
    dag: Dag,
    *,
    encoding: Encoding = "sort",
    seed: int = 0,
    trials: int = 1000,
    hyper: Hyper | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> FsmPolicy:
    """Learn a policy on one graph; the best greedy policy seen is kept, not the last one.

    Every tenth trial is followed by a run without exploration. Ends early when, at a multiple of 50 trials,
    the best policy's batches equal the lower bound. `progress(trial, batches)` is called after every such
    run with the fewest batches so far; it may raise to stop. Same arguments, same policy, bit for bit (its
    seconds apart). Raises AbwError for an empty graph or no trials. Some 40 ns a node and trial.
    """
    if len(dag) == 0 or trials < 1:
        raise AbwError("a policy is learned from a graph that is not empty, in at least one trial")
    hyper = hyper or Hyper()
    kind = ENCODINGS.index(encoding)
    bound = int(lower_bound(dag).sum())
    begun = time.perf_counter()
    arrays, batches = edges(dag), room(dag)
    initial = start(dag), held_back(dag, direct=False)
    frontier, held = _copied(initial[0]), _copied(initial[1])
    path = Path(np.empty(len(dag), np.int32), np.empty(len(dag), np.int32), np.empty(len(dag), np.float64))
    table = new_table(len(dag.types), 1024, 8192)
    best, best_table, best_action = len(dag) + 1, table, np.empty(0, np.int32)
    curve: list[tuple[int, int]] = []
    done = 0
    while done < trials:
        _restore(frontier, initial[0])
        _restore(held, initial[1])
        epsilon = max(hyper.floor, hyper.epsilon * hyper.decay**done)
        random = np.array([(seed << 32 | done) & (2**64 - 1)], np.uint64)
        if not _trial(arrays, frontier, held, table, kind, hyper, epsilon, random, path):
            table = resized(table, 2 * len(table.value), 2 * len(table.symbols))
            continue  # the same trial again
        done += 1
        if done % CHECK and done < trials:
            continue
        _restore(frontier, initial[0])
        batches.size[0] = 0
        action = best_actions(table)
        run(arrays, frontier, table, action, kind, batches)
        count = int(batches.size[0])
        curve.append((done, count))
        if count <= best:  # among equals the later one has seen more states
            best, best_table, best_action = count, _copied(table), action
        if progress:
            progress(done, best)
        if done % STOP == 0 and best == bound:
            break
    training = Training(
        nodes=len(dag),
        lower_bound=bound,
        batches=best,
        trials=done,
        seed=seed,
        hyper=hyper._asdict(),
        curve=tuple(curve),
        seconds=time.perf_counter() - begun,
    )
    return FsmPolicy(dag.types, encoding, best_table, best_action, training)


def _copied(arrays: Arrays) -> Arrays:
    """A named tuple with copies of its arrays."""
    return type(arrays)(*(x.copy() if isinstance(x, np.ndarray) else x for x in arrays))


def _restore(arrays: Arrays, to: Arrays) -> None:
    """Bring the arrays of a named tuple back to those of a copy."""
    for mine, theirs in zip(arrays, to, strict=True):
        if isinstance(mine, np.ndarray):
            np.copyto(mine, theirs)


@njit
def _uniform(random: NDArray[np.uint64]) -> float:
    """The next number in [0, 1) (splitmix64): its state is ours, so a seed means the same everywhere."""
    random[0] += np.uint64(0x9E3779B97F4A7C15)
    z = random[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return np.float64(z >> np.uint64(11)) * 2.0**-53


class Path(NamedTuple):
    """What happened in a trial: at each step the state, the type taken, the reward."""

    state: Ints
    action: Ints
    reward: NDArray[np.float64]


@njit
def _trial(
    edges: Edges,
    frontier: Frontier,
    held: HeldBack,
    table: Table,
    encoding: int,
    hyper: Hyper,
    epsilon: float,
    random: NDArray[np.uint64],
    path: Path,
) -> bool:
    """Execute the graph, exploring, and learn from it; False, with nothing learned, if the table got full."""
    state = np.empty(len(held.size) + 1, np.int32)
    done, steps = 0, 0
    while done < len(edges.type):
        if table.size[0] == len(table.value) or table.ptr[table.size[0]] + len(state) > len(table.symbols):
            return False
        length = encode(encoding, frontier, state)
        s = find(table, state, length)
        if s < 0:
            s = add(table, state, length, -1 - s)
        a = _choose(table, s, frontier, epsilon, random)
        ready = frontier.tail[a] - frontier.head[a]
        path.state[steps] = s
        path.action[steps] = a
        path.reward[steps] = hyper.alpha * ready / held.size[a] - 1.0  # Eq. 1
        release(edges, held, frontier, a)
        execute(edges, frontier, a)
        steps += 1
        done += ready
    _update(table, path, steps, hyper)
    return True


@njit
def _choose(table: Table, s: int, frontier: Frontier, epsilon: float, random: NDArray[np.uint64]) -> int:
    """A ready type: with probability epsilon any, else the one with the highest Q-value.

    Rewards are at most 0 for alpha <= 1, so that a type not tried yet, with its 0, comes before the others.
    """
    explore = _uniform(random) < epsilon
    choices, best = 0, -1
    for t in range(len(frontier.head)):
        if frontier.tail[t] > frontier.head[t]:
            choices += 1
            if best < 0 or (not explore and table.value[s, t] > table.value[s, best]):
                best = t
    if explore:
        skip = int(_uniform(random) * choices)
        for t in range(best, len(frontier.head)):
            if frontier.tail[t] > frontier.head[t]:
                if skip == 0:
                    return t
                skip -= 1
    return best


@njit
def _update(table: Table, path: Path, steps: int, hyper: Hyper) -> None:
    """Move each step's Q-value towards its n-step return.

    The return is the sum of the next n rewards and the highest Q-value of the state after them, of the
    types tried there.
    """
    value, visits = table.value, table.visits
    for i in range(steps):
        s, a = path.state[i], path.action[i]
        end = min(i + hyper.steps, steps)
        total = 0.0
        for k in range(i, end):
            total += path.reward[k]
        if end < steps:
            ahead, highest = path.state[end], -np.inf
            for t in range(value.shape[1]):
                if visits[ahead, t] > 0:
                    highest = max(highest, value[ahead, t])
            if highest > -np.inf:
                total += highest
        visits[s, a] += 1
        rate = max(hyper.rate, 1.0 / visits[s, a])
        value[s, a] += rate * (total - value[s, a])
