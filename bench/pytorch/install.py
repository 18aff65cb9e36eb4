"""PyTorch and what stands on it, where they are installed."""

from __future__ import annotations

import importlib
import os
from types import SimpleNamespace
from typing import Any

from abw.core.base.errors import AbwError


def torch_or_none() -> Any:  # noqa: ANN401 (a module)
    """PyTorch on one thread; None where it is not installed."""
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(1)
    return torch


def import_torch() -> Any:  # noqa: ANN401 (a module)
    """PyTorch on one thread. Errors: AbwError where it is not installed."""
    if (torch := torch_or_none()) is None:
        raise AbwError(
            "this benchmark compares with PyTorch, which is not installed",
            hint="pip install torch (the build for the CPU is enough)",
        )
    return torch


def import_dgl() -> Any:  # noqa: ANN401 (a module)
    """DGL, None where it is not installed or does not work with what is.

    1.1.3 works with today's PyTorch and `setuptools<71`, `packaging` and `PyYAML`.
    """
    os.environ.setdefault("DGLBACKEND", "pytorch")
    return _import("dgl")


def import_torchfold() -> Any:  # noqa: ANN401 (a module)
    """TorchFold, None where it is not installed.

    0.1.0 looks for `torch.tensor._TensorBase`, which today's PyTorch does not have: it gets that name for
    `torch.Tensor`.
    """
    if module := _import("torchfold.torchfold"):
        torch = importlib.import_module("torch")
        base = SimpleNamespace(_TensorBase=torch.Tensor)
        module.torch = SimpleNamespace(
            tensor=base, chunk=torch.chunk, cat=torch.cat, LongTensor=torch.LongTensor, cuda=torch.cuda
        )
    return module


def _import(name: str) -> Any:  # noqa: ANN401 (a module)
    try:
        return importlib.import_module(name)
    except Exception:  # also of versions that do not go together
        return None
