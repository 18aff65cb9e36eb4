"""How PyTorch trains specs/torch-treelstm.yaml: 40 steps from the weights that `make.py` wrote.

`python tests/golden/torch/make_trajectory.py` writes `trajectory.npz`: the loss of each step, and the weights
after the last. Needs torch and safetensors; the tests do not.
"""

from __future__ import annotations

import re

import numpy as np
import torch
from make import DATA, HERE, LIMIT, TreeLSTM, trees  # type: ignore[import-not-found]
from safetensors.torch import load_file

STEPS, BATCH, RATE, DECAY = 40, 4, 0.05, 1e-4


def main() -> None:
    """AdaGrad on the labels of all nodes, four trees a step, with decay, of tables that of rows read."""
    torch.set_num_threads(1)
    model = TreeLSTM()
    model.load_state_dict(load_file(HERE / "torch-treelstm.safetensors"))
    every = list(trees())
    lines = (DATA / "trees.txt").read_text().splitlines()[:LIMIT]
    labels = [torch.tensor([int(n) for n in re.findall(r"\((\d)", line)]) for line in lines]
    table = model.embed.weight
    others = [value for value in model.parameters() if value is not table]
    optimizer = torch.optim.Adagrad([{"params": others, "weight_decay": DECAY}, {"params": [table]}], lr=RATE)
    losses = []
    for step in range(STEPS):
        first = step * BATCH % LIMIT
        scores = [torch.stack(model(tree)) for tree in every[first : first + BATCH]]
        wanted = torch.cat(labels[first : first + BATCH])
        loss = torch.nn.functional.cross_entropy(torch.cat(scores), wanted, reduction="sum")
        losses.append(float(loss.detach()))
        optimizer.zero_grad()
        (loss / BATCH).backward()
        read = table.grad.abs().sum(1, keepdim=True) > 0
        table.grad += DECAY * read * table.detach()
        optimizer.step()
    state = {name: value.detach().numpy() for name, value in model.state_dict().items()}
    np.savez_compressed(HERE / "trajectory.npz", losses=np.array(losses), **state)


if __name__ == "__main__":
    main()
