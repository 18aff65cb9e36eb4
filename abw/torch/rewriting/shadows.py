"""The model as rewritten functions see it: modules whose calls are recorded, and a `torch` of their own."""

from __future__ import annotations

import builtins
import inspect
import operator
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

from abw.core.program.recording.machine_code import called_type, machine_code
from abw.core.program.recording.values import Value
from abw.core.spec.cells.builder import Number
from abw.torch.recording.cells import Cells
from abw.torch.recording.regions import Region
from abw.torch.recording.standins import RECORDING, Concat, Ints, Stack, StandIn, as_ints, plain
from abw.torch.rewriting.forms import CALLED, CONTAINERS, changed_attributes, keeps_state
from abw.torch.tracing.symbols import CannotTrace, Index, Indices, K, NeedsConstant, sizes_of
from abw.torch.tracing.trace import MEANINGS, Traced, TracedList


class Shadow:
    """A module as rewritten functions see it. What they assign to it stays with the instance."""

    def __init__(self, rewriter: Any, module: torch.nn.Module) -> None:
        self.rewriter, self.module = rewriter, module
        self.stateful = keeps_state(module)
        self._copied: list[str] = []
        self._shared: Any = None
        self._children: list[tuple[str, Shadow]] = []
        self._fields: dict[str, Any] = {}

    def fill(self, method: str) -> None:
        """Make the class and fields of its instances; `method` is what a call of it calls."""
        module = self.module
        cls: Any = type(module)
        members = self.rewriter.methods(cls, module)
        members["__call__"] = members.get(method) or getattr(cls, method)
        members["__setattr__"], members["__delattr__"] = object.__setattr__, object.__delattr__
        self.type = type(cls.__name__, (cls,), members)
        self._fields = dict(module.__dict__)
        changed = changed_attributes(cls)[1]
        self._copied = [name for name in changed if type(module.__dict__.get(name)) in CONTAINERS]
        for name, child in module._modules.items():
            found = None if child is None else self.rewriter.stand_in(child)
            if isinstance(found, Shadow):
                self._children.append((name, found))
            else:
                self._fields[name] = found
        for name, p in module._parameters.items():
            if p is not None:
                self._fields[name] = self.rewriter.cells.parameter(p)
        for scope, names in self.rewriter.direct.pop(id(module), ()):
            known = vars(self.type) | self._fields
            scope |= {name: known[of] if of in known else getattr(cls, of) for name, of in names.items()}
        self.stateful = self.stateful or any(child.stateful for _, child in self._children)

    def make(self) -> Any:
        """One for an instance."""
        if self._shared is not None:
            return self._shared
        made: Any = object.__new__(self.type)
        made.__dict__.update(self._fields)
        for name in self._copied:
            made.__dict__[name] = self._fields[name].copy()
        for name, child in self._children:
            made.__dict__[name] = child.make()
        if not self.stateful:
            self._shared = made
        return made


class StandInModule:
    """What stands for a module of PyTorch's: all but its calls and parts is the module's own."""

    __slots__ = ("kept",)
    kept: dict[str, Any]

    def __len__(self) -> int:
        return len(self.kept["module"])

    def __getitem__(self, key: Any) -> Any:
        found = self.kept["module"][key]
        return found if type(key) is slice else self.kept["part"](found)

    def __iter__(self) -> Iterator[Any]:
        return map(self.kept["part"], self.kept["module"])

    def __getattr__(self, name: str) -> Any:
        kept = self.kept
        if name not in kept:
            found = getattr(kept["module"], name)
            if not isinstance(found, torch.nn.Parameter):
                return found
            kept[name] = kept["cells"].parameter(found)
        return kept[name]

    def __setattr__(self, name: str, value: Any) -> None:
        self.kept[name] = value


