"""PyTorch batched by hand, as its users write it: greedy decoding, and a shift-reduce parser.

Both do what the specs say, with abw's weights, from what was computed before growth; all instances go on
together, those that are done are left out or masked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

# So many hypotheses of a sentence a beam keeps.
WIDTH = 4

Arrays = Mapping[str, NDArray[np.float32]]


class Greedy:
    """Greedy decoding by an LSTM; a sentence is masked once it has as many words as are wanted."""

    def __init__(self, torch: Any, weights: Arrays, first: Arrays, lengths: NDArray[np.int64]) -> None:  # noqa: ANN401
        """`first`: the states h and c (n, hidden) that decoding begins with; `lengths` (n,)."""
        self.torch, given = torch, torch.from_numpy
        hidden, embed = weights["decoder.Wi"].shape
        self.cell = torch.nn.LSTMCell(embed, hidden)
        self.out = torch.nn.Linear(hidden, len(weights["score.b"]))
        gates = "ifuo"  # PyTorch's order
        with torch.no_grad():
            for parameter, name in (
                (self.cell.weight_ih, "W"),
                (self.cell.weight_hh, "U"),
                (self.cell.bias_ih, "b"),
            ):
                parameter.copy_(given(np.concatenate([weights[f"decoder.{name}{gate}"] for gate in gates])))
            self.cell.bias_hh.zero_()
            self.out.weight.copy_(given(weights["score.W"]))
            self.out.bias.copy_(given(weights["score.b"]))
        self.table = given(weights["targets"])
        self.first = given(first["h"]), given(first["c"])
        self.lengths = given(lengths)

    def run(self) -> list[list[int]]:
        """The words of each sentence."""
        torch = self.torch
        with torch.inference_mode():
            h, c = self.first
            word = torch.zeros(len(h), dtype=torch.long)
            said, step = [], 0
            while True:
                h, c = self.cell(self.table[word], (h, c))
                word = self.out(h).argmax(1)
                said.append(word)
                step += 1
                if bool((self.lengths <= step).all()):
                    break
            words = torch.stack(said, 1).tolist()
        return [row[:length] for row, length in zip(words, self.lengths.tolist(), strict=True)]


class Beam(Greedy):
    """Beam search with `WIDTH` hypotheses a sentence, all of which go on until the longest has its words."""

    def run(self) -> list[list[int]]:
        """The words of each sentence's likeliest hypothesis."""
        torch = self.torch
        with torch.inference_mode():
            h, c = (state.repeat_interleave(WIDTH, 0) for state in self.first)
            count, longest = len(self.lengths), int(self.lengths.max())
            word = torch.zeros(len(h), dtype=torch.long)
            base = WIDTH * torch.arange(count)[:, None]
            said, best = (torch.zeros(n, longest, dtype=torch.long) for n in (len(h), count))
            total = torch.full((count, WIDTH), -torch.inf)
            total[:, 0] = 0.0
            for step in range(longest):
                h, c = self.cell(self.table[word], (h, c))
                shares = torch.log_softmax(self.out(h), 1)
                words = shares.shape[1]
                shares = (total[:, :, None] + shares.view(count, WIDTH, -1)).view(count, -1)
                total, number = shares.topk(WIDTH, 1)
                came, word = (base + number // words).view(-1), (number % words).view(-1)
                h, c, said = h[came], c[came], said[came]
                said[:, step] = word
                ends = (self.lengths == step + 1).nonzero()[:, 0]
                best[ends] = said[WIDTH * ends]
            found = best.tolist()
        return [row[:length] for row, length in zip(found, self.lengths.tolist(), strict=True)]


class GreedyLoop:
    """The same as `Greedy` by JAX: a `while_loop` compiled ahead, all sentences masked until all are done."""

    def __init__(self, jax: Any, weights: Arrays, first: Arrays, lengths: NDArray[np.int64]) -> None:  # noqa: ANN401
        xp = jax.numpy
        self.lengths, longest = lengths.tolist(), int(lengths.max())
        gates = "ifou"
        names = ([f"decoder.{part}{gate}" for gate in gates] for part in "WUb")
        w, u, b = (np.concatenate([weights[name] for name in row]) for row in names)
        joined = np.concatenate([w, u], axis=1).T.copy()
        self.given = [xp.asarray(x) for x in (weights["targets"], joined, b, weights["score.W"].T.copy())]
        self.given += [xp.asarray(x) for x in (weights["score.b"], first["h"], first["c"], lengths)]

        def run(table: Any, joined: Any, b: Any, out: Any, bias: Any, h: Any, c: Any, wanted: Any) -> Any:  # noqa: ANN401
            def step(state: Any) -> Any:  # noqa: ANN401
                word, h, c, at, said = state
                i, f, o, u = xp.split(xp.concatenate([table[word], h], 1) @ joined + b, 4, axis=1)
                c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * xp.tanh(u)
                h = jax.nn.sigmoid(o) * xp.tanh(c)
                word = (h @ out + bias).argmax(1).astype(xp.int32)
                return word, h, c, at + 1, said.at[:, at].set(word)

            start = xp.zeros(len(h), xp.int32), h, c, 0, xp.zeros((len(h), longest), xp.int32)
            return jax.lax.while_loop(lambda state: ~(wanted <= state[3]).all(), step, start)[4]

        self._run = jax.jit(run)

    def run(self) -> list[list[int]]:
        """The words of each sentence."""
        said = np.asarray(self._run(*self.given)).tolist()
        return [row[:length] for row, length in zip(said, self.lengths, strict=True)]


class Parser:
    """The parser of `specs/stackrnn.yaml`: entries in rows of one memory, links as index tensors."""

    def __init__(
        self,
        torch: Any,  # noqa: ANN401
        weights: Arrays,
        words: list[list[int]],
        buffer: list[NDArray[np.float32]],
        most: int,
    ) -> None:
        """`words`: rows of the table; `buffer`: of each sentence its tokens' states (tokens, hidden)."""
        self.torch = torch
        self.w = {name: torch.tensor(values) for name, values in weights.items()}
        self.turned = {
            name: torch.cat([self.w[f"{name}.{p}"].T for p in parts]).contiguous()
            for name, parts in (
                ("stack", "WU"),
                ("history", "WU"),
                ("compose", "WU"),
                ("score", ("Ws", "Wb", "Wh")),
            )
        }
        self.most, self.count = most, len(words)
        longest = max(map(len, words))
        self.words = torch.zeros(self.count, longest + 1, dtype=torch.long)
        hidden = len(weights["stack.b"])
        self.buffer = torch.zeros(self.count, longest + 1, hidden)
        for i, (row, states) in enumerate(zip(words, buffer, strict=True)):
            self.words[i, : len(row)] = torch.tensor(row)
            self.buffer[i, : len(row)] = torch.from_numpy(states)
        self.lengths = torch.tensor([len(row) for row in words])

    def _rnn(self, name: str, x: Any, h: Any) -> Any:  # noqa: ANN401
        torch = self.torch
        return torch.tanh(torch.addmm(self.w[f"{name}.b"], torch.cat((x, h), 1), self.turned[name]))

    def run(self) -> list[list[int]]:
        """The actions of each sentence."""
        torch = self.torch
        with torch.inference_mode():
            return self._parse()

    def _parse(self) -> list[list[int]]:
        torch, w = self.torch, self.w
        hidden = self.buffer.shape[2]
        rows = 1 + 2 * int(self.lengths.sum())
        # entry 0 is no entry
        value, stack = torch.zeros(rows, hidden), torch.zeros(rows, hidden)
        below = torch.zeros(rows, dtype=torch.long)
        taken = 1
        live = torch.arange(self.count)
        top, front = torch.zeros(self.count, dtype=torch.long), torch.zeros(self.count, dtype=torch.long)
        history, moved = torch.zeros(self.count, hidden), torch.zeros(self.count, hidden)
        done: list[list[int]] = [[] for _ in range(self.count)]
        for _ in range(self.most):
            history = self._rnn("history", moved, history)
            seen = torch.cat((stack[top], self.buffer[live, front], history), 1)
            hinge = torch.relu(torch.addmm(w["score.b"], seen, self.turned["score"]))
            scores = torch.addmm(w["score.c"], hinge, w["score.V"].T)
            some, two = front < self.lengths[live], below[top] > 0
            may = torch.stack((some, two, two), 1)
            action = scores.masked_fill(~may, -torch.inf).argmax(1)
            going = may.any(1)
            for i, a, g in zip(live.tolist(), action.tolist(), going.tolist(), strict=True):
                done[i].append(a if g else -1)
            if not bool(going.all()):
                live, top, front, history, action = (x[going] for x in (live, top, front, history, action))
            if not len(live):
                break
            new = torch.arange(taken, taken + len(live))
            taken += len(live)
            shifts = action == 0
            at = shifts.nonzero()[:, 0]
            value[new[at]] = w["words"][self.words[live[at], front[at]]]
            at = (~shifts).nonzero()[:, 0]
            upper, lower = top[at], below[top[at]]
            left = action[at] == 1
            head, child = torch.where(left, lower, upper), torch.where(left, upper, lower)
            value[new[at]] = self._rnn("compose", value[head], value[child])
            under = top.clone()
            under[at] = below[lower]
            below[new] = under
            stack[new] = self._rnn("stack", value[new], stack[under])
            top, front, moved = new, front + shifts, w["moves"][action]
        return done
