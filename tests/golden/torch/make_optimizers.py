"""What PyTorch's optimisers make of a matrix, a vector and a table in six steps: `optimizers.npz`.

`python tests/golden/torch/make_optimizers.py` writes it anew. Needs torch; the tests do not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

HERE = Path(__file__).resolve().parent
STEPS = 6
RATES = {"sgd": 0.1, "momentum": 0.05, "adam": 0.01, "adamw": 0.01, "adagrad": 0.05}
DECAY = 0.1


def main() -> None:
    """Write the start, the gradients, and what each optimiser made of them."""
    random = np.random.default_rng(0)
    start = {
        "W": random.standard_normal((3, 5)),
        "b": random.standard_normal(4),
        "T": random.standard_normal((4, 3)),
    }
    found: dict[str, Any] = {name: value.astype(np.float32) for name, value in start.items()}
    for step in range(STEPS):
        for name, value in start.items():
            found[f"grad.{step}.{name}"] = random.standard_normal(value.shape).astype(np.float32)
    makers: dict[str, Any] = {
        "sgd": lambda params: torch.optim.SGD(params, lr=RATES["sgd"], weight_decay=DECAY),
        "momentum": lambda params: torch.optim.SGD(
            params, lr=RATES["momentum"], momentum=0.9, weight_decay=DECAY
        ),
        "adam": lambda params: torch.optim.Adam(params, lr=RATES["adam"], weight_decay=DECAY),
        "adamw": lambda params: torch.optim.AdamW(params, lr=RATES["adamw"], weight_decay=DECAY),
        "adagrad": lambda params: torch.optim.Adagrad(params, lr=RATES["adagrad"], weight_decay=DECAY),
    }
    for optimizer, make in makers.items():
        params = {name: torch.tensor(found[name], requires_grad=True) for name in start}
        made = make(list(params.values()))
        for step in range(STEPS):
            for name, param in params.items():
                param.grad = torch.tensor(found[f"grad.{step}.{name}"])
            made.step()
            for name, param in params.items():
                found[f"{optimizer}.{step}.{name}"] = param.detach().numpy().copy()
    np.savez_compressed(HERE / "optimizers.npz", **found)


if __name__ == "__main__":
    main()
