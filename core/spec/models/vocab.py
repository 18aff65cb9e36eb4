"""Vocabularies: which word is which row of an embedding table."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from abw.core.base.errors import Span, missing_file
from abw.core.spec.text.fields import MOST
from abw.core.spec.text.report import Report

_BLANK = " \t\r\n"
_FORMS = "a list of words, or an object of words with their rows"


def read_vocabulary(path: Path, asked: Span, report: Report) -> dict[str, int] | None:
    """The row of each word; None, with the problems in `report`, where there is none.

    A text file has a word a line, the first line being row 0. A file that ends in .json has a list, row 0
    first, or an object of words with their rows. `asked` is the place that names the file.
    Cost: linear in the file.
    """
    try:
        text = path.read_text("utf-8-sig")
    except FileNotFoundError:
        report.add(f"missing vocabulary {path}", asked, missing_file(path))
    except UnicodeDecodeError:
        report.add(f"the vocabulary {path} is not UTF-8", asked, "save the file as UTF-8 text")
    except (OSError, ValueError) as error:
        report.add(f"cannot read {str(path)!r}: {error}", asked)
    else:
        return _of_json(path, text, report) if path.suffix == ".json" else _of_lines(path, text, report)
    return None


def _of_lines(path: Path, text: str, report: Report) -> dict[str, int] | None:
    lines = text.rstrip(_BLANK).split("\n")
    if lines == [""]:
        report.add("an empty vocabulary", Span(str(path), 1), "one word a line")
        return None
    rows: dict[str, int] = {}
    for number, line in enumerate(lines):
        word = line.strip(_BLANK)
        if not word or word in rows:
            message = f"'{word}' is already on line {rows[word] + 1}" if word else "a blank line"
            where = Span(str(path), number + 1, 1, line.rstrip(_BLANK))
            report.add(message, where, "one word a line, each once")
            continue
        rows[word] = number
    return rows


def _of_json(path: Path, text: str, report: Report) -> dict[str, int] | None:
    where = Span(str(path), 1)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        at = Span(str(path), error.lineno, error.colno) if isinstance(error, json.JSONDecodeError) else where
        report.add(f"not JSON: {error}", at, f"a vocabulary is {_FORMS}")
        return None
    words = content if isinstance(content, list) else list(content) if isinstance(content, dict) else []
    rows = list(content.values()) if isinstance(content, dict) else list(range(len(words)))
    if not words:
        report.add("no vocabulary", where, f"write {_FORMS}")
    elif wrong := [word for word in words if not isinstance(word, str)]:
        report.add(f"{wrong[0]!r} is no word", where, f"a vocabulary is {_FORMS}")
    elif wrong := [row for row in rows if type(row) is not int or not 0 <= row < MOST]:
        report.add(f"{wrong[0]!r} is no row", where, "rows are whole numbers from 0")
    elif len(set(words)) < len(words):
        seen = Counter(words).most_common(1)[0][0]
        report.add(f"'{seen}' is there twice", where, "each word once")
    else:
        return dict(zip(words, rows, strict=True))
    return None
