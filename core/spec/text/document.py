"""YAML with positions: a file's nodes, each with its place, and without YAML's traps.

Scalars stay text here; `abw.core.spec.text.fields` reads them as YAML 1.2 would, so that `1e-3` is a number
and `on` is not a truth value. Duplicate keys, tags, and aliases that multiply are mistakes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import yaml

from abw.core.base.errors import Problem, Span, missing_file
from abw.core.base.files import why_no_file
from abw.core.spec.text.report import note, report, reporting

MAX_BYTES = 1_000_000
# Nodes of a text of at most so many characters are kept.
MAX_KEPT = 10_000
MAX_DEPTH = 20
COMMAS = 'inside { } put quotes around a text with commas: equations: "y = maximum(x, 0)"'
# At most so many nodes may come from aliases, each counted as often as it is repeated.
MAX_ALIASED = 1000


@dataclass(frozen=True, slots=True)
class Lines:
    """A file's name and lines, to point into."""

    file: str
    lines: tuple[str, ...]

    def span(self, line: int, column: int, length: int = 1) -> Span:
        """A place by 1-based line and column."""
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        return Span(self.file, line, column, text, max(1, length))


@dataclass(frozen=True, slots=True)
class Scalar:
    """A text. `plain`: written without quotes, so that it may mean a number.

    `origin` holds for each line of the text where it begins in the file (1-based line and column); it is
    empty where the text in the file looks different (escapes, folded lines).
    """

    text: str
    plain: bool
    where: Span
    lines: Lines
    origin: tuple[tuple[int, int], ...] = ()

    @property
    def cut(self) -> bool:
        """Whether it ends at a comma: inside { } and [ ] YAML ends a text without quotes there."""
        behind = self.where.text[self.where.column - 1 + self.where.length :]
        return self.plain and behind.lstrip().startswith(",")

    def at(self, offset: int, length: int = 1) -> Span:
        """The place of a part of the text."""
        row = self.text.count("\n", 0, offset)
        if row >= len(self.origin):
            return self.where
        line, column = self.origin[row]
        return self.lines.span(line, column + offset - (self.text.rfind("\n", 0, offset) + 1), length)


@dataclass(frozen=True, slots=True)
class Mapping:
    """Keys and values, each key once."""

    items: tuple[tuple[Scalar, Node], ...]
    where: Span

    def get(self, name: str) -> Node | None:
        """The value of a key."""
        return next((value for key, value in self.items if key.text == name), None)

    def key(self, name: str) -> Scalar | None:
        """The key itself, to point at."""
        return next((key for key, _ in self.items if key.text == name), None)


@dataclass(frozen=True, slots=True)
class Sequence:
    """Values in order."""

    items: tuple[Node, ...]
    where: Span


Node = Scalar | Mapping | Sequence


def at(node: Node | None, *keys: str) -> Node | None:
    """What keys lead to, one inside the other; None where one is no mapping, or has no such key."""
    for name in keys:
        node = node.get(name) if isinstance(node, Mapping) else None
    return node


def pairs(node: Node | None, *keys: str) -> tuple[tuple[Scalar, Node], ...]:
    """The entries of the mapping that keys lead to; none where there is none."""
    found = at(node, *keys)
    return found.items if isinstance(found, Mapping) else ()


def text_at(node: Node | None, *keys: str) -> str:
    """The text that keys lead to, whatever it means; '' where there is none."""
    found = at(node, *keys)
    return found.text if isinstance(found, Scalar) else ""


def read(path: Path, asked: Span | None = None) -> Node | None:
    """The node at the top of a YAML file; None, with the problems noted, where there is none.

    `asked` is the place that names the file. Cost: linear in the file (at most 1 MB); nothing
    where a small one was read before.
    """
    text = _text(path, asked)
    if text is None:
        return None
    node, problems = (_composed if len(text) <= MAX_KEPT else _compose)(str(path), text)
    report().extend(problems)
    return node


@reporting()
def _compose(file: str, text: str) -> tuple[Node | None, tuple[Problem, ...]]:
    """The node at the top of a file's text, and what is wrong with it."""
    lines = Lines(file, tuple(re.split("\r\n|[\n\r\x85\u2028\u2029]", text)))
    node = None
    try:
        node = _Composer(lines).compose(text)
    except _StopError:
        pass
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = lines.span(mark.line + 1, mark.column + 1) if mark else None
        what = ", ".join(part for part in (error.context, error.problem) if part)
        note(f"not YAML: {what}", where, _syntax_hint(what))
    except yaml.reader.ReaderError as error:
        before = re.split("\r\n|[\n\r\x85\u2028\u2029]", text[: error.position])
        where = lines.span(len(before), len(before[-1]) + 1)
        note(f"not YAML: a control character (U+{int(error.character):04X})", where)
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        note(f"not YAML: {error}", lines.span(1, 1))
    return node, report().problems


# A spec is opened again and again, cells are shared by models, and YAML takes most of a model's reading.
_composed = lru_cache(maxsize=128)(_compose)


def _text(path: Path, asked: Span | None) -> str | None:
    try:
        if found := why_no_file(path):
            note(f"{path} is {found}, not a file", asked)
            return None
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        note(f"there is no file {path}", asked, missing_file(path))
        return None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        note(f"cannot read {str(path)!r}: {reason}", asked)
        return None
    if len(data) > MAX_BYTES:
        note(f"{path} is too large to be a spec (more than {MAX_BYTES:,} bytes)", asked)
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        note("not UTF-8", Span(str(path), line), "save the file as UTF-8 text")
        return None


