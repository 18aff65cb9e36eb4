"""Writes the Python function that records a region: a line for each cell, a comprehension over rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Any

import torch

from abw.core.program.recording.recorder import Callee
from abw.core.program.recording.values import Value
from abw.core.spec.cells.builder import Number
from abw.torch.recording.arguments import has_values
from abw.torch.recording.assembler import assembled
from abw.torch.recording.decisions import Flags
from abw.torch.recording.library import MismatchError, SizeError
from abw.torch.recording.pairs import Pairs
from abw.torch.recording.standins import Concat, Derived, Ints, Stack
from abw.torch.tracing.products import MaxPair
from abw.torch.tracing.scores import Mask, Scores, attend_seen, is_mask
from abw.torch.tracing.stages import Reduction, Step, stages
from abw.torch.tracing.symbols import CannotTrace, Index, Indices, K, NeedsFixed, NeedsInput, Refusing, numel
from abw.torch.tracing.trace import FIRST, Leaf, Trace, Traced, TracedList

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Written:
    """A traced region: `record(flat)` records its calls. `fast(other)` is a function of the arguments
    themselves, which leaves those of other kinds to `other`; None where kinds cannot be recognised without
    keys. `whole`: whether that looks at all classes itself.
    """

    steps: list[Step]
    record: Callable[[list[Any]], Any]
    fast: Callable[[Function], Function] | None
    whole: bool = False


def write(region: Any, trace: Trace, args: tuple[Any, ...], symbols: list[Any], result: Any) -> Written:
    """Write the function that records a trace. Errors: CannotTrace."""
    return _Writer(region, trace, args, symbols).write(result)


class _Writer:
    def __init__(self, region: Any, trace: Trace, args: tuple[Any, ...], symbols: list[Any]) -> None:
        self.region, self.cells = region, region.cells
        self.trace, self.args, self.symbols = trace, args, symbols
        self.scope: dict[str, Any] = {
            "Concat": Concat, "Flags": Flags, "Ints": Ints, "Stack": Stack, "Tensor": torch.Tensor,
            "alone": alone, "attend_seen": attend_seen,
            "as_class": self.cells.as_class, "cells": self.cells, "given": self.cells.given, "mask": mask,
            "is_mask": is_mask, "Pairs": Pairs,
            "float32": torch.float32, "int64": torch.int64, "repeat": repeat, "resized": resized,
            "same_length": same_length, "tensor": torch.tensor,
            "viewed": self.cells.viewed, "write": self.cells.write, "MismatchError": MismatchError,
        }  # fmt: skip
        self.outputs: list[Traced] = []
        # The tensor that has the object of a value's name.
        self.objects = {s.v.number: s for s in symbols if isinstance(s, Traced) and not s.written}
        self.lines: list[str] = []
        self.name: dict[int, str] = {}
        self.row: dict[int, bool] = {}
        # Of lists of rows: the name of one that is as long.
        self.like: dict[int, str] = {}
        self.classes: dict[int, Any] = {}
        self.callees: dict[str, Callee] = {}

    def note(self, prefix: str, thing: Any) -> str:
        """Name a thing in the code."""
        name = f"{prefix}{len(self.scope)}_"
        self.scope[name] = thing
        return name

    def write(self, result: Any) -> Written:
        template = self._template(result)
        written = [(i, s) for i, s in enumerate(self.symbols) if isinstance(s, Traced) and s.written]
        for i, symbol in written:
            if not isinstance(self.args[i], Value) or len({id(a) for a in self.args}) < len(self.args):
                raise CannotTrace("an argument is written in place: write x = x + y")
            self.outputs.append(symbol)
            self.lines.append(f"alone(flat[{self.region.kinds.taken.slots[i,]}], flat)")
        for output in self.outputs:
            output.v = self.trace.value(output)
        steps = stages(self.trace, [output for output in self.outputs if output.v.number >= FIRST])
        logical = {o.v.number: tuple(o.shape_) for o in reversed(self.outputs) if K not in o.shape_}
        reads = {v for s in steps for v in (s.sources if isinstance(s, Reduction) else s.reads) if v < FIRST}
        self._leaves(reads, logical)
        for slot, (path, rows) in self.trace.sizes.items():
            self.lines.append(f"flat[{slot}] == {self._length() if rows else 1} or resized({path!r})")
        for step in steps:
            if isinstance(step, Reduction):
                self._reduction(step)
            else:
                self._stage(step, logical)
        for i, symbol in written:
            target = f"flat[{self.region.kinds.taken.slots[i,]}]"
            self.lines.append(f"write({target}, as_class({self.name[symbol.v.number]}, {target}.__class__))")
        self._shared()
        body = [*self.lines, f"return {template()}"]
        made, _, call = self.lines[-1].partition(" = ") if self.lines else ("", "", "")
        if body[-1] in (f"return {made}", f"return ({made}, )" if "," in made else ""):  # by the last call
            body[-2:] = [f"return {call}"]
        self._compile("def record(flat):\n    " + "\n    ".join(body), self.scope)
        return Written(steps, self.scope["record"], *((None,) if written else self._fast(steps, body)))

    def _shared(self) -> None:
        """Say of which results others have the memory, too: arguments, or other results."""
        if not self.cells.writes:
            return
        roots, numbers = [_root(output) for output in self.outputs], [o.v.number for o in self.outputs]
        found: set[int] = set()
        for output, root, n in zip(self.outputs, roots, numbers, strict=True):
            if K in output.shape_ and (n < FIRST or numbers.count(n) > 1):  # a stack of the same rows
                found.add(n)
            own = output.written or (root is output and root.leaf in (None, n))
            if not own and (root.leaf is not None or sum(r is root for r in roots) > 1):
                found |= {n, root.v.number if root.leaf is None else root.leaf}
        params = {v for v, leaf in enumerate(self.trace.leaves) if leaf.kind == "param"}
        found &= self.name.keys() - params
        for v in sorted(found):
            self.lines.append(f"cells.share({self.name[v] if self.row[v] else f'({self.name[v]},)'})")

    def _compile(self, source: str, scope: dict[str, Any]) -> None:
        exec(compile(source, f"<region {self.region.name}>", "exec"), scope)

    def _template(self, x: Any) -> Callable[[], str]:
        """What writes the result, once all `outputs` are computed, which are collected here."""
        if isinstance(x, Traced):
            shape = tuple(x.shape_)
            own = next((i for i, s in enumerate(self.symbols) if s is x and x.written), None)
            if own is not None:  # the argument itself
                return lambda: f"flat[{self.region.kinds.taken.slots[own,]}]"
            if isinstance(x.v, Number) and x.v.value == 0.0 and K not in shape:
                return lambda: f"cells.zeros({shape!r})"
            if x.whole:
                raise CannotTrace("the number of true elements is used later: write mask.float().sum()")
            joined = self._concatenated(x)
            if joined:
                texts = [
                    self._source(leaf, leaf.shape)[0] for leaf in map(self.trace.leaves.__getitem__, joined)
                ]
                parts, at = ", ".join(texts), max(range(len(shape)), key=shape.__getitem__)
                return lambda: f"Concat(cells, ({parts},), {(at, len(shape) - 1 - at)!r})"
            if not isinstance(x.v, Number) and x.v.number in self.trace.free():
                if not self.region.derives:
                    raise NeedsInput("what is returned is computed from parameters alone")
                return lambda: self.note("derived", Derived(self.cells, x))
            self.outputs.append(x)
            return lambda: f"Flags({self._value(x)})" if x.boolean else self._value(x)
        if isinstance(x, Indices):
            slot, sizes = f"flat[{x.index.slot}]", tuple(x.shape)
            if not x.index.rows:
                return lambda: f"Ints([{slot}], {sizes!r})"
            return lambda: (
                f"Ints({slot}, ({''.join(f'len({slot}), ' if s is K else f'{s}, ' for s in sizes)}))"
            )
        if isinstance(x, Index):
            return lambda: f"flat[{x.slot}]"
        if isinstance(x, TracedList):
            return self._template(Traced(self.trace, x.element.v, (K, *x.element.shape_)))
        if isinstance(x, MaxPair):
            raise CannotTrace("what torch.max gives is used later: take its values")
        if isinstance(x, torch.Size):
            return lambda: self.note("constant", x)
        if isinstance(x, tuple | list):
            each, (begin, end) = [self._template(y) for y in x], "[]" if type(x) is list else "()"
            return lambda: f"{begin}{''.join(f'{one()}, ' for one in each)}{end}"
        if isinstance(x, dict):
            named = {k: self._template(v) for k, v in x.items()}
            return lambda: "{" + ", ".join(f"{k!r}: {one()}" for k, one in named.items()) + "}"
        if x is K:
            slots = {leaf.slot for leaf in self.trace.leaves} - {None}
            if len(slots) != 1:
                raise NeedsFixed("the length of one of several lists is returned")
            return lambda: f"len(flat[{slots.pop()}])"
        if isinstance(x, Mask):
            return lambda: self._mask(x, self._length())
        if isinstance(x, Scores):
            given = (x.refuse() if x.query is None else x.query, x.keys, x.hidden)
            written, fill = [self._template(y) for y in given], self.note("fill", x.fill)
            return lambda: f"Pairs(cells, {', '.join(one() for one in written)}, {fill}, {x.weights})"
        if isinstance(x, Refusing):
            x.refuse()
        if has_values(x):
            raise CannotTrace("a tensor from outside of this stretch of code is returned")
        return lambda: self.note("constant", x)

    def _mask(self, mask: Mask, n: str) -> str:
        """What computes a mask for a list of n rows."""
        given = ", ".join(f"{slot}: flat[{slot}]" for slot in sorted(mask.slots))
        return f"{self.note('mask', mask.of)}({{{given}}}, {n})"

    def _length(self) -> str:
        """How long the lists are."""
        slots = [leaf.slot for leaf in self.trace.leaves if leaf.slot is not None]
        return f"len(flat[{slots[0]}])" if slots else "0"

    def _concatenated(self, x: Traced) -> tuple[int, ...]:
        """The leaves that an output is the concatenation of, and nothing else."""
        if self.cells.writes or (self.region.one and self.region.name != "torch.cat"):
            return ()
        if isinstance(x.v, Number) or K in x.shape_ or x.v.number < FIRST:
            return ()
        op = self.trace.builder.ops[x.v.number - FIRST]
        leaves = [self.trace.leaves[a] for a in op.args if a < FIRST]
        plain = len(leaves) == len(op.args) and all(
            leaf.kind == "input" and leaf.what[0] in ("value", "tensor", "table", "zeros") for leaf in leaves
        )
        return op.args if op.name == "concat" and len(op.shape) == 1 and plain else ()

    def _leaves(self, reads: set[int], logical: dict[int, Any]) -> None:
        returned = {o.v.number for o in self.outputs if o.v.number < FIRST}
        for n in sorted(reads | returned):
            leaf = self.trace.leaves[n]
            if leaf.kind == "param":
                raise CannotTrace("a parameter is returned")
            name = f"v{n}"
            shape = leaf.shape if n in reads else logical.get(n, leaf.shape)
            self.name[n], self.row[n], self.like[n] = name, leaf.kind == "row", name
            text, self.classes[n] = self._source(leaf, shape)
            self.lines.append(f"{name} = {text}")

    def _source(self, leaf: Leaf, shape: tuple[int, ...]) -> tuple[str, Any]:
        """What makes the value of a leaf, and its class; of dropout's mask it is drawn anew at each call."""
        match leaf.what:
            case ("value" | "rows", slot, cls):
                return f"flat[{slot}]", cls
            case ("table" | "table-rows" as kind, weight, slot):
                rows = self.note("table", self.cells.rows_of(weight, shape))
                text = f"{rows}[flat[{slot}]]" if kind == "table" else f"[{rows}[i] for i in flat[{slot}]]"
            case ("tensor", slot, shape):
                text = f"given(flat[{slot}])"
            case ("tensors", slot, shape):
                text = f"[given(t) for t in flat[{slot}]]"
            case ("zeros", shape):
                text = f"cells.zero({shape!r})"
            case ("mask", p) if leaf.kind == "row":
                slot = next(other.slot for other in self.trace.leaves if other.slot is not None)
                text = f"[given(t) for t in mask({p!r}, (len(flat[{slot}]), *{shape!r})).unbind(0)]"
            case (_, p):
                text = f"given(mask({p!r}, {shape!r}))"
        return text, self.cells.value_class(shape)

    def _reduction(self, step: Reduction) -> None:
        cls, name = self.classes[step.sources[0]], f"v{step.target}"
        callee = None
        if len(step.sources) == 1:
            callee, made = self.cells.reduction(step.how, cls)
        else:
            made = self.cells.attention(int(step.how.split()[1]), *(self.classes[s] for s in step.sources))
        given = [self.name[source] for source in step.sources]
        if len(given) > 1 and not step.row:
            given[-1] = f"[{given[-1]}]"
        reduce = self.note("reduce", made)
        if callee is not None:
            self.callees[reduce] = callee
        call = f"{reduce}({', '.join(given)})"
        if step.target in self.trace.masks:
            hidden, evenly = self.trace.masks[step.target]
            zero = self.note("zero", self.cells.zero(self.classes[step.sources[2]].shape)) if evenly else None
            of_mask = self._mask(hidden, f"len({given[0]})")
            call = f"attend_seen({reduce}, {', '.join(given)}, {of_mask}, {zero})"
        if len(given) == 1:  # of one row it is that row
            rows, kind = given[0], self.note("class", cls)
            call += f" if len({rows}) > 1 else as_class({rows}[0], {kind})"
            call += f" if {rows} else cells.zero({tuple(cls.shape)!r})" if step.how == "sum" else ""
        self.lines.append(f"{name} = {call}" + ("[0]" if len(given) > 1 and not step.row else ""))
        self.name[step.target], self.row[step.target], self.classes[step.target] = name, step.row, cls
        self.like[step.target] = self.like[step.sources[-1]]

    def _stage(self, step: Any, logical: dict[int, Any]) -> None:
        cells = self.cells
        number = cells.type_of(step.cell, [self.trace.leaves[p].what for p in step.params])
        cells.origins.setdefault(number, self.region.name)
        classes = []
        for v, port in zip(step.gives, step.cell.output_ports, strict=True):
            shape = logical[v] if not step.row and v in logical else port.shape
            self.classes[v] = cells.value_class(shape)
            self.name[v], self.row[v] = f"v{v}", step.row
            classes.append(self.classes[v])
        takes = [self.classes[r] for r in step.reads]
        self.single = cells.callee(number, takes, classes)
        cell = self.note("cell", cells.recording(self.single, _mismatch))
        self.callees[cell] = self.single
        targets = [f"v{v}" for v in step.gives]
        if not step.row:
            self.lines.append(f"{', '.join(targets)} = {cell}({', '.join(self.name[r] for r in step.reads)})")
            return
        over = [r for r in step.reads if self.row[r]]
        if not over:
            raise CannotTrace("rows that are all the same")
        lists = dict.fromkeys(self.like[r] for r in over)
        first = next(iter(lists))
        if len(lists) > 1:
            alike = " == ".join(f"len({name})" for name in lists)
            self.lines.append(f"{alike} or same_length({', '.join(lists)})")
        self.like = {v: first if name in lists else name for v, name in self.like.items()}
        self.like |= dict.fromkeys(step.gives, first)
        inner = ", ".join(self.name[r] if self.row[r] else f"repeat({self.name[r]})" for r in step.reads)
        made = f"map({cell}, {inner})"
        rows = f"list({made})" if len(targets) == 1 else f"map(list, zip(*{made}))"
        self.lines.append(f"{', '.join(targets)} = {rows}")

    def _value(self, x: Traced) -> str:
        n, shape = x.v.number, tuple(x.shape_)
        name, cls = self.name[n], self.classes[n]
        if K in shape:
            element = tuple(s for s in shape if s is not K)
            if not self.row[n]:
                raise CannotTrace("one row, repeated, is returned")
            if tuple(cls.shape) != element and numel(cls.shape) != numel(element):
                raise CannotTrace("rows are returned in another shape")
            sizes = ", ".join(f"len({name})" if s is K else str(s) for s in shape)
            return f"Stack(cells, {name if n >= FIRST else f'list({name})'}, ({sizes},), {shape.index(K)})"
        if shape != tuple(cls.shape):
            return f"viewed({name}, {shape!r})"
        own = self.objects.setdefault(n, x) is x
        return name if own else f"as_class({name}, {name}.__class__)"  # a clone is another object

    def _fast(self, steps: list[Step], body: list[str]) -> tuple[Any, bool]:
        names = [f"a{i}" for i in range(len(self.args))]
        looks = bool(steps) or body[-1].startswith("return Concat(")
        found = self.region.kinds.taken.guard(self.note, looks)
        if found is None:
            return None, False
        tests, slots = found
        reads = [v for step in steps if not isinstance(step, Reduction) for v in step.reads]
        plain = [f"v{v} = flat[{i}]" for i, v in enumerate(reads)]
        called = f"_({', '.join(f'v{v}' for v in reads)})"
        if not tests and len(reads) == len(names) and body[:-1] == plain and body[-1].endswith(called):
            # one cell with the same arguments and results: its own function
            return partial(self.cells.session.recorder.callable_cell_or, self.single), True
        for i, e in enumerate(slots):
            body = [line.replace(f"flat[{i}]", e) for line in body]
        text = "\n            ".join(body)
        all_tests, _ = self.region.kinds.taken.guard(self.note, False)
        direct = assembled(names, all_tests, body, self.scope, self.callees)
        if direct and ".value()" not in text:  # which is made the first time
            return direct, True
        every = ", ".join(names)
        source = (
            f"def fast({every}):\n    if {' and '.join(tests) or 'True'}:\n        try:\n            {text}\n"
            f"        except MismatchError:\n            pass\n    return other({every})"
        )

        def make(other: Function) -> Function:
            scope = {**self.scope, "other": other}
            self._compile(source, scope)
            fast: Function = scope["fast"]
            return direct(fast) if direct else fast

        return make, direct is not None


