"""Runs a bench: prints, saves and compares the rows that it yields."""

from __future__ import annotations

import functools
import inspect
import json
import platform
from collections.abc import Callable
from contextlib import closing
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from abw.bench.options import SPECS
from abw.bench.rows import Row, Rows
from abw.cli import options
from abw.cli.bench.tables import tables
from abw.cli.console import print_json, show
from abw.cli.groups import group, option
from abw.core.base.errors import AbwError, InterruptedWorkError
from abw.core.base.files import write_json
from abw.core.base.interrupts import INTERRUPTED, STOP, stopping_after_a_step


@group
class Saving:
    """What becomes of the rows, besides their tables."""

    save: Path | None = option("Also write the JSON document to this file, after each row.", "FILE.json")
    compare: Path | None = option("Show the speed-up over this document.", "FILE.json")


# The document's schema.
VERSION = 2


def command(bench: Callable[..., Rows]) -> Callable[..., None]:
    """The command of a bench: its parameters, and groups of options.

    Ctrl-C ends it after the row under way, with exit code 130. What was measured by then, or before an error,
    is shown; it is saved after each row.
    """

    def run(saving: Saving, output: options.Output, **given: Any) -> None:  # noqa: ANN401
        before = _read(saving.compare, bench.__name__) if saving.compare else ()
        if given.get("specs") == SPECS and not SPECS.exists():
            from abw.core.spec.shipped import FOLDER

            given["specs"] = FOLDER
        rows: list[Row] = []
        notes: list[str] = []
        document = partial(_document, bench.__name__, given, rows, notes)
        try:
            with output.progress() as shown, stopping_after_a_step(), closing(bench(**given)) as found:
                shown.phase(bench.__name__)
                for each in found:
                    if isinstance(each, Row):
                        rows.append(each)
                        shown.reached(len(rows))
                    else:
                        notes.append(each)
                    if saving.save is not None:
                        write_json(saving.save, document())
                    if STOP.asked:
                        raise InterruptedWorkError(
                            "ended early: what is shown was measured", exit_code=INTERRUPTED
                        )
        finally:
            STOP.asked = False
            if output.as_json and (rows or notes):
                print_json(document())
            elif not output.as_json:
                show(*tables(rows, before), *notes)

    functools.update_wrapper(run, bench)
    groups = {"saving": Saving, "output": options.Output}
    kind = inspect.Parameter.KEYWORD_ONLY
    every = [
        *(p.replace(kind=kind) for p in inspect.signature(bench, eval_str=True).parameters.values()),
        *(inspect.Parameter(name, kind, annotation=group) for name, group in groups.items()),
    ]
    run.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in every}
    return run


def _document(name: str, given: dict[str, Any], rows: list[Row], notes: list[str]) -> dict[str, Any]:
    """Make the document that --json prints and --save writes."""
    packages = ("numpy", "numba", "llvmlite", "torch")
    versions = {"python": platform.python_version()}
    for package in packages:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {
        "schema_version": VERSION,
        "bench": name,
        "options": {k: str(v) if isinstance(v, Path) else v for k, v in given.items()},
        "versions": versions,
        "rows": [{"table": row.table, **row} for row in rows],
        "notes": notes,
    }


def _read(path: Path, name: str) -> list[Row]:
    """The rows of a saved document. Errors: AbwError for another bench's, or another file."""
    try:
        document = json.loads(path.read_text("utf-8"))
        rows = [
            Row(row["table"], **{k: v for k, v in row.items() if k != "table"}) for row in document["rows"]
        ]
        if document["bench"] != name:
            raise AbwError(f"{path} is of abw bench {document['bench']}, not of {name}", exit_code=2)
    except OSError as error:
        raise AbwError(f"cannot read {path}: {error.strerror}", exit_code=2) from None
    except (ValueError, KeyError, TypeError):
        hint = f"abw bench {name} --save {path} writes one"
        raise AbwError(f"{path} is not a document of abw bench", hint=hint, exit_code=2) from None
    return rows