def _syntax_hint(message: str) -> str:
    if "'\\t'" in message:
        return "indent with blanks, not with tabs"
    if "'['" in message or "']'" in message:
        return 'inside { } put quotes around what has brackets: x: "words[id]"'
    if "mapping values are not allowed" in message:
        return "a text with ': ' in it needs quotes; otherwise check the indentation"
    if "undefined alias" in message or "alias" in message or "anchor" in message:
        return "a text that begins with * or & needs quotes"
    return ""


class _StopError(Exception):
    """What follows in the file makes no sense any more."""


@dataclass(slots=True)
class _Open:
    """A mapping or sequence whose end is not yet read. `size` counts its nodes, aliased ones as repeated."""

    event: yaml.CollectionStartEvent
    children: list[Node] = field(default_factory=list)
    size: int = 1


class _Composer:
    """Nodes from YAML's events, without recursion and with aliases on a budget."""

    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self.stack: list[_Open] = []
        self.anchors: dict[str, tuple[Node, int]] = {}
        self.aliased = 0

    def compose(self, text: str) -> Node | None:
        """The only document's top node."""
        root: Node | None = None
        documents = 0
        for event in self._events(text):
            node: Node | None = None
            size = 1
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self._stop("a spec is one YAML document, here begins a second", event)
            elif isinstance(event, yaml.AliasEvent):
                node, size = self._alias(event)
            elif isinstance(event, yaml.ScalarEvent):
                node = self._scalar(event)
            elif isinstance(event, yaml.CollectionStartEvent):
                self.stack.append(_Open(event))
                if len(self.stack) > MAX_DEPTH:
                    self._stop(f"nested more than {MAX_DEPTH} deep", event)
            elif isinstance(event, yaml.CollectionEndEvent):
                closed = self.stack.pop()
                node, size, event = self._collection(closed), closed.size, closed.event
            if node is None:
                continue
            if isinstance(event, yaml.NodeEvent) and not isinstance(event, yaml.AliasEvent) and event.anchor:
                self.anchors[event.anchor] = (node, size)
            if self.stack:
                self.stack[-1].children.append(node)
                self.stack[-1].size += size
            else:
                root = node
        if root is None or (isinstance(root, Scalar) and root.plain and not root.text):
            note("the file is empty", self.lines.span(1, 1))
            return None
        return root

    def _events(self, text: str) -> Iterator[yaml.Event]:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if tag := getattr(event, "tag", None):
                self._add(f"a tag ({tag}) has no meaning in a spec", event)
            yield event

    def _alias(self, event: yaml.AliasEvent) -> tuple[Node, int]:
        name = event.anchor or ""
        if name not in self.anchors:
            hint = "a text that begins with * needs quotes"
            self._stop(f"'*{name}' repeats what is not (yet) there", event, hint)
        node, size = self.anchors[name]
        self.aliased += size
        if self.aliased > MAX_ALIASED:
            self._stop(f"aliases repeat more than {MAX_ALIASED} values", event, "write out what is meant")
        return node, size

    def _scalar(self, event: yaml.ScalarEvent) -> Scalar:
        start, end = _marks(event)
        if any("\ud800" <= c <= "\udfff" for c in event.value):
            self._stop("half of a surrogate pair is no character", event)
        origin: list[tuple[int, int]] = []
        if event.style == "|":
            rows = event.value.split("\n")
            for number, row in enumerate(rows, start.line + 1):
                line = self.lines.lines[number] if number < len(self.lines.lines) else ""
                if row and not line.endswith(row):
                    origin = []
                    break
                origin.append((number + 1, len(line) - len(row) + 1))
        elif start.line == end.line:
            raw = self.lines.lines[start.line][start.column : end.column]
            if raw == event.value:
                origin.append((start.line + 1, start.column + 1))
            elif raw[1:-1] == event.value:
                origin.append((start.line + 1, start.column + 2))
        where = self._span(event)
        return Scalar(event.value, event.style is None, where, self.lines, tuple(origin))

    def _collection(self, closed: _Open) -> Node:
        where = self._span(closed.event)
        if isinstance(closed.event, yaml.SequenceStartEvent):
            return Sequence(tuple(closed.children), where)
        items: dict[str, tuple[Scalar, Node]] = {}
        for key, value in zip(closed.children[::2], closed.children[1::2], strict=True):
            if not isinstance(key, Scalar) or not key.text:
                note("a key must be a name", key.where)
            elif key.text in items:
                first = items[key.text][0].where.line
                note(f"duplicate key '{key.text}'", key.where, f"the first is on line {first}")
            else:
                items[key.text] = (key, value)
        return Mapping(tuple(items.values()), where)

    def _span(self, event: yaml.Event) -> Span:
        start, end = _marks(event)
        one_line = start.line == end.line and isinstance(event, yaml.ScalarEvent)
        return self.lines.span(start.line + 1, start.column + 1, end.column - start.column if one_line else 1)

    def _add(self, message: str, event: yaml.Event, hint: str = "") -> None:
        note(message, self._span(event), hint)

    def _stop(self, message: str, event: yaml.Event, hint: str = "") -> None:
        self._add(message, event, hint)
        raise _StopError


def _marks(event: yaml.Event) -> tuple[yaml.Mark, yaml.Mark]:
    """Where an event begins and ends, counted from 0."""
    start, end = event.start_mark, event.end_mark
    assert isinstance(start, yaml.Mark) and isinstance(end, yaml.Mark)  # PyYAML's parser marks every event
    return start, end
