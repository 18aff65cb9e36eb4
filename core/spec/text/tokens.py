"""The small tokenizer behind every expression of a spec, and a cursor over its tokens."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TypeVar, cast

from abw.core.spec.text.document import Scalar
from abw.core.spec.text.report import Report

T = TypeVar("T")

MAX_NESTING = 50

# Equations and sizes.
EXPRESSION = re.compile(
    r"""(?P<blank>[ \t]+|\#[^\n]*) | (?P<newline>\n)
      | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)
      | (?P<name>[^\W\d]\w*) | (?P<sign>==|!=|<=|>=|\*\*|[-+*/@()\[\],:=<>]) | (?P<unknown>.)""",
    re.VERBOSE | re.DOTALL,
)

# Sources and conditions: a name may have hyphens, a number a sign.
PATH = re.compile(
    r"""(?P<blank>\s+) | (?P<number>-?[0-9]+) | (?P<name>[^\W\d](?:[\w-]*\w)?)
      | (?P<sign>==|!=|<=|>=|[<>.\[\]]) | (?P<unknown>.)""",
    re.VERBOSE | re.DOTALL,
)

Kind = Literal["name", "number", "sign", "newline", "unknown", "end"]


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of an expression that begins at offset `at`."""

    kind: Kind
    text: str
    at: int

    @property
    def end(self) -> int:
        """The offset behind it."""
        return self.at + len(self.text)

    def error(self, message: str, hint: str = "") -> ExpressionError:
        """What to raise where the token is wrong."""
        return ExpressionError(message, self.at, max(1, len(self.text)), hint)

    def __str__(self) -> str:
        """The token as messages quote it."""
        return {"end": "the end", "newline": "the end of the line"}.get(self.kind, f"'{self.text}'")


class ExpressionError(Exception):
    """An expression that cannot be read, or means nothing; `at` and `length` say which part of it.

    Without `at` it is all of the text; without a message an earlier mistake, which was told, hides what it
    means.
    """

    def __init__(self, message: str = "", at: int | None = None, length: int = 1, hint: str = "") -> None:
        """What is wrong, and where in the text."""
        super().__init__(message)
        self.message = message
        self.at = at
        self.length = length
        self.hint = hint

    def note(self, text: Scalar, report: Report) -> None:
        """Add this to the problems of the text's file."""
        if self.message:
            where = text.where if self.at is None else text.at(self.at, self.length)
            report.add(self.message, where, self.hint)


@contextmanager
def noting(text: Scalar, report: Report) -> Iterator[None]:
    """Note what is wrong with a text, and end the block there."""
    try:
        yield
    except ExpressionError as problem:
        problem.note(text, report)


def parsed(parse: Callable[[str], T], text: Scalar, report: Report) -> T | None:
    """What a parser makes of a text; None, with the problem in `report`, where it cannot be read."""
    try:
        return parse(text.text)
    except ExpressionError as problem:
        problem.note(text, report)
        return None


def tokenize(text: str, pattern: re.Pattern[str]) -> list[Token]:
    """All tokens but blanks and comments; the last is of kind 'end'."""
    tokens = [
        Token(cast(Kind, match.lastgroup), match.group(), match.start())
        for match in pattern.finditer(text)
        if match.lastgroup != "blank"
    ]
    return [*tokens, Token("end", "", len(text.rstrip()))]


class Cursor:
    """A position in a row of tokens, of which the last stays when it is taken."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        """Begin at the first token."""
        self._tokens = tokens
        self._next = 0
        self._depth = 0

    @property
    def token(self) -> Token:
        """The token to come."""
        return self._tokens[self._next]

    @property
    def end(self) -> int:
        """The offset behind the last token taken."""
        return self._tokens[self._next - 1].end if self._next else 0

    @property
    def number_follows(self) -> bool:
        """Whether a number comes after the token to come."""
        return self.token.kind != "end" and self._tokens[self._next + 1].kind == "number"

    def follows(self, *texts: str) -> bool:
        """Whether the tokens to come are these signs and words."""
        return tuple(token.text for token in self._tokens[self._next : self._next + len(texts)]) == texts

    def take(self) -> Token:
        """The next token, and go on."""
        token = self.token
        if token.kind != "end":
            self._next += 1
        return token

    def accept(self, *texts: str) -> Token | None:
        """The next token if it is one of these signs or words."""
        return self.take() if self.token.kind in ("sign", "name") and self.token.text in texts else None

    def expect(self, text: str, after: str) -> Token:
        """The next token, which must be this sign."""
        if token := self.accept(text):
            return token
        raise self.unexpected(f"'{text}' {after}")

    def finish(self, wanted: str, hint: str = "") -> None:
        """Refuse what follows. Errors: ExpressionError."""
        if self.token.kind != "end":
            raise self.unexpected(wanted, hint)

    def unexpected(self, wanted: str, hint: str = "") -> ExpressionError:
        """What to raise where something else should stand."""
        length = max(1, len(self.token.text.strip()))
        return ExpressionError(f"expected {wanted}, not {self.token}", self.token.at, length, hint)

    @contextmanager
    def nested(self) -> Iterator[None]:
        """One level of parentheses deeper."""
        self._depth += 1
        if self._depth > MAX_NESTING:
            hint = "name the inner parts in equations of their own"
            raise ExpressionError(f"nested more than {MAX_NESTING} deep", self.token.at, 1, hint)
        yield
        self._depth -= 1