def alone(value: Value, flat: list[Any]) -> None:
    """Refuse to write an argument in place that is there twice. Errors: CannotTrace."""
    rows = [row for one in flat for row in (one if isinstance(one, list | tuple) else (one,))]
    if sum(row is value for row in rows) > 1:
        raise CannotTrace("an argument is written in place of which another one is a view: write x = x + y")


def resized(path: tuple[Any, ...]) -> None:
    """Raise SizeError."""
    raise SizeError(path)


def same_length(*lists: list[Any]) -> None:
    """Refuse lists of several lengths whose rows are computed with together. Errors: CannotTrace."""
    if len({*map(len, lists)}) > 1:
        sizes = " and ".join(str(len(one)) for one in lists)
        raise CannotTrace(f"rows of lists of {sizes} are computed with: take a single row by its number")


def _root(x: Traced) -> Traced:
    """The tensor that one is a view of, or itself."""
    while x.source is not None:
        x = x.source
    return x


def _mismatch(*_: object) -> Any:
    raise MismatchError


def mask(p: float, shape: tuple[int, ...]) -> torch.Tensor:
    """What dropout multiplies with, drawn as PyTorch draws it."""
    if p >= 1:
        return torch.zeros(shape)
    return torch.empty(shape).bernoulli_(1 - p).div_(1 - p)
