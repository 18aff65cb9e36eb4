"""Tabular Q-learning of an FSM's transitions with n-step returns (paper, 2.3)."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.graph.bounds import lower_bound, recurrent_types
from abw.core.graph.dag import Dag
from abw.core.jit.decorators import inner, njit
from abw.core.jit.splitmix import GOLDEN, fraction, mix
from abw.core.policy.cost import Cost, cost_of, counting, least_cost, overhead, relative, sum_cost
from abw.core.policy.learned.fsm import FsmPolicy, Training, follow, paths_for
from abw.core.policy.learned.states import (
    CRITICAL,
    ENCODINGS,
    Encoding,
    Table,
    add,
    best_actions,
    find,
    new_state,
    new_table,
    observe,
    resized,
)
from abw.core.policy.rules.critical import Paths, critical_type, step_paths
from abw.core.policy.rules.frontier import Edges, Frontier, edges, execute, start
from abw.core.policy.rules.sufficient import HeldBack, held_back, nothing_held, release

Ints = NDArray[np.int32]
Arrays = TypeVar("Arrays", bound=tuple[Any, ...])
Reward = Literal["paper", "critical"]
REWARDS: tuple[Reward, ...] = get_args(Reward)
PAPER = 0

BEST_OF: tuple[Encoding, ...] = ("base", "sort", "critical")
CHECK = 10  # trials between two looks at the greedy policy
STOP = 50  # trials between two looks at the lower bound, as in the paper
MET = 1.0 + 1e-9  # a cost is a sum that rounding blurs: so near to the least one it is that


class TooManyStatesError(AbwError):
    """There are more states than a policy may have."""


class Hyper(NamedTuple):
    """The learner's constants: one set for all models, chosen on trees, lattices, chains and pairs.

    `alpha` weighs the reward's second term; `steps` is the n of the n-step returns; a trial explores with
    probability max(`floor`, `epsilon` * `decay` ** trial).
    """

    alpha: float = 1.0
    rate: float = 0.05
    steps: int = 2
    epsilon: float = 0.5
    decay: float = 0.99
    floor: float = 0.05


def learn(
    dag: Dag,
    *,
    encoding: Encoding = "sort",
    phases: int = 0,
    reward: Reward | None = None,
    also: Sequence[Dag] = (),
    seed: int = 0,
    trials: int = 1000,
    hyper: Hyper | None = None,
    cost: Cost | None = None,
    most: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> FsmPolicy:
    """Learn a policy on one graph; the best greedy policy seen is kept, not the last one.

    `phases`: see `observe`. The reward of type a's batch is -1 + alpha * f. With `paper` (Eq. 1), f is
    |Frontier_a(G)| / |Frontier(G^a)|; with `critical`, f is 1 where a ready node of type a is before the
    longest path, else 0. By default the paper's encodings have the paper's reward, but not on graphs with
    more than eight recurrent types, where it takes too long. The trials go over the graph and those of `also`
    (parts of it, say) in turn; with them, what is learned suits other graphs better.

    Every tenth trial is followed by a run of each graph without exploration; the best policy has the smallest
    sum of batches / lower bound. Learning ends early when, at a multiple of 50 trials, that policy meets the
    lower bound of every graph. With a `cost`, it and the least cost stand for batches and bound, and each
    reward is multiplied by the batch's `overhead`.

    `progress(trial, batches)` is called after every such run with the batches of the best policy on `dag`; it
    may raise to stop. Same arguments, same policy, bit for bit (its seconds apart). Raises AbwError for an
    empty graph, graphs of different types, or no trials, TooManyStatesError for more states than `most`.
    About 20 ns a node and trial with the reward `critical`, 50 with `paper`.
    """
    if any(d.types != dag.types for d in also):
        raise AbwError("a policy is learned from graphs of the same types")
    reward = reward or _reward(dag, encoding)
    price = counting(len(dag.types)) if cost is None else relative(cost)
    lessons = [_Lesson.of(d, encoding, reward, price) for d in (dag, *also)]
    if any(len(lesson.dag) == 0 for lesson in lessons) or trials < 1:
        raise AbwError("a policy is learned from graphs that are not empty, in at least one trial")
    hyper = hyper or Hyper()
    begun = time.perf_counter()
    table = new_table(len(dag.types), most or 1024, 8 * (most or 1024))
    lowest, best, best_table, best_action = np.inf, 0, table, np.empty(0, np.int32)
    curve: list[tuple[int, int]] = []
    done = 0
    while done < trials:
        lesson = lessons[done % len(lessons)]
        random = np.array([(seed << 32 | done) & (2**64 - 1)], np.uint64)
        epsilon = max(hyper.floor, hyper.epsilon * hyper.decay**done)
        if not lesson.explore(table, phases, hyper, epsilon, random):
            if most is not None and len(table.value) >= most:
                raise TooManyStatesError(f"the FSM has more than {most} states, or {8 * most} types in them")
            table = resized(table, 2 * len(table.value), 2 * len(table.symbols))
            continue  # the same trial again
        done += 1
        if done % CHECK and done < trials:
            continue
        action = best_actions(table)
        taken = [lesson.greedy(table, action, phases) for lesson in lessons]
        batches, ratio = taken[0][0], sum(ratio for _, ratio in taken)
        curve.append((done, batches))
        if ratio <= lowest:  # among equals the later one has seen more states
            lowest, best, best_table, best_action = ratio, batches, _copied(table), action
        if progress:
            progress(done, best)
        if done % STOP == 0 and lowest <= len(lessons) * MET:
            break
    training = Training(
        nodes=len(dag),
        lower_bound=int(lower_bound(dag).sum()),
        batches=best,
        trials=done,
        seed=seed,
        reward=reward,
        hyper=hyper._asdict(),
        curve=tuple(curve),
        seconds=time.perf_counter() - begun,
    )
    return FsmPolicy(dag.types, encoding, phases, best_table, best_action, training)


def learn_best(
    dag: Dag,
    *,
    also: Sequence[Dag] = (),
    seed: int = 0,
    trials: int = 1000,
    cost: Cost | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> FsmPolicy:
    """Learn with the encodings base, sort and critical in turn; the policy with the fewest batches in all.

    Counted on `dag` and on those in `also`; of equals the later one, which generalises better. With a
    `cost`, the cheapest. Ends with the first that meets the bound: `base` does on trees and chains. Each
    encoding has `trials` trials; `progress` counts on. Raises AbwError as `learn` does.
    """
    best: FsmPolicy | None = None
    lowest = np.inf
    price = counting(len(dag.types)) if cost is None else cost
    dags = (dag, *also)
    least = sum(least_cost(d, price) for d in dags)
    shown: Callable[[int, int], None] | None = None
    for turn, encoding in enumerate(BEST_OF):
        if progress:
            shown = functools.partial(_shifted, progress, turn * trials)
        policy = learn(dag, encoding=encoding, also=also, seed=seed, trials=trials, cost=cost, progress=shown)
        found = sum(cost_of(policy.schedule(d), price) for d in dags)
        if best is None or found <= lowest:
            best, lowest = policy, found
        if lowest <= least * MET:
            break
    assert best is not None
    return best


def _shifted(progress: Callable[[int, int], None], by: int, trial: int, batches: int) -> None:
    progress(by + trial, batches)


def _reward(dag: Dag, encoding: Encoding) -> Reward:
    affordable = np.count_nonzero(recurrent_types(dag) >= 0) <= 8
    return "paper" if encoding != "critical" and affordable else "critical"


class Watched(NamedTuple):
    """A graph under execution with all that a trial keeps up to date."""

    frontier: Frontier
    paths: Paths
    held: HeldBack


class Path(NamedTuple):
    """What happened in a trial: at each step the state, the type taken, the reward."""

    state: Ints
    action: Ints
    reward: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Lesson:
    """A graph to learn from, with the arrays that every trial uses anew."""

    dag: Dag
    edges: Edges
    encoding: Encoding
    reward: Reward
    cost: Cost
    least: float
    first: Watched
    now: Watched
    state: Ints
    path: Path

    @staticmethod
    def of(dag: Dag, encoding: Encoding, reward: Reward, cost: Cost) -> _Lesson:
        n, frontier = len(dag), start(dag)
        asks = "critical" if reward == "critical" else encoding
        held = held_back(dag) if reward == "paper" else nothing_held()
        first = Watched(frontier, paths_for(asks, dag, frontier), held)
        path = Path(np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.float64))
        least = least_cost(dag, cost)
        return _Lesson(
            dag, edges(dag), encoding, reward, cost, least,
            first, _copied(first), new_state(dag), path,
        )  # fmt: skip

    def explore(
        self, table: Table, phases: int, hyper: Hyper, epsilon: float, random: NDArray[np.uint64]
    ) -> bool:
        """Run a trial; False, with nothing learned, if the table got full."""
        _restore(self.now, self.first)
        kinds = ENCODINGS.index(self.encoding), REWARDS.index(self.reward)
        return trial(
            self.edges, self.now, table, *kinds, phases, hyper, epsilon, random, self.cost,
            self.state, self.path,
        )  # fmt: skip

    def greedy(self, table: Table, action: Ints, phases: int) -> tuple[int, float]:
        """What a policy takes on this graph: its batches, and its cost to the least cost."""
        schedule = follow(self.dag, table, action, self.encoding, phases)
        cost = sum_cost(self.cost, schedule.type, schedule.ptr)
        return len(schedule), cost / self.least if self.least > 0 else 1.0 + cost


def _copied(arrays: Arrays) -> Arrays:
    """Named tuples of arrays, with copies of the arrays."""
    copies = (_copied(x) if isinstance(x, tuple) else np.copy(x) for x in arrays)
    return type(arrays)(*copies)


def _restore(arrays: tuple[Any, ...], to: tuple[Any, ...]) -> None:
    """Bring the arrays in named tuples back to those of a copy."""
    for mine, theirs in zip(arrays, to, strict=True):
        if isinstance(mine, tuple):
            _restore(mine, theirs)
        else:
            np.copyto(mine, theirs)


@inner
def _uniform(random: NDArray[np.uint64]) -> float:
    """The next number in [0, 1) (splitmix64): its state is ours, so a seed means the same everywhere."""
    random[0] += np.uint64(GOLDEN)
    return fraction(mix(random[0]))


@njit
def trial(
    edges: Edges,
    watched: Watched,
    table: Table,
    encoding: int,
    reward: int,
    phases: int,
    hyper: Hyper,
    epsilon: float,
    random: NDArray[np.uint64],
    cost: Cost,
    state: Ints,
    path: Path,
) -> bool:
    """Execute the graph, exploring, and learn from it; False, with nothing learned, if the table got full."""
    frontier, paths, held = watched
    done, steps = 0, 0
    while done < len(edges.type):
        if table.size[0] == len(table.value) or table.ptr[table.size[0]] + len(state) > len(table.symbols):
            return False
        length = observe(encoding, phases, frontier, paths, state)
        s = find(table, state, length)
        if s < 0:
            s = add(table, state, length, -1 - s)
        a = _choose(table, s, frontier, epsilon, random)
        ready = frontier.tail[a] - frontier.head[a]
        if reward == PAPER:
            share = ready / held.size[a]
            release(edges, held, frontier, a)
        else:
            share = 1.0 if a == critical_type(paths) else 0.0
        path.state[steps] = s
        path.action[steps] = a
        path.reward[steps] = (hyper.alpha * share - 1.0) * overhead(cost, a, ready)
        execute(edges, frontier, a)
        if encoding == CRITICAL or reward != PAPER:
            step_paths(frontier, paths, a)
        steps += 1
        done += ready
    _update(table, path, steps, hyper)
    return True


@inner
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


@inner
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
