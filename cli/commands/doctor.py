"""`abw doctor`: what of this machine abw can use."""

from __future__ import annotations

from dataclasses import asdict

from abw.cli import options
from abw.cli.console import print_json


def doctor(as_json: options.Json = False) -> None:
    """Say what works here, what does not, and how to get it: versions, cores, BLAS, GPU, Graphviz."""
    from abw.core.tools.doctor import examine

    findings = examine()
    if as_json:
        print_json({"schema_version": 1, "findings": [asdict(finding) for finding in findings]})
        return
    from rich.text import Text

    from abw.core.base.console import Console

    console = Console()
    for f in findings:
        mark = ("ok", "green") if f.ok else ("--", "yellow")
        console.print(Text.assemble(mark, "  ", (f.name, "bold"), f": {f.value}"), soft_wrap=True)
        if f.hint:
            console.print(f"      {f.hint}", style="dim", soft_wrap=True)
