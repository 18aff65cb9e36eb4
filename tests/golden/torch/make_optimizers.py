"""What PyTorch's optimisers make of a matrix and a vector in six steps: `optimizers.npz`.

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
    start = {"W": random.standard_normal((3, 5)), "b": random.standard_normal(4)}
    found: dict[str, Any] = {name: value.astype(np.float32) for name, value in start.items()}
    for step in range(STEPS):
        for name, value in start.items():
            found[f"grad.{step}.{name}"] = random.standard_normal(value.shape).astype(np.float32)
    makers: dict[str, Any] = {
        "sgd": lambda groups: torch.optim.SGD(groups, lr=RATES["sgd"]),
        "momentum": lambda groups: torch.optim.SGD(groups, lr=RATES["momentum"], momentum=0.9),
        "adam": lambda groups: torch.optim.Adam(groups, lr=RATES["adam"]),
        "adamw": lambda groups: torch.optim.AdamW(groups, lr=RATES["adamw"]),
        "adagrad": lambda groups: torch.optim.Adagrad(groups, lr=RATES["adagrad"]),
    }
    for optimizer, make in makers.items():
        params = {name: torch.tensor(found[name], requires_grad=True) for name in start}
        groups = [
            {"params": [params["W"]], "weight_decay": DECAY},
            {"params": [params["b"]], "weight_decay": 0.0},
        ]
        made = make(groups)
        for step in range(STEPS):
            for name, param in params.items():
                param.grad = torch.tensor(found[f"grad.{step}.{name}"])
            made.step()
            for name, param in params.items():
                found[f"{optimizer}.{step}.{name}"] = param.detach().numpy().copy()
    np.savez_compressed(HERE / "optimizers.npz", **found)


if __name__ == "__main__":
    main()
