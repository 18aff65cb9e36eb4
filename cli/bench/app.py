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
from typing import Annotated, Any

import typer

from abw.bench.options import SPECS
from abw.bench.rows import Row, Rows
from abw.cli import options
from abw.cli.bench.tables import tables
from abw.cli.console import print_json, progress, show
from abw.core.base.errors import AbwError, InterruptedWorkError
from abw.core.base.files import write_json
from abw.core.base.interrupts import INTERRUPTED, STOP, stopping_after_a_step

Save = Annotated[
    Path | None,
    typer.Option(
        "--save", metavar="FILE.json", help="Also write the JSON document to this file, after each row."
    ),
]
Against = Annotated[
    Path | None,
    typer.Option("--compare", metavar="FILE.json", help="Show the speed-up over this document."),
]
ADDED = {"save": Save, "compare": Against, "quiet": options.QuietFlag, "as_json": options.Json}
# The document's schema.
VERSION = 2


def command(bench: Callable[..., Rows]) -> Callable[..., None]:
    """The command of a bench: its parameters and those of `ADDED`.

    Ctrl-C ends it after the row under way, with exit code 130. What was measured by then, or before an error,
    is shown; it is saved after each row.
    """
    params = list(inspect.signature(bench, eval_str=True).parameters.values())

    def run(*, save: Path | None, compare: Path | None, quiet: bool, as_json: bool, **given: Any) -> None:  # noqa: ANN401
        before = _read(compare, bench.__name__) if compare else ()
        if given.get("specs") == SPECS and not SPECS.exists():
            from abw.core.spec.shipped import FOLDER

            given["specs"] = FOLDER
        rows: list[Row] = []
        notes: list[str] = []
        document = partial(_document, bench.__name__, given, rows, notes)
        try:
            with progress(quiet) as shown, stopping_after_a_step(), closing(bench(**given)) as found:
                shown.phase(bench.__name__)
                for each in found:
                    if isinstance(each, Row):
                        rows.append(each)
                        shown.reached(len(rows))
                    else:
                        notes.append(each)
                    if save is not None:
                        write_json(save, document())
                    if STOP.asked:
                        raise InterruptedWorkError(
                            "ended early: what is shown was measured", exit_code=INTERRUPTED
                        )
        finally:
            STOP.asked = False
            if as_json and (rows or notes):
                print_json(document())
            elif not as_json:
                show(*tables(rows, before), *notes)

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
