"""Options that several benches have, and what others are described by."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer


def option(help: str, name: str = "", metavar: str | None = None, shown: Any = True, **more: Any) -> Any:  # noqa: ANN401
    """Describe an option, by default named as its parameter; `shown`: its default in words."""
    return typer.Option(*filter(None, [name]), metavar=metavar, help=help, show_default=shown, **more)


numeric = partial(option, min=1)
DataDir = Annotated[Path, option("Folder of the data.", metavar="DIR")]
# Where specs are looked for by default: here, else those that ship.
SPECS = Path("specs")
SpecsDir = Annotated[Path, option("Folder of the specs.", metavar="DIR", shown="the shipped ones")]
Workloads = Annotated[str | None, option("For example TreeLSTM,LatticeLSTM.", "", "NAME,...", "all")]
Families = Annotated[str | None, option("Only families whose names contain TEXT.", "--family", "TEXT")]
Hidden = Annotated[int, numeric("Size of the model.")]
HiddenSizes = Annotated[list[int], numeric("Sizes; repeatable.")]
Batch = Annotated[int, numeric("Instances in a mini-batch.")]
BatchSizes = Annotated[list[int], numeric("Instances in a mini-batch; repeatable.")]
MiniBatches = Annotated[int, numeric("Number of mini-batches.", metavar="N")]
ThreadCounts = Annotated[list[int], numeric("Threads; repeatable.")]
Instances = Annotated[int, numeric("Instances of each kind.", metavar="N")]
Runs = Annotated[int, numeric("Number of runs, for a median.", metavar="N")]
