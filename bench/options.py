"""Options that several benches have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DataDir = Annotated[Path, typer.Option("--data", metavar="DIR", help="Folder of the data.")]
# Where specs are looked for by default: here, else those that ship.
SPECS = Path("specs")
SpecsDir = Annotated[
    Path,
    typer.Option("--specs", metavar="DIR", help="Folder of the specs.", show_default="the shipped ones"),
]
Workloads = Annotated[
    str | None,
    typer.Option(
        "--workloads", metavar="NAME,...", help="For example TreeLSTM,LatticeLSTM.", show_default="all"
    ),
]
Hidden = Annotated[int, typer.Option("--hidden", min=1, help="Size of the model.")]
HiddenSizes = Annotated[list[int], typer.Option("--hidden", min=1, help="Sizes; repeatable.")]
Batch = Annotated[int, typer.Option("--batch", min=1, help="Instances in a mini-batch.")]
BatchSizes = Annotated[
    list[int], typer.Option("--batch", min=1, help="Instances in a mini-batch; repeatable.")
]
ThreadCounts = Annotated[list[int], typer.Option("--threads", min=1, help="Threads; repeatable.")]
Instances = Annotated[int, typer.Option("--instances", min=1, metavar="N", help="Instances of each kind.")]
Runs = Annotated[int, typer.Option("--runs", min=1, metavar="N", help="Number of runs, for a median.")]
