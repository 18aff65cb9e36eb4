"""What is recorded of a PyTorch model: values, what instances bring along, operations one by one."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.distributions import Distribution

from abw.core.base.errors import AbwError
from abw.core.jit.addresses import ints_at, longs_at
from abw.core.jit.decorators import njit
from abw.core.jit.pointers import Table
from abw.core.program.recording.segments import Longs
from abw.core.program.recording.values import BITS, Value
from abw.torch.recording.decisions import Comparison
from abw.torch.recording.library import CellLibrary, TableRows, version_of
from abw.torch.recording.pairs import Pairs
from abw.torch.recording.standins import RECORDING, Concat, Derived, Stack, plain
from abw.torch.tracing.symbols import CannotTrace, Indices, core, sized
from abw.torch.tracing.trace import Trace, Traced

# Operations that take no cell, by their names: (cells, *arguments), or NotImplemented.
DIRECT: dict[str, Callable[..., Any]] = {}
PACKAGE = Path(__file__).parents[2]
PACKAGES = (str(PACKAGE / "torch"), str(PACKAGE / "core"), str(Path(torch.__file__).parent))


class RestartError(BaseException):
    """The model's functions must be rewritten, and the mini-batch recorded again."""


class Cells(CellLibrary):
    """The cells of a model, and what is recorded of them. `stale`: its functions are to be rewritten."""

    def viewed(self, value: Any, shape: Sequence[int]) -> Any:
        """A view of a value."""
        return self.view_as(value, self.value_class(shape, value.detached_))

    def view_as(self, value: Any, cls: Any) -> Any:
        """A view of a value, of a class of values of as many numbers. Errors: CannotTrace."""
        found = self.as_class(value, cls)
        self.share((value, found))
        return found

    def share(self, values: Iterable[Any]) -> None:
        """Note that others may share the memory of values: none of them can be written in place.

        Nothing is noted until something is written in place, when all is recorded once more.
        """
        if not self.writes:
            return
        for value in values:
            if isinstance(value, Stack):
                self.share(value.rows)
            elif isinstance(value, Value) and value.ref >= 0:
                self._shared.add(value.ref)
            else:
                self._shared_zeros[id(value)] = value

    def as_value(self, x: Any, shape: Sequence[int]) -> Any:
        """Convert any stand-in for a tensor of this shape to one value. Errors: CannotTrace."""
        if isinstance(x, Concat | Derived):
            x = x.value()
        if isinstance(x, Comparison):
            x = x.tensor()
        if type(x) is torch.Tensor:
            x = self.given(x) if x.dtype is torch.float32 else x
        if not isinstance(x, Value) or tuple(x.shape) != tuple(shape):
            raise CannotTrace(f"a tensor of shape {list(shape)} is wanted")
        return x

    def detached(self, value: Any) -> Any:
        """`Tensor.detach`: in training a copy that cells do not read."""
        if not self.learns():
            return value
        found = self.op("copied", value)
        self.cut[found.ref] = place()
        return self.as_class(found, self.value_class(value.shape, True))

    def refuse_detached(self, values: Iterable[Any]) -> None:
        """Refuse to compute with detached values while training. Errors: CannotTrace."""
        if any(value.detached_ for value in values) and self.learns():
            raise CannotTrace(
                "a detached tensor is computed with: it has no gradient, and cells would give one"
            )

    def zero(self, shape: Sequence[int]) -> Any:
        """Zeros of a logical shape: an object of its own."""
        found = self.value_class(shape)()
        found.ref = self._zeros[math.prod(shape)] + found.kind_
        return found

    def zeros(self, shape: Sequence[int]) -> Any:
        """Zeros as `torch.zeros` has them: of two dimensions as rows that can be written."""
        if not self.squares and len(shape) == 2 and shape[0] == shape[1]:
            return torch.zeros(shape)  # a mask, it seems
        wide = [i for i, s in enumerate(shape) if s != 1]
        if len(wide) <= 1:
            return self.zero(shape)
        k = wide[0]
        rest = list(sized(shape, k))
        return Stack(self, [self.zero(rest) for _ in range(shape[k])], tuple(shape), k)

    def parameter(self, p: Any) -> Any:
        """A parameter as code outside of regions has it: a vector of the user's modules is a value."""
        if not isinstance(p, torch.nn.Parameter):
            return p
        number = self._param_number.get((id(p), core(p.shape))) if p.numel() else None
        constant = next((c for c in self._constants if c.kind == "param" and c.number == number), None)
        if constant is None:
            return self._derived.setdefault(id(p), Derived(self, Trace(self.names).param(p), p))
        found = self.value_class(tuple(p.shape))()
        found.ref = ((-1 - constant.first) << BITS) + found.kind_
        return found

    def rows_of(self, weight: torch.Tensor, shape: Sequence[int]) -> TableRows:
        """The rows of an embedding as values of a logical shape. Errors: CannotTrace."""
        key = id(weight), tuple(shape)
        if key not in self._table_rows:
            number = next((n for n, table in enumerate(self.tables) if table is weight), None)
            if number is None:
                raise CannotTrace("an embedding whose weight belongs to no nn.Embedding of the model")
            constant = next(c for c in self._constants if c.kind == "table" and c.number == number)
            found = TableRows(self.value_class(shape), constant.first, weight.shape[0])
            found.apart, self._table_rows[key] = self.writes, found
        return self._table_rows[key]

    def brought(self, x: Any) -> Any:
        """The value of a tensor of the instance; None for what is none. Errors: CannotTrace."""
        last, value = self._last
        if x is not last:  # several functions of a region ask one after the other
            plain = x.__class__ is torch.Tensor and x.dtype is torch.float32 and not x.requires_grad
            value = self.given(x) if plain else None
            self._last = x, value
        return value

    def given(self, tensor: torch.Tensor) -> Any:
        """Make a tensor of the instance a value. Errors: CannotTrace."""
        held = self._given.get(id(tensor))
        try:
            version = tensor._version
        except RuntimeError:
            version = version_of(tensor)
        if held is not None:
            if held[1] != version:
                self.hold_squares()
                raise CannotTrace("a tensor is written in place after it was computed with")
            return held[2]
        if tensor.dtype is not torch.float32 or tensor.is_cuda:
            raise CannotTrace(f"a tensor of {tensor.dtype} on {tensor.device}: float32 on the CPU is wanted")
        known = self._brought.get(tensor.shape)
        if known is None:
            cls = self.value_class(tensor.shape)
            constant = self._inputs[cls._size]
            begin = (-1 - constant.first << BITS) + cls.kind_
            known = cls, begin, constant.rows, *self.session.inputs.later(constant)
            self._brought[tensor.shape] = known
        cls, begin, rows, objects, first = known
        found = cls()
        found.ref = begin - ((first + len(objects)) % rows << BITS)
        held = self._given[id(tensor)] = tensor, version, found
        objects.append(held)
        return found

    def one_hot(self, n: int, i: int, smooth: float = 0.0) -> torch.Tensor:
        """A vector of n zeros, with 1 at i, of which `smooth` is spread evenly: the same object each time."""
        key = n, i, smooth
        if key not in self._hot:
            self._hot[key] = torch.full((n,), smooth / n)
            self._hot[key][i] += 1.0 - smooth
        return self._hot[key]

    def as_float(self, flags: torch.Tensor) -> torch.Tensor:
        """Booleans as numbers: the same object each time, until they are written."""
        key = (id(flags), version_of(flags))
        if key not in self._given:
            self._given[key] = (flags, flags.float())
        numbers: torch.Tensor = self._given[key][1]
        return numbers

    def given_rows(self, tensor: torch.Tensor, dim: int) -> list[torch.Tensor]:
        """Return the rows of a tensor of the instance; the same objects each time."""
        key = (id(tensor), dim)
        if key not in self._given:
            self._given[key] = (tensor, list(tensor.unbind(dim)))
        rows: list[torch.Tensor] = self._given[key][1]
        return rows

    def hold_squares(self) -> None:
        """From now on let square matrices of zeros be rows, which values can be written into."""
        if not self.squares:
            self.squares = True
            raise RestartError

    def release(self) -> None:
        """Let kept values lead back here no more, by their classes: Python's collector does not see that."""
        for cls in self._classes.values():
            for name in vars(cls).keys() - {"__doc__", "__module__", "_net", "_size", "ref", "shape"}:
                delattr(cls, name)

    def write(self, target: Any, made: Any) -> Any:
        """Write in place, as `x += y` does. Errors: CannotTrace if another tensor would see it."""
        if isinstance(target, Pairs) and isinstance(made, Pairs):
            target.write(made)
            return target
        if not self.writes:
            self.writes = True
            self.elements.clear()
            self.made_zeros.clear()
            for rows in self._table_rows.values():
                rows.clear()
                rows.apart = True
            for region in self.regions:  # written without a word of what is shared
                region.forget()
            raise RestartError
        if (
            isinstance(target, Stack)
            and isinstance(made, Stack)
            and (made.k, made.shape_) == (target.k, target.shape_)
        ):
            for row, new in zip(target.rows, list(made.rows), strict=True):
                self.write(row, new)
            return target
        if not isinstance(target, Value) or not self._is_fresh(target):
            raise CannotTrace("a tensor is written in place that others may share: write x = x + y")
        found: Any = target
        found.ref = self.as_value(made, target.shape).ref
        return target

    def _is_fresh(self, target: Any) -> bool:
        """Whether no other tensor has the memory of a value."""
        if target.ref >= 0:
            return target.ref not in self._shared
        own = target.ref == self.zero(target.shape).ref or any(
            rows.has(target.ref) for rows in self._table_rows.values()
        )
        for held in self._given.values():  # a clone of a tensor of the instance
            own |= len(held) == 3 and held[2].ref == target.ref and held[2] is not target
        return own and id(target) not in self._shared_zeros

    # running ------------------------------------------------------------------------------------------------
    def learns(self) -> bool:
        """Whether gradients are wanted."""
        return torch.is_grad_enabled() and any(p.requires_grad for p in self.parameters)

    def versions(self) -> tuple[Any, ...]:
        """Return versions, which differ whenever a parameter was changed or replaced.

        PyTorch does not count what is written through `p.data`: the sums of the bits tell.
        """
        tensors = (*self.params, *self.tables)
        known = self._bits is not None and len(self._held) == len(tensors)
        if not known or not all(map(torch.Tensor.is_set_to, self._held, tensors)):
            self._held, self._moved = [t.detach() for t in tensors], self._moved + 1
            words = [t.numpy().reshape(-1) for t in self._held if t.is_contiguous()]
            self._bits = Table(np.array([(0, len(each)) for each in words], np.int64).reshape(-1, 2))
            for i, each in enumerate(words):
                self._bits.point((i, 0), each)
        sums = np.empty(len(self._bits.words), np.int64)
        _add_bits(self._bits.words, sums)
        return self._moved, *[t._version for t in tensors], sums.tobytes()

    def begin(self) -> None:
        """Get ready for a mini-batch, with the parameters as they are."""
        self.stale, self.waited = False, 0
        self._given.clear()
        self.cut.clear()
        self._brought.clear()
        self._last = None, None
        self._shared.clear()
        self._shared_zeros.clear()
        known, self.version = self.version, self.versions()
        if known not in (None, self.version):
            if self.in_force is None:
                self.in_force = self.arrays().flattened()
            else:
                parts = [tensor.detach().reshape(-1) for tensor in (*self.params, *self.tables)]
                torch.cat(parts, out=torch.from_numpy(self.in_force.flat))
            self.session.engine().update(self.in_force)
        RECORDING.append(self)
        # checks of arguments would wait for numbers
        self._checks, Distribution._validate_args = Distribution._validate_args, False

    def end(self) -> None:
        """End what `begin` began."""
        RECORDING.pop()
        Distribution._validate_args = self._checks

    def waits(self) -> None:
        """Prepare for a program's wait; returns at once if everything is recorded again."""
        self.waited += 1
        if self.stale or not self.asks:
            self.asks = True
            raise RestartError

    # operations one by one ----------------------------------------------------------------------------------
    def op(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Record a single operation of PyTorch as a cell."""
        direct = DIRECT.get(name)
        if direct is not None:
            found = direct(self, *args, **kwargs)
            if found is not NotImplemented:
                return found
        key = (name, len(args), tuple(kwargs))
        region = self.ops.get(key)
        if region is None:
            region = self._one(self, name, len(args), tuple(kwargs))
            if region is None:
                return self.by_torch(name, args, kwargs)
            self.ops[key] = region
        return region.quick(*args, *kwargs.values())

    def element(self, x: Any, i: int) -> Any:
        """x[i]: a cell for each i, as long as these are few."""
        found = DIRECT["__getitem__"](self, x, i)
        if found is not NotImplemented:
            return found

        def install(function: Callable[[Any], Any]) -> None:
            self.elements[type(x), i] = function

        return self._one(self, "__getitem__", 1, (), (i,), install).slow(x)

    def refuse_learning(self, what: str) -> None:
        """Refuse operations that PyTorch computes during recording if gradients are wanted."""
        if self.learns():
            raise AbwError(
                f"{place()}: {what} cannot be part of a cell, so no gradient would pass through it",
                hint="compute it outside of the model, rewrite it, or use torch.no_grad()",
            )

    def by_torch(self, name: str, args: Sequence[Any], kwargs: dict[str, Any], why: str = "") -> Any:
        """Let PyTorch compute an operation, after waiting for its arguments."""
        if any(isinstance(a, Traced | Indices) for a in args):
            raise CannotTrace(f"torch.{name} has no counterpart in cells")
        reason = f" ({why})" if why else ""
        self.refuse_learning(f"torch.{name}{reason}")
        self.waits()
        self.note(f"torch.{name} is computed by PyTorch, one instance at a time: it is no cell{reason}")
        spaces = (torch.Tensor, torch.nn.functional, torch, torch.linalg, torch.special, torch._C._nn)
        own = "clone" if name == "copied" else name
        found = next((getattr(space, own) for space in spaces if hasattr(space, own)), None)
        if found is None:
            raise CannotTrace(why or f"torch.{name} has no counterpart in cells")
        return found(*[plain(a) for a in args], **{k: plain(v) for k, v in kwargs.items()})

    def note(self, said: str) -> None:
        """Warn once of an operation that makes the model slow."""
        if said not in self.notes:
            self.notes[said] = place()
            warnings.warn(f"{self.notes[said]}: {said}", stacklevel=2)


@njit
def _add_bits(places: Longs, sums: Longs) -> None:
    """Sum as 64-bit numbers what lies at some places (n, 2), each an address and a number of floats."""
    for i in range(len(places)):
        begin, floats, total = places[i, 0], places[i, 1], np.int64(0)
        for word in longs_at(begin, floats // 2):
            total += word
        for last in ints_at(begin + 4 * (floats - floats % 2), floats % 2):
            total += last
        sums[i] = total


def place() -> str:
    """Return the file and line of the running user code."""
    frame: Any = sys._getframe(1)
    while frame and (
        frame.f_code.co_filename.startswith(PACKAGES) or frame.f_code.co_filename.startswith("<")
    ):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else "?"
