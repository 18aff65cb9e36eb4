"""LLVM IR as text: functions with structured loops, nothing that a pass would have to clean up.

Text, because writing it takes a fiftieth of the time that building it object by object does, and the text is
the key under which the machine code is kept.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from abw.core.exec.cpu.target import Target

# Vectors that are worked on together: as many of these as a row has a whole multiple of.
AT_ONCE = (4, 2, 1)

# Lines asked for: to be read, from the second-level cache or the first; to be written.
READ_FAR, READ_NEAR, WRITE_NEAR = "i32 0, i32 2", "i32 0, i32 3", "i32 1, i32 3"

# Closes a function.
END = "\n}\n"

# A type and a value: ("i64", "%v3").
Typed = tuple[str, str]


class Module:
    """Functions for one target, and what they declare."""

    def __init__(self, target: Target) -> None:
        """Begin an empty module."""
        self.target = target
        self._functions: list[str] = []
        self._declared: dict[str, None] = {}

    def declare(self, signature: str) -> None:
        """Name a function from outside, as `float @f(float)`."""
        self._declared[f"declare {signature}"] = None

    def add(self, function: Function) -> None:
        """Take a finished function."""
        self._functions.append(function.text())

    def text(self) -> str:
        """The module's IR."""
        t = self.target
        # vectors of 512 bits are legal even where a processor prefers half of it
        attributes = (
            f'attributes #0 = {{ nounwind "target-cpu"="{t.cpu}" "target-features"="{t.features}" '
            f'"min-legal-vector-width"="{32 * t.lanes}" "prefer-vector-width"="{32 * t.lanes}" }}'
        )
        return "\n".join([*self._declared, *self._functions, attributes, ""])


def function_text(module: str, name: str) -> str:
    """A function's definition in the text of a module. Raises ValueError where it has none of that name."""
    for part in module.split("define ")[1:]:
        if part.partition("(")[0].endswith(f"@{name}"):
            return f"define {part[: part.index(END) + len(END)]}"
    raise ValueError(f"the module has no function {name}")


