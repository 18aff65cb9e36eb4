"""Models for one instance, in the shapes that public repositories have."""

from __future__ import annotations

import random
from typing import Any

import torch
from torch import nn
from torch.autograd import Variable
from torch.nn import functional as F  # noqa: N812

from abw.bench.pytorch.single import Node, SentenceEncoder
from tests.torch.odd import RowsWritten

H = 8
rng = random.Random(0)


def tree(depth=4):
    children = rng.choice((0, 1, 2, 2, 3)) if depth else 0
    return Node(rng.randrange(50), [tree(depth - 1) for _ in range(children)])


def binary(n):
    if n == 1:
        return rng.randrange(50)
    k = rng.randrange(1, n)
    return (binary(k), binary(n - k))


class Spinn(nn.Module):
    """Shift-reduce over given transitions; a state is one vector of h and c; a tracker; lists; self.state."""

    state: Any

    def __init__(self, predict=False):
        super().__init__()
        self.predict = predict
        self.embed = nn.Embedding(50, 2 * H)
        self.reduce = nn.Linear(2 * H + H, 5 * H)
        self.rnn = nn.LSTMCell(3 * H, H)
        self.trans = nn.Linear(H, 1)

    def track(self, stack, buffer):
        x = torch.cat([stack[-2].chunk(2)[0], stack[-1].chunk(2)[0], buffer[0].chunk(2)[0]]).view(1, -1)
        self.state = self.rnn(x, self.state)
        return self.state[0].view(-1)

    def forward(self, item):
        words, transitions = item
        buffer = [self.embed(torch.tensor(w)) for w in words] + [torch.zeros(2 * H)]
        stack = [torch.zeros(2 * H), torch.zeros(2 * H)]
        self.state = (torch.zeros(1, H), torch.zeros(1, H))
        taken = []
        for step in range(2 * len(words) - 1):
            t = self.track(stack, buffer)
            if self.predict:
                can_shift, can_reduce = (len(buffer) > 1, len(stack) > 3)
                shift = can_shift and (not can_reduce or bool(self.trans(t) > 0))
            else:
                shift = transitions[step] == 0
            taken.append(int(not shift))
            if shift:
                stack.append(buffer.pop(0))
            else:
                right, left = (stack.pop(), stack.pop())
                h1, c1 = left.chunk(2)
                h2, c2 = right.chunk(2)
                a, i, f1, f2, o = self.reduce(torch.cat([h1, h2, t])).chunk(5)
                c = a.tanh() * i.sigmoid() + f1.sigmoid() * c1 + f2.sigmoid() * c2
                stack.append(torch.cat([o.sigmoid() * c.tanh(), c]))
        return (stack[-1], taken)


def transitions(n):
    out, stack, left = ([], 0, n)
    while left or stack > 1:
        if left and (stack < 2 or rng.random() < 0.5):
            out.append(0)
            stack += 1
            left -= 1
        else:
            out.append(1)
            stack -= 1
    return out


class TopDown(nn.Module):
    """A GRU of nn.Linear from the root to the leaves: a dict of states, max over the leaves, isinstance."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, H)
        self.dropout = nn.Dropout(0.3)
        self.out = nn.Linear(H, 4)
        for n in "rzh":
            setattr(self, f"W_{n}", nn.Linear(H, H))
            setattr(self, f"U_{n}", nn.Linear(H, H))

    def node_forward(self, x, parent):
        e = self.embedding(x) if isinstance(x, torch.Tensor) else x
        r = torch.sigmoid(self.W_r(e) + self.U_r(parent))
        z = torch.sigmoid(self.W_z(e) + self.U_z(parent))
        n = torch.tanh(self.W_h(e) + self.U_h(parent * r))
        return (1 - z) * parent + z * n

    def forward(self, tree):
        hidden, leaves, todo = ({}, [], [(tree, None)])
        while todo:
            node, parent = todo.pop()
            word = torch.LongTensor([node.word]).squeeze(0)
            hidden[id(node)] = (
                self.embedding(word) if parent is None else self.node_forward(word, hidden[id(parent)])
            )
            if node.is_leaf():
                leaves.append(hidden[id(node)])
            todo += [(c, node) for c in node.children]
        pooled, _ = torch.max(torch.stack(leaves), dim=0)
        return F.softmax(self.out(self.dropout(pooled)), dim=-1)


class AstNN(nn.Module):
    """Statements' trees, summed upwards; max over all nodes; nn.GRU both ways over the statements."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, H)
        self.W_c = nn.Linear(H, H)
        self.gru = nn.GRU(H, H, bidirectional=True, batch_first=True)
        self.out = nn.Linear(2 * H, 5)

    def encode(self, node):
        x = self.W_c(self.embedding(Variable(torch.LongTensor([node.word]))))
        for c in node.children:
            x = x + self.encode(c)
        self.node_list.append(x)
        return x

    def forward(self, statements):
        rows = []
        for st in statements:
            self.node_list: list[Any] = []
            self.encode(st)
            rows.append(torch.max(torch.cat(self.node_list, 0), 0)[0])
        h, _ = self.gru(torch.stack(rows).unsqueeze(0))
        return self.out(torch.max(h, 1)[0])