def module_stand_in(
    cells: Cells, module: torch.nn.Module, name: str, part: Callable[[torch.nn.Module], Any]
) -> Any:
    """An object whose calls are a region, for a module of PyTorch's.

    `part(module)`: what stands for one of its modules.
    """
    kept = {"module": module, "cells": cells, "part": part}
    made: Any = object.__new__(called_type(type(module).__name__, StandInModule))
    for field, value in (("kept", kept), ("entry", machine_code().address("called"))):
        object.__setattr__(made, field, value)

    def install(function: Any) -> None:
        object.__setattr__(made, "target", function)

    def called(*args: Any, **given: Any) -> Any:
        bound = inspect.signature(module.forward).bind(*args, **given)
        bound.apply_defaults()
        return made(*bound.args)

    def by_torch(args: tuple[Any, ...], why: str) -> Any:
        said = f"{name} ({type(module).__name__})"
        if why:
            cells.refuse_learning(f"{said} ({why})")
            cells.note(f"{said} is computed by PyTorch, one instance at a time: {why}")
        cells.waits()
        return module(*[plain(a) for a in args])

    region = Region(cells, module, name, install=install, otherwise=by_torch)
    install(region.slow)
    kept[CALLED] = called
    return made


class Recurrent:
    """nn.LSTM, nn.GRU or nn.RNN over one sequence: a loop of cells."""

    def __init__(self, cells: Cells, module: torch.nn.RNNBase, name: str) -> None:
        """Errors: CannotTrace."""
        self.cells, self.module = cells, module
        self._lstm = isinstance(module, torch.nn.LSTM)
        if module.proj_size:
            raise CannotTrace(f"{name}: an LSTM with proj_size")
        sides = ("", "_reverse")[: 1 + module.bidirectional]
        ends = [f"_l{layer}{side}" for layer in range(module.num_layers) for side in sides]
        self._steps = [self._step(end, f"{name}{end}") for end in ends]

    def _step(self, end: str, name: str) -> Region:
        names = [f"{part}_{of}{end}" for part in ("weight", "bias") for of in ("ih", "hh")]
        weights = [getattr(self.module, name, None) for name in names]
        meaning = MEANINGS[f"{self.module.mode.lower()}_cell"]

        def body(x: Any, h: Any, *c: Any) -> Any:
            return meaning(x, (h, *c) if c else h, *weights)

        return Region(self.cells, body, name)

    def __call__(self, x: Any, state: Any = None) -> Any:
        """Outputs of all steps and the last states, as the module gives them. Errors: CannotTrace."""
        m, cells, both = self.module, self.cells, 1 + self.module.bidirectional
        shape = tuple(getattr(x, "shape", ()))
        along = int(m.batch_first and len(shape) == 3)
        middle = (1,) * (len(shape) - 2)
        if shape[-1:] != (m.input_size,) or middle not in ((), shape[1 - along : 2 - along]):
            raise CannotTrace(
                f"{type(m).__name__} of shape {list(shape)}: one sequence of {m.input_size} is wanted"
            )
        rows = self._rows(x, along)
        lasts = []
        for layer in range(m.num_layers):
            sides = []
            for back in range(both):
                step = self._steps[layer * both + back]
                s = self._first(state, layer * both + back)
                outs = []
                for r in reversed(rows) if back else rows:
                    found = step.quick(r, *s)
                    s = found if self._lstm else (found,)
                    outs.append(s[0])
                lasts.append(s)
                sides.append(outs[::-1] if back else outs)
            rows = sides[0]
            if both == 2:
                rows = [
                    cells.as_value(cells.op("cat", list(pair), 0), (2 * m.hidden_size,))
                    for pair in zip(*sides, strict=True)
                ]
            if m.dropout and m.training and layer < m.num_layers - 1:
                rows = [cells.op("dropout", r, m.dropout, True) for r in rows]
        out = Stack(cells, rows, (*shape[:-1], m.hidden_size * both), along)
        last = tuple(
            Stack(cells, list(states), (len(lasts), *middle, m.hidden_size), 0)
            for states in zip(*lasts, strict=True)
        )
        return out, (last if self._lstm else last[0])

    def _rows(self, x: Any, along: int) -> list[Any]:
        size, cells = (self.module.input_size,), self.cells
        if isinstance(x, Stack) and x.k == along:
            cls = cells.value_class(size)
            return [r if r.__class__ is cls else cells.as_class(r, cls) for r in x.rows]
        if isinstance(x, torch.Tensor):
            return [cells.given(r.reshape(-1)) for r in cells.given_rows(x, along)]
        return [cells.as_value(r.reshape(-1), size) for r in x.unbind(along)]

    def _first(self, state: Any, number: int) -> Any:
        size = (self.module.hidden_size,)
        if state is None:
            return (self.cells.zero(size),) * (2 if self._lstm else 1)
        given = state if self._lstm else (state,)
        return tuple(self.cells.as_value(g[number].reshape(-1), size) for g in given)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["module"], name)


