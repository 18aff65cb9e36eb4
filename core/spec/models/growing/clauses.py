"""The little language of growth: conditions, values, and what is chosen.

tests  = test ("and" test)*
test   = "not"? path (comparison value)?           # a link stands for "it is there", a field for "is not 0"
value  = path (("+" | "-") number)? | number | word
choice = ("argmax" | "sample" | "best" width "of") type "." output | "chance" probability
       | type "." output ">" number
each   = name "in" path                               # for each vertex of a list, which has the name there
word   = letters and signs up to a blank: what the vocabulary has in this row, or `allow` calls so
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import cast

from abw.core.ir.growth import How
from abw.core.ir.schema import Comparison
from abw.core.spec.models.sources import COMPARISONS, LinkPath, parse_path
from abw.core.spec.text.sizes import Cursor, ExpressionError, Kind, Token

PATTERN = re.compile(
    r"""(?P<blank>\s+) | (?P<number>-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)
      | (?P<name>[^\W\d](?:[\w-]*\w)?) | (?P<sign>==|!=|<=|>=|[<>.\[\]+-]) | (?P<unknown>.)""",
    re.VERBOSE | re.DOTALL,
)
WORD = re.compile(r"\s*(\S+)")
WHOLE = re.compile(r"-?[0-9]{1,9}")
REAL = re.compile(r"[-+]?[0-9][0-9.eE]*")
# What conditions do without, and what to write instead.
_WITHOUT = {
    "or": "there is no 'or': write a clause for each side, the second with `unless:` and the first side",
    "in": "there is no 'in': write a clause for each value, as in `when: FIELD == VALUE`",
}
# So many continuations may be picked at once.
WIDEST = 1024


@dataclass(frozen=True, slots=True)
class WrittenTest:
    """`next != </s>`: the path, the comparison and what stands behind it, a number or a word."""

    path: LinkPath
    comparison: Comparison | None
    against: Token | None
    negated: bool


@dataclass(frozen=True, slots=True)
class WrittenValue:
    """`depth + 1`: a path and what is added; or what stands alone, a number or a word."""

    path: LinkPath | None
    plus: int
    alone: Token


@dataclass(frozen=True, slots=True)
class WrittenChoice:
    """`argmax score.y`: how, of which type and output, with which limit, probability or number of picks."""

    how: How
    type: Token | None
    output: Token | None
    limit: float
    at: int
    width: int = 1


def tokens_of(text: str) -> list[Token]:
    """All tokens but blanks, and the end; what follows == or != is one token, whatever its signs."""
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        match = PATTERN.match(text, at)
        assert match is not None
        if match.lastgroup != "blank":
            tokens.append(Token(cast(Kind, match.lastgroup), match.group(), at))
        at = match.end()
        if match.group() in ("==", "!=") and (word := WORD.match(text, at)):
            kind: Kind = "number" if REAL.fullmatch(word[1]) else "name"
            tokens.append(Token(kind, word[1], word.start(1)))
            at = word.end()
    return [*tokens, Token("end", "", len(text.rstrip()))]


def parse_tests(text: str) -> tuple[WrittenTest, ...]:
    """Tests that must all hold. Errors: ExpressionError."""
    cursor = Cursor(tokens_of(text))
    tests = []
    while True:
        negated = cursor.accept("not") is not None
        path = parse_path(cursor)
        sign = cursor.accept(*COMPARISONS)
        against = None
        if sign is not None:
            against = cursor.take()
            words = sign.text in ("==", "!=")
            if against.kind != "number" and not (words and against.kind == "name"):
                wanted = "a number or a word" if words else "a number"
                raise against.error(f"expected {wanted}, not {against}")
            if against.kind == "number":
                whole(against)
        tests.append(WrittenTest(path, cast(Comparison, sign.text) if sign else None, against, negated))
        if not cursor.accept("and"):
            break
    cursor.finish("a comparison, 'and' or the end", _WITHOUT.get(cursor.token.text, ""))
    return tuple(tests)


def parse_value(text: str, names: frozenset[str]) -> WrittenValue:
    """A value; what does not begin with one of the names is a word. Errors: ExpressionError."""
    tokens = tokens_of(text)
    if tokens[0].kind == "number" and tokens[1].kind == "end":
        whole(tokens[0])
        return WrittenValue(None, 0, tokens[0])
    if tokens[0].text not in names:
        return WrittenValue(None, 0, Token("name", text.strip(), len(text) - len(text.lstrip())))
    cursor = Cursor(tokens)
    path = parse_path(cursor)
    plus = 0
    if cursor.token.kind == "number" and cursor.token.text.startswith("-"):  # depth -1
        plus = whole(cursor.take())
    elif sign := cursor.accept("+", "-"):
        number = cursor.take()
        if number.kind != "number" or number.text.startswith("-"):
            raise number.error(f"expected a number, not {number}")
        plus = whole(number) * (1 if sign.text == "+" else -1)
    cursor.finish("'.', '+', '-' or the end")
    return WrittenValue(path, plus, tokens[0])


def parse_each(text: str) -> tuple[Token, LinkPath]:
    """The name of a list's members, and where it is. Errors: ExpressionError."""
    cursor = Cursor(tokens_of(text))
    name = cursor.token
    if name.kind != "name":
        raise cursor.unexpected("a name: each: NAME in LINK")
    cursor.take()
    cursor.expect("in", f"behind {name.text}")
    path = parse_path(cursor)
    cursor.finish("'.' or the end")
    return name, path


def parse_choice(text: str, how: str = "") -> WrittenChoice:
    """What is chosen; `how` where that is said elsewhere. Errors: ExpressionError."""
    cursor = Cursor([*([Token("name", how, 0)] if how else []), *tokens_of(text)])
    begin = cursor.token
    if cursor.accept("chance"):
        limit = _real(cursor)
        if not 0 <= limit <= 1:
            raise ExpressionError("a probability is from 0 to 1", begin.at, len(text.strip()))
        cursor.finish("the end")
        return WrittenChoice("chance", None, None, limit, begin.at)
    said = cursor.accept("argmax", "sample", "best")
    width = _width(cursor) if said and said.text == "best" else 1
    first = _name(cursor)
    cursor.expect(".", "between a type and its output")
    second = _name(cursor)
    if said:
        cursor.finish("the end")
        return WrittenChoice(cast(How, said.text), first, second, 0.0, first.at, width)
    cursor.expect(">", f"behind {first.text}.{second.text}, or 'argmax' before it")
    limit = _real(cursor)
    cursor.finish("the end")
    return WrittenChoice("over", first, second, limit, first.at)


def whole(token: Token) -> int:
    """The whole number that a token is. Errors: ExpressionError."""
    if not WHOLE.fullmatch(token.text):
        raise token.error(f"{token} is no whole number")
    return int(token.text)


def _width(cursor: Cursor) -> int:
    """`4 of`."""
    token = cursor.token
    if token.kind != "number":
        raise cursor.unexpected("how many: best 4 of TYPE.OUTPUT")
    if not 1 <= whole(token) <= WIDEST:
        raise token.error(f"best picks 1 to {WIDEST:,}")
    cursor.take()
    cursor.expect("of", f"behind {token.text}")
    return int(token.text)


def _real(cursor: Cursor) -> float:
    token = cursor.token
    if token.kind != "number":
        raise cursor.unexpected("a number")
    return float(cursor.take().text)


def _name(cursor: Cursor) -> Token:
    if cursor.token.kind != "name":
        raise cursor.unexpected("argmax, sample, best 4 of, chance, or TYPE.OUTPUT > NUMBER")
    return cursor.take()