class Messages(nn.Module):
    """Messages over a tree both ways: a dict by edges, sums over neighbours, gates of nn.Linear."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, H)
        self.W_z, self.W_r, self.U_r, self.W_h, self.W = (
            nn.Linear(2 * H, H),
            nn.Linear(H, H, bias=False),
            nn.Linear(H, H),
            nn.Linear(2 * H, H),
            nn.Linear(2 * H, H),
        )

    def gru(self, x, nei):
        total = nei.sum(dim=0)
        z = torch.sigmoid(self.W_z(torch.cat([x, total], dim=-1)))
        r = torch.sigmoid(self.W_r(x) + self.U_r(nei))
        pre = torch.tanh(self.W_h(torch.cat([x, (r * nei).sum(dim=0)], dim=-1)))
        return (1.0 - z) * total + z * pre

    def forward(self, root):
        h: Any = {}
        order: list[Any] = []

        def walk(node, parent):
            for c in node.children:
                walk(c, node)
                order.append((c, node))

        walk(root, None)
        near: Any = {}
        for c, p in order:
            near.setdefault(id(c), []).append(p)
            near.setdefault(id(p), []).append(c)
        for u, v in order + [(p, c) for c, p in reversed(order)]:
            x = self.embedding(torch.tensor(u.word))
            before = [h[id(w), id(u)] for w in near[id(u)] if w is not v]
            h[id(u), id(v)] = self.gru(x, torch.stack(before) if before else torch.zeros(1, H))
        total = (
            torch.stack([h[id(w), id(root)] for w in near.get(id(root), [])]).sum(0)
            if near
            else torch.zeros(H)
        )
        return torch.relu(self.W(torch.cat([self.embedding(torch.tensor(root.word)), total])))


class TreeConv(nn.Module):
    """A node with its two children is a window; layer norm; the largest over the nodes."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, H)
        self.conv = nn.ModuleList([nn.Linear(3 * H, H) for _ in range(2)])
        self.norm = nn.LayerNorm(H)
        self.out = nn.Sequential(nn.Linear(H, H), nn.LeakyReLU(), nn.Linear(H, 1))
        self.zero = nn.Parameter(torch.zeros(H), requires_grad=False)

    def forward(self, tree):

        def first(t):
            return (
                (self.embedding(torch.tensor(t)), None, None)
                if isinstance(t, int)
                else (self.zero, first(t[0]), first(t[1]))
            )

        def layer(conv, t):
            x, lower, r = t
            y = self.norm(
                F.leaky_relu(conv(torch.cat([x, lower[0] if lower else self.zero, r[0] if r else self.zero])))
            )
            return (y, layer(conv, lower) if lower else None, layer(conv, r) if r else None)

        def all_of(t):
            return [t[0]] + (all_of(t[1]) if t[1] else []) + (all_of(t[2]) if t[2] else [])

        t = first(tree)
        for conv in self.conv:
            t = layer(conv, t)
        return self.out(torch.stack(all_of(t)).max(dim=0).values)