class _TensorType(type(torch.Tensor)):  # type: ignore[misc]
    """`torch.Tensor(3, 4)` makes a tensor of undefined numbers: one that cells write."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if RECORDING and args and not kwargs and all(type(a) is int for a in args):
            return RECORDING[-1].zeros(args)
        return torch.Tensor(*args, **kwargs)

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, torch.Tensor)


class Tensor(torch.Tensor, metaclass=_TensorType):
    """`torch.Tensor` as rewritten functions see it."""


FLOATS = (torch.Tensor, torch.FloatTensor, Tensor)
WHOLE = (torch.Tensor, torch.LongTensor, Tensor)


def is_instance(x: Any, classes: Any) -> bool:
    """`isinstance`: what stands for a tensor is one."""
    if builtins.isinstance(x, classes):
        return True
    if builtins.isinstance(x, Value | StandIn | Traced):
        wanted: Any = FLOATS
    elif builtins.isinstance(x, Ints | Indices):
        wanted = WHOLE
    elif builtins.isinstance(x, Index):
        wanted = (int,)
    else:
        return False
    return any(c in wanted for c in (classes if type(classes) is tuple else (classes,)))


def length(x: Any) -> Any:
    """`len` in what is traced: K for a list of unknown length."""
    if isinstance(x, Traced):
        return x.shape_[0]
    return K if isinstance(x, TracedList) else builtins.len(x)


def variable(x: Any, *_: Any, **__: Any) -> Any:
    """`torch.autograd.Variable`."""
    return x


class TorchSpace:
    """`torch` as rewritten functions see it: whole numbers and zeros are made for cells."""

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self.Tensor = self.FloatTensor = Tensor

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def is_tensor(self, x: Any) -> bool:
        """`torch.is_tensor`."""
        return is_instance(x, torch.Tensor)

    def tensor(
        self, data: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **kw: Any
    ) -> Any:
        """`torch.tensor`."""
        if type(data) is list and dtype in (None, torch.int64) and {*map(type, data)} == {int}:
            return Ints(data[:], (len(data),))
        index = first_index(data)
        if index is not None:
            shape: list[int] = []
            while isinstance(data, list | tuple) and len(data) == 1:
                shape.append(1)
                data = data[0]
            if data is index and dtype in (None, torch.long, torch.int64):
                return Indices(index, shape)
            raise NeedsConstant(index.path)
        if dtype in (None, torch.long, torch.int64) and all_ints(data):
            return data if isinstance(data, Ints) else as_ints(data)
        if isinstance(data, Value | Stack | Concat):
            return self._cells.detached(data) if isinstance(data, Value) else data
        if isinstance(data, list | tuple) and any(isinstance(x, Traced) for x in data):  # floats that vary
            return MEANINGS["stack"](data)
        return torch.tensor(plain(data), dtype=dtype, device=device, requires_grad=requires_grad, **kw)

    def LongTensor(self, *data: Any) -> Any:  # noqa: N802
        """`torch.LongTensor`."""
        if len(data) == 1 and isinstance(data[0], list | tuple):
            return self.tensor(data[0], dtype=torch.long)
        return torch.LongTensor(*data)

    def as_tensor(self, data: Any, dtype: Any = None, device: Any = None) -> Any:
        """`torch.as_tensor`."""
        if isinstance(data, Value | Stack | Concat | Ints):
            return data
        if isinstance(data, torch.Tensor) or hasattr(data, "__array__"):
            return torch.as_tensor(data, dtype=dtype)
        return self.tensor(data, dtype=dtype)

    def zeros(self, *shape: Any, dtype: Any = None, size: Any = None, device: Any = None, **kw: Any) -> Any:
        """`torch.zeros`."""
        sizes = sizes_of(shape or (size,))
        plain_sizes = (
            all(type(s) is int for s in sizes) and 0 not in sizes and sum(s != 1 for s in sizes) <= 2
        )
        if (
            dtype in (None, torch.float32)
            and plain_sizes
            and not kw.get("requires_grad")
            and not kw.get("out")
        ):
            return self._cells.zeros(sizes)
        return torch.zeros(tuple(map(operator.index, sizes)), dtype=dtype, **kw)

    def empty(self, *shape: Any, **kw: Any) -> Any:
        """`torch.empty`."""
        return self.zeros(*shape, **kw)

    def stack(self, tensors: Any, dim: int = 0, **kw: Any) -> Any:
        """`torch.stack`."""
        return self._joined("stack", tensors, dim, kw)

    def cat(self, tensors: Any, dim: int = 0, **kw: Any) -> Any:
        """`torch.cat`."""
        return self._joined("cat", tensors, operator.index(kw.pop("axis", dim)), kw)

    def _joined(self, name: str, tensors: Any, dim: int, kw: Any) -> Any:
        if isinstance(tensors, TracedList):
            return MEANINGS[name](tensors, dim)
        tensors = list(tensors) if isinstance(tensors, Stack) else tensors
        if tensors and isinstance(tensors[0], Value | Stack):
            return self._cells.op(name, tensors, dim)
        return getattr(torch, name)(tensors, dim, **kw)

    concat = concatenate = cat


def torch_module(cells: Cells) -> Any:
    """The same as a module, whose functions Python finds faster."""
    space, made, known = TorchSpace(cells), types.ModuleType("torch"), cells.made_zeros
    own = {name: getattr(space, name) for name in (*vars(TorchSpace), *vars(space)) if name[0] != "_"}

    def zeros(*shape: Any, **given: Any) -> Any:
        try:
            if not given:
                return known[shape]
        except (KeyError, TypeError):  # TypeError: of sizes in a list
            pass
        found = space.zeros(*shape, **given)
        if isinstance(found, Value) and all(type(s) is int for s in shape) and not (given or cells.writes):
            known[shape] = found
        return found

    vars(made).update(vars(torch) | own | {"zeros": zeros, "__getattr__": space.__getattr__})
    return made


class TracedSpace(TorchSpace):
    """The same inside of what is traced, by `trace()`: zeros are an input of the cell."""

    def __init__(self, cells: Cells, trace: Callable[[], Any]) -> None:
        super().__init__(cells)
        self._trace = trace

    def zeros(self, *shape: Any, dtype: Any = None, size: Any = None, **kw: Any) -> Any:
        """`torch.zeros`."""
        sizes = sizes_of(shape or (size,))
        if dtype not in (None, torch.float32) or kw.get("out") is not None or kw.get("requires_grad"):
            raise CannotTrace("zeros of another type than float32")
        if any(type(s) is not int for s in sizes):
            tuple(map(operator.index, sizes))  # raises what a size of unknown length raises
            raise CannotTrace("zeros of a size that is not known")
        if sum(s != 1 for s in sizes) > 1:  # a matrix, whose rows may be written later
            return Traced(self._trace(), Number(0.0), sizes)
        return self._trace().input(sizes, ("zeros", sizes))

    def zeros_like(self, x: Any, **kw: Any) -> Any:
        """`torch.zeros_like`."""
        if isinstance(x, Traced) and K not in x.shape:
            return self.zeros(x.shape, **kw)
        return torch.zeros_like(x, **kw)


def all_ints(x: Any) -> bool:
    """Whether nested lists contain only whole numbers."""
    if isinstance(x, list | tuple):
        return bool(x) and all(map(all_ints, x))
    return isinstance(x, Ints) or (isinstance(x, int) and not isinstance(x, bool))


def first_index(x: Any) -> Index | None:
    """The first index that is traced in nested lists."""
    if isinstance(x, list | tuple):
        return next((found for y in x if (found := first_index(y)) is not None), None)
    return x if isinstance(x, Index) else None
