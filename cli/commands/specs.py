"""`abw specs`: the models that ship."""

from __future__ import annotations

from typing import Any

from abw.cli import options
from abw.cli.console import give, grid, show


def specs(as_json: options.Json = False) -> None:
    """List the shipped models; every command takes their names, as `abw run treelstm`.

    Programs (models as Python functions) run with `abw run`, `abw viz` and `abw explain` and need --data.
    """
    from abw.core.spec.shipped import shipped, shipped_programs

    rows = [
        {"name": spec.name, "format": spec.format, "summary": spec.summary, "path": str(spec.path)}
        for spec in (*shipped(), *shipped_programs())
    ]
    give({"schema_version": 1, "specs": rows}, as_json, _print)


def _print(document: dict[str, Any]) -> None:
    table = grid("name", "data", "what it is", left=["data"], prose="what it is")
    for row in document["specs"]:
        table.add_row(row["name"], row["format"], row["summary"])
    show(table)
