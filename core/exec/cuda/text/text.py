"""The text of a kernel, line by line: blocks by indentation, constants by names that say their values."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager

# The names of constants: U12 is the unsigned 12, F_3f800000 the float with these bits.
NAMED = re.compile(r"\b(?:U(\d+)|F_([0-9a-f]{8}))\b")


class Text:
    """Lines of Python."""

    def __init__(self) -> None:
        """None yet."""
        self._lines: list[str] = []
        self._depth = 0
        self._count = 0

    def add(self, *lines: str) -> None:
        """Append lines at the present indentation."""
        self._lines += ["    " * self._depth + line for line in lines]

    def let(self, *lines: str) -> None:
        """Append `name = value` for unsigned values; numba would make every sum of them a 64-bit one."""
        for line in lines:
            name, _, value = line.partition(" = ")
            self.add(f"{name} = uint32({value})")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """`head:` with what is added meanwhile inside."""
        self.add(head + ":")
        self._depth += 1
        yield
        self._depth -= 1

    @contextmanager
    def when(self, condition: str | None) -> Iterator[None]:
        """A branch, or none where there is no condition."""
        if condition is None:
            yield
        else:
            with self.block(f"if {condition}"):
                yield

    @contextmanager
    def count(self, name: str, first: str, end: str, step: str) -> Iterator[None]:
        """A loop; `while`, since a `range` with a step costs a division of 64 bits on the device."""
        self.let(f"{name} = {first}")
        with self.block(f"while {name} < {end}"):
            yield
            self.let(f"{name} = {name} + {step}")

    def name(self, stem: str) -> str:
        """A fresh name."""
        self._count += 1
        return f"{stem}{self._count}"

    def __str__(self) -> str:
        return "\n".join(self._lines) + "\n"


def u(value: int) -> str:
    """An unsigned constant: a plain number would make the arithmetic 64-bit."""
    return f"U{value}"


def number(value: float) -> str:
    """A float constant: a plain number would make the arithmetic double precision."""
    return f"F_{struct.unpack('<I', struct.pack('<f', value))[0]:08x}"


def plus(base: str, offset: int) -> str:
    """`base + offset`."""
    return base if offset == 0 else f"{base} + {u(offset)}"


def times(value: str, factor: int) -> str:
    """`value * factor`, whatever the value is made of."""
    if factor == 1:
        return value
    return f"{value} * {u(factor)}" if value.isidentifier() else f"({value}) * {u(factor)}"


def constants(text: str) -> list[str]:
    """The definitions of all constants that a text names."""
    found = sorted(
        {m.groups() for m in NAMED.finditer(text)}, key=lambda g: (g[0] is None, int(g[0] or 0), g)
    )
    lines = []
    for unsigned, bits in found:
        if unsigned is not None:
            lines.append(f"U{unsigned} = np.uint32({unsigned})")
        else:
            value = struct.unpack("<f", struct.pack("<I", int(bits, 16)))[0]
            lines.append(f"F_{bits} = np.float32({_literal(value)})")
    return lines


def _literal(value: float) -> str:
    if value != value or value in (float("inf"), float("-inf")):
        return f'"{value}"'
    return repr(value)