class Decoder(nn.Module):
    """A tree decoder: goals on a stack, attention over the encoder's states, the operator by topk."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, H)
        self.enc = nn.GRU(H, H)
        self.attn = nn.Linear(2 * H, H)
        self.score = nn.Linear(H, 1, bias=False)
        self.out = nn.Linear(2 * H, 6)
        self.op = nn.Embedding(6, H)
        self.left = nn.Linear(3 * H, H)
        self.left_g = nn.Linear(3 * H, H)
        self.right = nn.Linear(3 * H, H)
        self.right_g = nn.Linear(3 * H, H)

    def context(self, q, states):
        e = self.score(torch.tanh(self.attn(torch.cat([q.expand(states.size(0), -1), states], dim=1))))
        a = F.softmax(e, dim=0)
        return (a * states).sum(0, keepdim=True)

    def forward(self, words):
        states, last = self.enc(self.embed(torch.tensor(words)).unsqueeze(1))
        states = states.squeeze(1)
        goals = [last[0]]
        said: list[int] = []
        while goals and len(said) < 15:
            q = goals.pop()
            c = self.context(q, states)
            token = self.out(torch.cat([q, c], dim=1)).topk(1)[1].item()
            said.append(token)
            if token < 3:
                x = torch.cat([q, c, self.op(torch.tensor([token]))], dim=1)
                goals.append(torch.tanh(self.right(x)) * torch.sigmoid(self.right_g(x)))
                goals.append(torch.tanh(self.left(x)) * torch.sigmoid(self.left_g(x)))
        return (said, torch.cat(goals).sum(0) if goals else c.sum(0))


class StackRNN:
    def __init__(self, cell, initial, dropout, get_output, empty):
        self.cell, self.dropout, self.s = cell, dropout, [(initial, None)]
        self.get_output, self.empty = get_output, empty

    def push(self, expr, extra=None):
        self.dropout(self.s[-1][0][0])
        self.s.append((self.cell(expr, self.s[-1][0]), extra))

    def pop(self):
        return self.s.pop()[1]

    def embedding(self):
        return self.get_output(self.s[-1][0]) if len(self.s) > 1 else self.empty

    def __len__(self):
        return len(self.s) - 1


class Ner(nn.Module):
    """A transition tagger: valid actions by indexing with a LongTensor, torch.max(...)[1]."""

    def __init__(self):
        super().__init__()
        self.words, self.acts, self.drop = nn.Embedding(50, H), nn.Embedding(3, H), nn.Dropout(0.2)
        self.b, self.s, self.a = (nn.LSTMCell(H, H), nn.LSTMCell(H, H), nn.LSTMCell(H, H))
        self.l1, self.l2 = (nn.Linear(3 * H, H), nn.Linear(H, 3))
        self.empty = nn.Parameter(torch.randn(1, H))
        self.h0, self.c0 = nn.Parameter(torch.randn(1, H)), nn.Parameter(torch.randn(1, H))

    def forward(self, sentence):
        first = (self.h0, self.c0)
        buffer, stack, acts = (
            StackRNN(c, first, self.drop, lambda x: x[0], self.empty) for c in (self.b, self.s, self.a)
        )
        emb = self.drop(self.words(torch.tensor(sentence).unsqueeze(0))).squeeze(0)
        for i in range(emb.size(0)):
            e = emb[emb.size(0) - 1 - i].unsqueeze(0)
            buffer.push(e, e)
        done, logs = ([], [])
        while len(buffer) or len(stack):
            valid = ([0] if len(buffer) else []) + ([1, 2] if len(stack) else [])
            state = torch.cat([buffer.embedding(), stack.embedding(), acts.embedding()], 1)
            hidden = torch.tanh(self.l1(self.drop(state)))
            logits = self.l2(hidden)[0][torch.LongTensor(valid)]
            logs.append(F.log_softmax(logits, dim=0))
            action = valid[torch.max(logs[-1], 0)[1].item()]
            done.append(action)
            e = self.acts(torch.tensor([action]))
            acts.push(e, e)
            if action == 0:
                e = buffer.pop()
                stack.push(e, e)
            else:
                stack.pop()
            if len(done) > 60:
                break
        return (done, hidden)


class Modules(nn.Module):
    """Module networks: a question's program says which modules run; features (k, d) of the instance."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(50, H)
        self.find_i, self.find_w, self.rel, self.ans = (
            nn.Linear(8, H),
            nn.Linear(H, H),
            nn.Bilinear(H, H, H),
            nn.Linear(8, 3),
        )

    def find(self, feats, word):
        return torch.softmax(
            (torch.tanh(self.find_i(feats)) * self.find_w(self.words(torch.tensor(word)))).sum(1), 0
        )

    def run(self, feats, p):
        if p[0] == "find":
            return self.find(feats, p[1])
        if p[0] == "and":
            return torch.minimum(self.run(feats, p[1]), self.run(feats, p[2]))
        return 1 - self.run(feats, p[1])

    def forward(self, item):
        feats, program = item
        a = self.run(feats, program)
        return self.ans(a @ feats)


