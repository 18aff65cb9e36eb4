"""`abw specs`: the models that ship."""

from __future__ import annotations

from typing import Any

from abw.cli import options
from abw.cli.console import Columns, show, table


def specs(output: options.Output) -> None:
    """List the shipped models; every command takes their names, as `abw run treelstm`.

    Programs (models as Python functions) run with `abw run`, `abw viz` and `abw explain` and need --data.
    """
    from abw.core.spec.shipped import shipped, shipped_programs

    rows = [
        {"name": spec.name, "format": spec.format, "summary": spec.summary, "path": str(spec.path)}
        for spec in (*shipped(), *shipped_programs())
    ]
    output.give({"schema_version": 1, "specs": rows}, _print)


def _print(document: dict[str, Any]) -> None:
    columns: Columns = {"name": "name", "data": "format", "what it is": "summary"}
    show(table(document["specs"], columns, left=["data"], prose="what it is"))
