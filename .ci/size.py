#!/usr/bin/env python3
"""Prints how many lines and tokens each room of the product has, and how many more than in the commit before.

Fails where a room has more than its budget, or none. `.ci/size.py COMMIT` compares with another commit. Lines
are all lines; tokens are Python's, without comments, docstrings and line ends. Tests do not count.
"""

import io
import subprocess
import sys
import tarfile
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

# The most lines and tokens of a room: a folder, or one in `core/`. Whoever raises one says why.
BUDGETS = {
    # room: lines, tokens
    "abw": (8_935, 80_400),  # attention with masks, zeros that are filled with numbers too
    "bench": (6_190, 51_400),
    "cli": (4_545, 30_900),
    "core": (592, 4_150),
    "core/base": (1_470, 8_000),
    "core/build": (470, 3_700),  # models as C libraries
    "core/cell": (895, 6_150),
    "core/data": (6_662, 52_850),  # JSON eight bytes at once
    "core/exec": (14_740, 118_960),  # attention computes with no subnormal numbers of other lists
    "core/grad": (2_206, 19_300),  # decisions are not computed again; sums over edges are filled row by row
    "core/graph": (7_126, 60_340),  # recorded nodes are sorted and renamed, their edges found, by loops
    "core/ir": (2_515, 15_900),
    "core/jit": (1_010, 6_170),  # tables name arrays; loops are optimised once, in a tenth less time
    "core/plan": (1_327, 10_800),
    "core/policy": (5_160, 38_750),  # what rules begin with is compiled once
    "core/program": (6_130, 36_590),  # the recorder runs instructions; what leads to no loss is left out
    "core/run": (9_352, 78_550),  # one pass: equal nodes, growing models to the end, runs and their observers
    "core/scale": (1_010, 6_950),
    "core/script": (985, 7_050),
    "core/serve": (3_130, 21_500),  # engines of one model have the same files
    "core/spec": (6_945, 55_950),
    "core/store": (2_085, 14_800),
    "core/tools": (2_385, 19_700),
    "core/train": (3_418, 27_010),
    "pqtree": (2_665, 19_600),
    "specs": (570, 4_450),
    "viz": (4_975, 41_900),
}

NOTHING = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
ROOT = Path(__file__).parents[1]
# Lines and tokens.
Size = tuple[int, int]


def main() -> None:
    """Print the table, and fail where a budget does not hold."""
    now, before = sizes(tree()), sizes(archive(sys.argv[1] if len(sys.argv) > 1 else "HEAD^"))
    print(row("room", *("lines", "more", "budget", "tokens", "more", "budget")))
    for room in [*sorted({*now, *before, *BUDGETS}), "all"]:
        here, budget, earlier = (of(room, rooms) for rooms in (now, BUDGETS, before))
        more = [n - m if before else 0 for n, m in zip(here, earlier, strict=True)]
        numbers = [(here[k], f"{more[k]:+,}" if more[k] else "", budget[k]) for k in (0, 1)]
        print(row(room, *numbers[0], *numbers[1]))
    over = [
        room for room in now if any(n > most for n, most in zip(now[room], of(room, BUDGETS), strict=True))
    ]
    if over:
        sys.exit(f"over budget: {', '.join(over)}: make it smaller, or raise its line in .ci/size.py")


def row(room: str, *cells: int | str) -> str:
    """A line of the table."""
    return f"{room:14}" + "".join(f"{c if isinstance(c, str) else f'{c:,}':>10}" for c in cells)


def of(room: str, rooms: dict[str, Size]) -> Size:
    """What a room has, or all of them."""
    if room == "all":
        return sum(lines for lines, _ in rooms.values()), sum(tokens for _, tokens in rooms.values())
    return rooms.get(room, (0, 0))


def sizes(files: Iterator[tuple[str, str]]) -> dict[str, Size]:
    """What each room has, of files with their names."""
    found: dict[str, Size] = {}
    for name, text in files:
        room = room_of(name)
        if room:
            before = found.get(room, (0, 0))
            found[room] = before[0] + text.count("\n"), before[1] + tokens(text)
    return found


def room_of(name: str) -> str:
    """The room of a file, '' where it is no part of the product."""
    folder, *others = name.split("/")
    if folder in ("tests", ".ci") or not others:
        return ""
    return f"core/{others[0]}" if folder == "core" and len(others) > 1 else folder


@cache
def tokens(text: str) -> int:
    """How many tokens count in a file."""
    count, begins = 0, True
    found = list(tokenize.generate_tokens(io.StringIO(text).readline))
    for token, after in zip(found, [*found[1:], found[-1]], strict=True):
        docstring = begins and token.type == tokenize.STRING and after.type == tokenize.NEWLINE
        count += token.type not in NOTHING and not docstring
        begins = token.type in NOTHING
    return count


def tree() -> Iterator[tuple[str, str]]:
    """The Python files that git knows here."""
    for name in git("ls-files", "*.py").decode().splitlines():
        if (ROOT / name).is_file():
            yield name, (ROOT / name).read_text(encoding="utf-8")


def archive(commit: str) -> Iterator[tuple[str, str]]:
    """Those of a commit; none where there is no such commit, as in a shallow clone."""
    held = git("archive", "--format=tar", commit, check=False)
    if held:
        with tarfile.open(fileobj=io.BytesIO(held)) as files:
            for member in files:
                file = files.extractfile(member) if member.isfile() and member.name.endswith(".py") else None
                if file is not None:
                    yield member.name, file.read().decode()


def git(*words: str, check: bool = True) -> bytes:
    """What git prints."""
    return subprocess.run(["git", *words], cwd=ROOT, stdout=subprocess.PIPE, check=check).stdout


if __name__ == "__main__":
    main()