class Function:
    """A function `name(params)` without a result, written line by line."""

    def __init__(self, module: Module, name: str, params: str, *, public: bool = False) -> None:
        """`params` as IR text. A function that is not public is seen in its module alone."""
        self.module = module
        self.target = module.target
        self.block = "entry"
        self._count = 0
        linkage = "" if public else "internal "
        self._lines = [f"define {linkage}void @{name}({params}) noinline #0 {{", "entry:"]

    def text(self) -> str:
        """The whole function."""
        return "\n".join([*self._lines, "  ret void", "}"])

    def name(self) -> str:
        """A fresh name of a value."""
        self._count += 1
        return f"%v{self._count}"

    def do(self, line: str) -> None:
        """An instruction without a result."""
        self._lines.append("  " + line)

    def let(self, instruction: str) -> str:
        """An instruction's result."""
        name = self.name()
        self._lines.append(f"  {name} = {instruction}")
        return name

    def call(self, kind: str, name: str, *args: tuple[str, str | int], flags: str = "") -> str:
        """The result of a function from outside, given types and values."""
        self.module.declare(f"{kind} @{name}({', '.join(of for of, _ in args)})")
        values = ", ".join(f"{of} {value}" for of, value in args)
        return self.let(f"call {flags}{kind} @{name}({values})")

    @contextmanager
    def several(self, floats: int) -> Iterator[int]:
        """What is written meanwhile works on several vectors as on one, and a processor on them side by side.

        `floats`: of a row, a whole number of vectors, of which so many are taken together that it stays so.
        Gives the floats of a step.
        """
        narrow = self.target
        lanes = next(n * narrow.lanes for n in AT_ONCE if floats % (n * narrow.lanes) == 0)
        self.target = replace(narrow, lanes=lanes)
        yield lanes
        self.target = narrow

    @contextmanager
    def side_by_side(self, count: int) -> Iterator[None]:
        """What is written meanwhile works on `count` vectors joined to one."""
        narrow = self.target
        self.target = replace(narrow, lanes=count * narrow.lanes)
        yield
        self.target = narrow

    def join(self, vectors: Sequence[str]) -> str:
        """Vectors side by side as one."""
        if len(vectors) == 1:
            return vectors[0]
        lanes, wide, suffix = self._joined(len(vectors))
        joined = "poison"
        for number, vector in enumerate(vectors):
            place = (self.target.vector, vector), ("i64", lanes * number)
            joined = self.call(wide, f"llvm.vector.insert.{suffix}.v{lanes}f32", (wide, joined), *place)
        return joined

    def split(self, joined: str, count: int) -> list[str]:
        """The vectors that `count` were joined to."""
        if count == 1:
            return [joined]
        lanes, wide, suffix = self._joined(count)
        name = f"llvm.vector.extract.v{lanes}f32.{suffix}"
        return [
            self.call(self.target.vector, name, (wide, joined), ("i64", lanes * number))
            for number in range(count)
        ]

    def _joined(self, count: int) -> tuple[int, str, str]:
        """The lanes of a vector, and the type of so many joined: its own name, and that in functions'."""
        lanes = self.target.lanes
        return lanes, f"<{count * lanes} x float>", f"v{count * lanes}f32"

    # addresses and memory

    def at(self, pointer: str, offset: str | int) -> str:
        """`offset` bytes after a pointer."""
        return pointer if offset == 0 else self.let(f"getelementptr i8, ptr {pointer}, i64 {offset}")

    def item(self, kind: str, pointer: str, index: str | int) -> str:
        """Element `index` of an array, read."""
        place = pointer if index == 0 else self.let(f"getelementptr {kind}, ptr {pointer}, i64 {index}")
        return self.let(f"load {kind}, ptr {place}")

    def put(self, kind: str, value: str, pointer: str, index: str | int) -> None:
        """Write element `index` of an array."""
        place = self.let(f"getelementptr {kind}, ptr {pointer}, i64 {index}")
        self.do(f"store {kind} {value}, ptr {place}")

    def int_item(self, pointer: str, index: str | int) -> str:
        """Element `index` of an array of 32-bit integers, as 64 bits."""
        return self.let(f"sext i32 {self.item('i32', pointer, index)} to i64")

    def pointer_item(self, pointer: str, index: str | int) -> str:
        """Element `index` of an array of addresses."""
        return self.item("ptr", pointer, index)

    def load(self, pointer: str, offset: str | int = 0) -> str:
        """A vector, from any address."""
        return self.let(f"load {self.target.vector}, ptr {self.at(pointer, offset)}, align 4")

    def store(self, vector: str, pointer: str, offset: str | int = 0) -> None:
        """Write a vector to any address."""
        self.do(f"store {self.target.vector} {vector}, ptr {self.at(pointer, offset)}, align 4")

    def prefetch(self, pointer: str, hint: str = READ_FAR) -> None:
        """Ask for the cache line at any address, as a hint says."""
        self.module.declare("void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        self.do(f"call void @llvm.prefetch.p0(ptr {pointer}, {hint}, i32 1)")

    def spread(self, scalar: str, kind: str = "float", lanes: int = 0) -> str:
        """A number in every lane, of as many as vectors have or of so many."""
        lanes = lanes or self.target.lanes
        vector = f"<{lanes} x {kind}>"
        first = self.let(f"insertelement {vector} poison, {kind} {scalar}, i64 0")
        return self.let(f"shufflevector {vector} {first}, {vector} poison, <{lanes} x i32> zeroinitializer")

    # arithmetic

    def i64(self, operation: str, a: str | int, b: str | int) -> str:
        """`add`, `mul`, … of 64-bit integers."""
        return self.let(f"{operation} i64 {a}, {b}")

    def least(self, a: str | int, b: str | int) -> str:
        """The smaller of two 64-bit integers."""
        return self.let(f"select i1 {self.let(f'icmp slt i64 {a}, {b}')}, i64 {a}, i64 {b}")

    def most(self, a: str | int, b: str | int) -> str:
        """The larger of two 64-bit integers."""
        return self.let(f"select i1 {self.let(f'icmp sgt i64 {a}, {b}')}, i64 {a}, i64 {b}")

    def vec(self, operation: str, a: str, b: str) -> str:
        """`fadd`, `fmul`, … of vectors."""
        return self.let(f"{operation} {self.target.vector} {a}, {b}")

    def widened(self, a: str) -> str:
        """A vector in double precision."""
        return self.let(f"fpext {self.target.vector} {a} to {self.target.wide}")

    def fma(self, a: str, b: str, c: str) -> str:
        """`a * b + c`, rounded once where the processor can."""
        return self.intrinsic("fmuladd", a, b, c)

    def intrinsic(self, name: str, *args: str) -> str:
        """LLVM's function `name` on vectors."""
        v = self.target.vector
        return self.call(v, f"llvm.{name}.v{self.target.lanes}f32", *((v, a) for a in args))

    def choose(self, comparison: str, a: str, b: str, yes: str, no: str) -> str:
        """Lane by lane `yes` where the comparison (`olt`, `uno`, …) of a and b holds, else `no`."""
        return self.select(self.let(f"fcmp {comparison} {self.target.vector} {a}, {b}"), yes, no)

    def select(self, mask: str, yes: str, no: str) -> str:
        """Lane by lane `yes` where the mask is set, else `no`."""
        v = self.target.vector
        return self.let(f"select <{self.target.lanes} x i1> {mask}, {v} {yes}, {v} {no}")

    # structure

    def loop(
        self,
        count: str | int,
        body: Callable[[str, list[str]], Sequence[str]],
        carried: Sequence[Typed] = (),
        first: str | int = 0,
    ) -> list[str]:
        """`body(index, values)` for index `first` to `count - 1`, at least once; it gives the next values.

        `carried` are the values (type, value) before the first turn; the result are those after the last.
        """
        head, done = self._labels("loop", "done")
        before = self.block
        self.do(f"br label %{head}")
        self._enter(head)
        index, values = self.name(), [self.name() for _ in carried]
        place = len(self._lines)
        self._lines.append("")
        results = list(body(index, list(values)))
        following = self.let(f"add nuw nsw i64 {index}, 1")
        phis = [f"  {index} = phi i64 [ {first}, %{before} ], [ {following}, %{self.block} ]"]
        for name, (kind, value), result in zip(values, carried, results, strict=True):
            phis.append(f"  {name} = phi {kind} [ {value}, %{before} ], [ {result}, %{self.block} ]")
        self._lines[place] = "\n".join(phis)
        more = self.let(f"icmp slt i64 {following}, {count}")
        self.do(f"br i1 {more}, label %{head}, label %{done}")
        self._enter(done)
        return results

    def repeat(self, count: str | int, body: Callable[[str], None], first: str | int = 0) -> None:
        """`body(index)` for index `first` to `count - 1`, at least once."""

        def turn(index: str, _: list[str]) -> Sequence[str]:
            body(index)
            return ()

        self.loop(count, turn, first=first)

    def repeat_any(self, count: str, body: Callable[[str], None]) -> None:
        """`body(index)` for each index below `count`, which may be 0."""
        self.when(self.let(f"icmp sgt i64 {count}, 0"), lambda: self.repeat(count, body))

    def when(
        self, condition: str, then: Callable[[], None], otherwise: Callable[[], None] | None = None
    ) -> None:
        """A branch."""
        yes, no, done = self._labels("then", "else", "after")
        self.do(f"br i1 {condition}, label %{yes}, label %{no if otherwise else done}")
        self._enter(yes)
        then()
        self.do(f"br label %{done}")
        if otherwise:
            self._enter(no)
            otherwise()
            self.do(f"br label %{done}")
        self._enter(done)

    def leave(self) -> None:
        """Return at once; what follows in the block is never reached."""
        self.do("ret void")
        self._enter(*self._labels("unreached"))

    def until(self, take: str, end: str, body: Callable[[str], None]) -> None:
        """`body(number)` with the result of the instruction `take`, until that is `end` or more."""
        head, turn, done = self._labels("take", "took", "none")
        self.do(f"br label %{head}")
        self._enter(head)
        number = self.let(take)
        self.do(f"br i1 {self.let(f'icmp slt i64 {number}, {end}')}, label %{turn}, label %{done}")
        self._enter(turn)
        body(number)
        self.do(f"br label %{head}")
        self._enter(done)

    def spin(self, look: str, goal: str, looks: int, rest: str) -> None:
        """Repeat the instruction `look` until its result is `goal` or more; from `looks` on with `rest`."""
        head, tired, turn, done = self._labels("look", "tired", "turn", "seen")
        before = self.block
        self.do(f"br label %{head}")
        self._enter(head)
        count, following = self.name(), self.name()
        self.do(f"{count} = phi i64 [ 0, %{before} ], [ {following}, %{turn} ]")
        reached = self.let(f"icmp sge i64 {self.let(look)}, {goal}")
        self.do(f"br i1 {reached}, label %{done}, label %{tired}")
        self._enter(tired)
        self.do(f"{following} = add i64 {count}, 1")
        self.when(self.let(f"icmp sgt i64 {count}, {looks}"), lambda: self.do(rest))
        self.do(f"br label %{turn}")
        self._enter(turn)
        self.do(f"br label %{head}")
        self._enter(done)

    def cases(self, value: str, counts: Sequence[int], body: Callable[[int], None]) -> None:
        """`body(n)` for the n of `counts` that `value` is."""
        self._count += 1
        number = self._count
        labels = {n: f"case{number}.{n}" for n in counts}
        listed = " ".join(f"i64 {n}, label %{label}" for n, label in labels.items())
        self.do(f"switch i64 {value}, label %after{number} [ {listed} ]")
        for n, label in labels.items():
            self._enter(label)
            body(n)
            self.do(f"br label %after{number}")
        self._enter(f"after{number}")

    def _labels(self, *stems: str) -> list[str]:
        """Fresh labels."""
        self._count += 1
        return [f"{stem}{self._count}" for stem in stems]

    def _enter(self, label: str) -> None:
        self._lines.append(f"{label}:")
        self.block = label


def number(value: float) -> str:
    """A float constant, exactly the nearest of single precision."""
    (single,) = struct.unpack("<f", struct.pack("<f", value))
    (bits,) = struct.unpack("<Q", struct.pack("<d", single))
    return f"0x{bits:016X}"


def double(value: float) -> str:
    """A constant of double precision."""
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    return f"0x{bits:016X}"


def splat_double(value: float) -> str:
    """A vector constant of equal doubles."""
    return f"splat (double {double(value)})"


def splat(value: float) -> str:
    """A vector constant of equal floats."""
    return f"splat (float {number(value)})"