class Code2vec(nn.Module):
    """A bag of paths with attention, all at once: (k, d) from three embeddings."""

    def __init__(self):
        super().__init__()
        self.v, self.p = (nn.Embedding(50, H), nn.Embedding(50, H))
        self.w = nn.Linear(3 * H, H, bias=False)
        self.a = nn.Parameter(torch.randn(H))
        self.out = nn.Linear(H, 7)

    def forward(self, paths):
        start, path, end = (torch.tensor(c) for c in zip(*paths, strict=False))
        c = torch.tanh(self.w(torch.cat([self.v(start), self.p(path), self.v(end)], dim=1)))
        alpha = F.softmax(c @ self.a, dim=0)
        return self.out((alpha.unsqueeze(1) * c).sum(0))


class Halting(nn.Module):
    """Layers until one is sure; a float of the instance; `while not`."""

    def __init__(self):
        super().__init__()
        self.step = nn.GRUCell(8, H)
        self.halt = nn.Linear(H, 1)
        self.out = nn.Linear(H, 2)

    def forward(self, x):
        h, n, total = (torch.zeros(1, H), 0, 0.0)
        while n < 8:
            h = self.step(x.unsqueeze(0), h)
            n += 1
            p = torch.sigmoid(self.halt(h))
            total += p.item()
            if total > 1.3:
                break
        return (self.out(h), n)


class Recursor(nn.Module):
    """Tensor products: an RNTN whose tensor is a parameter of three dimensions."""

    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(50, 8)
        self.V = nn.Parameter(torch.randn(8, 16, 16) * 0.1)
        self.W = nn.Linear(16, 8)

    def encode(self, t):
        if isinstance(t, int):
            return self.e(torch.tensor([t]))
        x = torch.cat([self.encode(t[0]), self.encode(t[1])], 1)
        return torch.tanh(torch.cat([x @ v @ x.t() for v in self.V], 1) + self.W(x))

    def forward(self, t):
        return self.encode(t)


def sentences(n=6):
    return [[rng.randrange(50) for _ in range(rng.randrange(3, 12))] for _ in range(n)]


def program(d=2):
    if d == 0 or rng.random() < 0.3:
        return ("find", rng.randrange(50))
    return ("not", program(d - 1)) if rng.random() < 0.3 else ("and", program(d - 1), program(d - 1))


CASES: dict[str, Any] = {
    "SPINN, given": (Spinn, lambda: [(w, transitions(len(w))) for w in sentences()]),
    "SPINN, predicted": (lambda: Spinn(True), lambda: [(w, None) for w in sentences()]),
    "top-down tree GRU": (TopDown, lambda: [tree() for _ in range(6)]),
    "AST-NN": (AstNN, lambda: [[tree(3) for _ in range(rng.randrange(1, 5))] for _ in range(6)]),
    "junction-tree messages": (Messages, lambda: [tree() for _ in range(6)]),
    "tree convolution": (TreeConv, lambda: [binary(rng.randrange(2, 12)) for _ in range(6)]),
    "tree decoder, attention": (Decoder, sentences),
    "transition tagger": (Ner, sentences),
    "module network": (Modules, lambda: [(torch.randn(rng.randrange(2, 7), 8), program()) for _ in range(6)]),
    "code2vec": (
        Code2vec,
        lambda: [
            [[rng.randrange(50) for _ in range(3)] for _ in range(rng.randrange(2, 20))] for _ in range(6)
        ],
    ),
    "halting": (Halting, lambda: [torch.randn(8) for _ in range(6)]),
    "RNTN (3-way tensor)": (Recursor, lambda: [binary(rng.randrange(2, 10)) for _ in range(6)]),
    "encoder layer": (lambda: SentenceEncoder(50, H, 3), sentences),
    "rows written in place": (RowsWritten, lambda: [[w % 30 for w in s] for s in sentences()]),
}
