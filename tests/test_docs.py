"""What the docs name is there: pages, headings, commands, options, files of the repository."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pages.cli import commands

ROOT = Path(__file__).resolve().parents[1]
PAGES = (
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG")),
    *sorted((ROOT / "docs").glob("*.md")),
)
# The options of every command by its full name.
OPTIONS = {
    name: {"--help", *(opt for param in command.params for opt in param.opts if opt.startswith("-"))}
    for name, command in commands().items()
}

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub names them in links."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    named: Counter[str] = Counter()
    found = set()
    for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        name = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        found.add(f"{name}-{named[name]}" if named[name] else name)  # the second of a name is name-1
        named[name] += 1
    return found


def shell_lines(text: str) -> Iterator[str]:
    """Every command line: of shell blocks, and what stands in backquotes and begins with a command."""
    for block in re.findall(r"^```(?:sh|console)\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        yield from block.replace("\\\n", " ").splitlines()
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    yield from (span for span in re.findall(r"`([^`\n]+)`", prose) if re.match(r"([A-Z_]+=\S+ )*abw ", span))


def calls(line: str) -> Iterator[list[str]]:
    """The words of each call of abw in a line."""
    for part in re.split(r"\||&&|;|\(|\)", re.sub(r"'[^']*'|\"[^\"]*\"", "TEXT", line.split(" #")[0])):
        words = [word for word in part.split() if not re.fullmatch(r"[A-Z_]+=\S+", word)]
        if words and words[0] == "abw":
            yield words


def wrong(words: list[str]) -> str:
    """What is wrong with a call; nothing if it can be made."""
    name = "abw"
    for word in words[1:]:
        if f"{name} {word}" not in OPTIONS:
            break
        name = f"{name} {word}"
    rest = words[1 + name.count(" ") :]
    if name in ("abw", "abw bench") and rest and re.match(r"[a-z]", rest[0]):
        return f"no command {rest[0]}"
    given = {word.split("=")[0] for word in rest if re.match(r"--?[a-z]", word)}
    return f"{name} has no {', '.join(sorted(given - OPTIONS[name]))}" if given - OPTIONS[name] else ""


@pages
def test_every_link_leads_to_a_page_and_a_heading_of_it(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", page.read_text()):
        path, _, heading = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), target
        assert not heading or heading in anchors(file), target


@pytest.mark.parametrize("name", ["reference.md", "cli.md"])
def test_generated_pages_begin_with_their_contents(name: str) -> None:
    page = ROOT / "docs" / name
    head = page.read_text().partition("\n## ")[0]
    linked = set(re.findall(r"\]\(#([^)]+)\)", head))
    assert linked == anchors(page) - {re.match(r"# (\w+)", head)[1].lower()}  # type: ignore[index]


@pages
def test_every_command_and_its_options_exist(page: Path) -> None:
    mistakes = {line: wrong(words) for line in shell_lines(page.read_text()) for words in calls(line)}
    assert {line: mistake for line, mistake in mistakes.items() if mistake} == {}


@pages
def test_every_option_that_stands_alone_exists(page: Path) -> None:
    known = set().union(*OPTIONS.values())
    spans = re.findall(r"`(--[a-z][\w-]*)[^`\n]*`", page.read_text())
    assert [span for span in spans if span not in known] == []


@pages
def test_every_file_that_is_named_exists(page: Path) -> None:
    tops = "abw|bench|cli|core|pqtree|viz|specs|tests|docs|\\.ci"
    for name in re.findall(rf"`((?:{tops})/[\w./-]+)`", page.read_text()):
        assert (ROOT / name).exists(), name


@pages
def test_every_name_beside_a_file_is_in_that_file(page: Path) -> None:
    assert [pair for pair in named_in(page.read_text()) if not defined(*pair)] == []


def named_in(text: str) -> Iterator[tuple[str, str]]:
    """(name, file) of "`file`: `Name`, `Name`" and of "`NAME` in `file`" or "of"."""
    file = r"`([\w./-]+/[\w.-]+\.py)`"
    for path, names in re.findall(rf"{file}: ((?:`\w+`(?:, | and )?)+)", text):
        yield from ((name, path) for name in re.findall(r"`(\w+)`", names))
    yield from re.findall(rf"`(\w+)` (?:in|of) {file}", text)


def defined(name: str, file: str) -> bool:
    """Whether a file defines a name: a function, a class, a constant, a field."""
    pattern = rf"^\s*(?:def|class) {name}\b|^\s*{name}\b[^=\n(]*(?:=|:)"
    return re.search(pattern, (ROOT / file).read_text(), re.MULTILINE) is not None


def test_mistakes_would_be_found() -> None:
    def found(line: str) -> list[str]:
        return [wrong(words) for words in calls(line)]

    assert found("cat x | abw run a.yaml --data - --output - | jq '.a | abw b'") == [""]
    assert found("abw run a.yaml --dta x && abw rnu") == ["abw run has no --dta", "no command rnu"]
    assert found("ABW_HOME=x abw bench cpu --cpu") == ["abw bench cpu has no --cpu"]
    assert found("abw bench cup") == ["no command cup"]
    pairs = list(named_in("`core/ir/cell.py`: `Cell`, `Oops`; and `Dag` in `core/graph/dag.py`"))
    assert pairs == [("Cell", "core/ir/cell.py"), ("Oops", "core/ir/cell.py"), ("Dag", "core/graph/dag.py")]
    assert [defined(*pair) for pair in pairs] == [True, False, True]
    assert found("abw runs show --json -x") == ["abw runs show has no -x"]
    assert list(shell_lines("`abw run x` and `run`\n```sh\nabw a \\\n  b\n```\n")) == [
        "abw a    b",
        "abw run x",
    ]
