"""Refuses models that cannot be batched, and notices changes of a model between calls."""

from __future__ import annotations

from itertools import compress
from operator import ne
from typing import Any

import torch

from abw.core.base.errors import AbwError

SCALARS = (int, float, bool, str, type(None))
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def refuse_unsupported(model: Any) -> None:
    """Refuse what is not a plain module in float32 on the CPU. Errors: AbwError."""
    if not isinstance(model, torch.nn.Module):
        raise AbwError(f"abw.torch.batch takes an nn.Module, not {type(model).__name__}")
    if hasattr(model, "_orig_mod"):
        raise AbwError("the model is compiled by PyTorch", hint="give abw.torch.batch the module itself")
    if any(getattr(torch.nn.modules.module, f"_global{name}", None) for name in HOOKS):
        raise AbwError("PyTorch has hooks on all modules: they would not be called", hint="remove them first")
    for name, module in model.named_modules():
        _refuse_module(name or type(model).__name__, module)
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if isinstance(tensor, torch.nn.parameter.UninitializedParameter):
            raise AbwError(f"{name} has no shape yet", hint="call the model once on an instance first")
        whole = not tensor.dtype.is_floating_point and not isinstance(tensor, torch.nn.Parameter)
        if tensor.device.type != "cpu" or not (tensor.dtype is torch.float32 or whole):
            raise AbwError(
                f"{name} is {tensor.dtype} on {tensor.device}: abw.torch runs in float32 on the CPU",
                hint="model.float().cpu()",
            )
        if isinstance(tensor, torch.nn.Parameter) and not tensor.is_contiguous():
            raise AbwError(f"{name} is not contiguous in memory", hint="p.data = p.data.contiguous()")


def _refuse_module(name: str, module: torch.nn.Module) -> None:
    if isinstance(module, torch.jit.ScriptModule):
        raise AbwError(f"{name} is compiled by PyTorch", hint="give abw.torch.batch the module itself")
    if any(getattr(module, hooks, None) for hooks in HOOKS):
        raise AbwError(f"{name} has hooks: they would not be called", hint="remove them, or run without abw")
    if hasattr(module, "parametrizations"):
        raise AbwError(
            f"{name} is parametrised: its weights are computed at each access",
            hint="torch.nn.utils.parametrize.remove_parametrizations(module, name)",
        )


class Fingerprint:
    """What cells were made for. `structure`: modules and parameters; `settings`: modes and numbers, constants
    of the cells.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self.structure: list[Any] = []
        self.settings: list[Any] = []
        self._modules = list(model.modules())
        self._parameters = list(model.parameters())
        self._hooks = [getattr(module, hooks) for module in self._modules for hooks in HOOKS]
        self._tensors: list[torch.Tensor] = []
        self._now: list[dict[str, Any]] = []
        for module in self._modules:
            own = module._parameters.items()
            self.structure.append((id(module), type(module), [(n, id(p)) for n, p in own]))
            for key, value in module.__dict__.items():
                if type(value) in SCALARS:
                    self.settings.append((key, value))
                elif isinstance(value, torch.Tensor):
                    self._tensors.append(value)
                    self.settings.append((key, id(value), value._version))
            self._now += [module.__dict__, module._parameters, module._modules]
        self.structure += [len(hooks) for hooks in self._hooks]
        self._was, self._looks = [part.copy() for part in self._now], self._look()
        self.structure += self._looks[0]

    def _look(self) -> tuple[Any, ...]:
        """What changes without another object in an attribute."""
        kinds = [(p.dtype, p.device) for p in self._parameters]
        return kinds, [t._version for t in self._tensors], list(map(type, self._modules)), any(self._hooks)

    def holds(self) -> bool:
        """Whether nothing seems changed, by a quick check: some 2 us a module, a tenth of a new one."""
        pairs = zip(self._now, self._was, strict=True)
        try:
            others = [*compress(pairs, map(ne, self._now, self._was))]
        except (RuntimeError, ValueError, TypeError):  # tensors and arrays are compared element by element
            others = [*zip(self._now, self._was, strict=True)]
        return all(_alike(now, was) for now, was in others) and self._look() == self._looks


def _alike(part: dict[str, Any], held: dict[str, Any]) -> bool:
    """Whether attributes are what they were, but for lists and other objects, which models may replace."""
    return part.keys() == held.keys() and all(_unchanged(part[key], was) for key, was in held.items())


def _unchanged(now: Any, was: Any) -> bool:
    if type(now) in SCALARS:
        return type(was) in SCALARS and bool(now == was)
    counts = torch.Tensor, torch.nn.Module
    return now is was or not (type(was) in SCALARS or isinstance(now, counts) or isinstance(was, counts))
