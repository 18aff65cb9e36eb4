"""`abw doctor`: what of this machine abw can use."""

from __future__ import annotations

from abw.cli import options
from abw.cli.console import print_json


def doctor(as_json: options.Json = False) -> None:
    """Say what works here, what does not, and how to get it: versions, cores, BLAS, GPU, Graphviz."""
    from abw.core.doctor import examine

    findings = examine()
    if as_json:
        print_json(
            {
                "schema_version": 1,
                "findings": [
                    {"name": f.name, "ok": f.ok, "value": f.value, "hint": f.hint} for f in findings
                ],
            }
        )
        return
    from rich.console import Console

    console = Console(highlight=False)
    for f in findings:
        mark = "[green]ok[/]" if f.ok else "[yellow]--[/]"
        console.print(f"{mark}  [bold]{f.name}[/]: {f.value}", soft_wrap=True)
        if f.hint:
            console.print(f"      {f.hint}", style="dim", soft_wrap=True)
