"""Ways to damage a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

# What stands where a number should.
NUMBERS = (
    *(b"0", b"-0", b"-1", b"1", b"255", b"256", b"65536", b"2147483647", b"2147483648", b"-2147483649"),
    *(b"9223372036854775807", b"18446744073709551616", b"9" * 400, b"1" * 5000, b"0.5", b"1e9", b"1e999"),
    *(b"1e-400", b"nan", b"NaN", b"-inf", b"Infinity", b"0x10", b"1_0", "٣".encode(), "²".encode()),
)
# What no file should hold, or what means something to a reader behind the first one.
SIGNS = (
    *(b"\x00", b"\x07", b"\x0f", b"\x1b[2J", b"\x1b]0;title\x07", b"\x7f", b"\r", b"\t", b"\x0b", b"\x1c"),
    *(b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xf4\x90\x80\x80", b"\\ud800", b"\\u0000"),
    *(c.encode() for c in "\x85\x9b\u2028\u202e\u200b\ufeff\U0001f600é"),
    *(b"[/nope]", b"[red]", b"../../x", b"/dev/zero", b"%s%n", b"{}", b"'", b'"', b"\\", b"\n", b" ", b"#"),
)
# Bytes of a damaged file: what is read in linear time may hold a million words and have its seconds.
LARGEST = 1 << 20
BRACKETS = ((b"(", b")"), (b"[", b"]"), (b"{", b"}"), (b'{"a":', b"}"), (b"(a ", b")"))
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
_TOKEN = re.compile(rb"[^\s()\[\]{},:|\"]+")

Way = Callable[[Random, bytes, Sequence[bytes], bytes], bytes]


def damaged(rng: Random, data: bytes, words: Sequence[bytes] = (), other: bytes = b"") -> bytes:
    """The bytes with one to eight changes; `words` are a format's own, `other` is a file to take parts of."""
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5, 8))):
        data = rng.choice(WAYS)(rng, data, words, other)[:LARGEST]
    return data


def _span(rng: Random, data: bytes) -> tuple[int, int]:
    """A part of the bytes, mostly a short one."""
    begin = rng.randint(0, len(data))
    return begin, min(len(data), begin + rng.choice((1, 1, 2, 4, 8, 64, len(data))))


def _flip(rng: Random, data: bytes, words: Sequence[bytes], other: bytes) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def _change(rng: Random, data: bytes, words: Sequence[bytes], other: bytes) -> bytes:
    begin, end = _span(rng, data)
    return data[:begin] + rng.randbytes(min(end - begin, 8)) + data[end:]


def _delete(rng: Random, data: bytes, words: Sequence[bytes], other: bytes) -> bytes:
    begin, end = _span(rng, data)
    return data[:begin] + data[end:]


def _double(rng: Random, data: bytes, words: Sequence[bytes], other: bytes) -> bytes:
    begin, end = _span(rng, data)
    return data[:end] + data[begin:end] * rng.choice((1, 1, 2, 20)) + data[end:]


def _truncate(rng: Random, data: bytes, words: Sequence[bytes], other: bytes) -> bytes:
    return data[: rng.randint(0, len(data))]


def _insert(rng: Random, data: bytes, words: Sequence[bytes], other: bytes) -> bytes:
    at = rng.randint(0, len(data))
    return data[:at] + rng.choice((*SIGNS, *words)) + data[at:]


def _lines(rng: Random, data: bytes, words: Sequence[bytes], other: bytes) -> bytes:
    """A line dropped, repeated, cut, moved, or taken from the other file."""
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    match rng.randrange(5):
        case 0:
            del lines[at]
        case 1:
            lines[at:at] = [lines[at]] * rng.choice((1, 2, 50))
        case 2:
            lines[at] = lines[at][: rng.randint(0, len(lines[at]))]
        case 3:
            lines.insert(rng.randrange(len(lines)), lines.pop(at))
        case _:
            lines.insert(at, rng.choice(other.split(b"\n")))
    return b"\n".join(lines)


def _replaced(rng: Random, data: bytes, pattern: re.Pattern[bytes], choices: Sequence[bytes]) -> bytes:
    found = list(pattern.finditer(data))
    if not found:
        return data
    one = rng.choice(found)
    return data[: one.start()] + rng.choice(choices) + data[one.end() :]


def _number(rng: Random, data: bytes, words: Sequence[bytes], other: bytes) -> bytes:
    return _replaced(rng, data, _NUMBER, NUMBERS)


def _token(rng: Random, data: bytes, words: Sequence[bytes], other: bytes) -> bytes:
    """A token replaced by another one, of this file, the other, or the format."""
    tokens = _TOKEN.findall(data) + _TOKEN.findall(other)
    some = rng.sample(tokens, min(len(tokens), 20))
    return _replaced(rng, data, _TOKEN, (*words, *NUMBERS[:6], *some, b""))


def _nest(rng: Random, data: bytes, words: Sequence[bytes], other: bytes) -> bytes:
    opened, closed = rng.choice(BRACKETS)
    depth = rng.choice((1, 2, 30, 1000, 20_000))
    begin, end = _span(rng, data)
    return data[:begin] + opened * depth + data[begin:end] + closed * rng.choice((0, depth)) + data[end:]


def _splice(rng: Random, data: bytes, words: Sequence[bytes], other: bytes) -> bytes:
    begin, end = _span(rng, other)
    at = rng.randint(0, len(data))
    return data[:at] + other[begin:end] + data[at:]


WAYS: Sequence[Way] = (
    *(_flip, _flip, _change, _delete, _double, _truncate, _insert, _insert, _lines, _lines),
    *(_number, _number, _token, _token, _nest, _splice),
)
