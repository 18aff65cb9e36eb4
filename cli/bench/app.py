"""Runs a bench: prints, saves and compares the rows that it yields."""

from __future__ import annotations

import functools
import inspect
import json
import platform
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer

from abw.bench.options import SPECS
from abw.bench.rows import Row, Rows
from abw.cli import options
from abw.cli.bench.tables import tables
from abw.cli.console import print_json, progress, show
from abw.core.base.errors import AbwError, InterruptedWorkError
from abw.core.base.interrupts import INTERRUPTED, STOP, stopping_after_a_step

Save = Annotated[
    Path | None,
    typer.Option("--save", metavar="FILE.json", help="Also write the JSON document to this file."),
]
Against = Annotated[
    Path | None,
    typer.Option("--compare", metavar="FILE.json", help="Show the speed-up over this document."),
]
ADDED = {"save": Save, "compare": Against, "quiet": options.QuietFlag, "as_json": options.Json}
# Of the document.
VERSION = 2


def command(bench: Callable[..., Rows]) -> Callable[..., None]:
    """The command of a bench: its parameters and those of `ADDED`.

    Ctrl-C ends it after the row under way, with exit code 130; what was measured is shown and saved.
    """
    params = list(inspect.signature(bench, eval_str=True).parameters.values())

    def run(*, save: Path | None, compare: Path | None, quiet: bool, as_json: bool, **given: Any) -> None:  # noqa: ANN401
        before = _read(compare, bench.__name__) if compare else ()
        if given.get("specs") == SPECS and not SPECS.exists():
            from abw.core.spec.shipped import FOLDER

            given["specs"] = FOLDER
        rows: list[Row] = []
        notes: list[str] = []
        try:
            with progress(quiet) as told, stopping_after_a_step():
                told.phase(bench.__name__)
                for found in bench(**given):
                    if isinstance(found, Row):
                        rows.append(found)
                        told.reached(len(rows))
                    else:
                        notes.append(found)
                    if STOP.asked:
                        break
            ended = STOP.asked
        finally:
            STOP.asked = False
        document = _document(bench.__name__, given, rows, notes)
        if save is not None:
            from abw.core.base.files import write_json

            write_json(save, document)
        if as_json:
            print_json(document)
        else:
            show(*tables(rows, before), *notes)
        if ended:
            raise InterruptedWorkError("ended early: what is shown was measured", exit_code=INTERRUPTED)

    functools.update_wrapper(run, bench)
    kind = inspect.Parameter.KEYWORD_ONLY
    added = [
        inspect.Parameter(name, kind, default=None if name in ("save", "compare") else False, annotation=a)
        for name, a in ADDED.items()
    ]
    every = [*(p.replace(kind=kind) for p in params), *added]
    run.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in every}
    return run


def _document(name: str, given: dict[str, Any], rows: list[Row], notes: list[str]) -> dict[str, Any]:
    """What --json prints and --save writes."""
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
