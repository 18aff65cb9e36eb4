"""abw, the auto-batching workbench: mini-batches of dynamic neural networks, batched by themselves."""

import importlib
import sys
from typing import Any

__version__ = "0.2.0"
__all__ = [
    *("AbwError", "DataError", "Instances", "LoadedModel", "Net", "Outputs", "Ragged", "SpecError", "Value"),
    *("best", "cells", "each", "from_networkx", "from_pyg", "library", "load", "open_outputs", "trainer"),
]

_MODULES = ("arrow", "torch")
_EXPORTED = {
    "abw.core.api": ("LoadedModel", "load"),
    "abw.core.base.errors": ("AbwError", "DataError", "SpecError"),
    "abw.core.data.given.graphs": ("from_networkx", "from_pyg"),
    "abw.core.data.instances": ("Instances",),
    "abw.core.program.load": ("cells", "library"),
    "abw.core.program.net": ("Net",),
    "abw.core.program.recording.values": ("Value",),
    "abw.core.program.running.runner": ("best", "each"),
    "abw.core.store.reading": ("open_outputs",),
    "abw.core.store.ragged": ("Outputs", "Ragged"),
    "abw.core.train.programs.trainer": ("trainer",),
}


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """What `import abw` offers, imported when it is first used: `abw --help` needs none of it."""
    for module, names in _EXPORTED.items():
        if name in names:
            found = globals()[name] = getattr(importlib.import_module(module), name)
            return found
    if name in _MODULES:
        try:
            return importlib.import_module(f"abw.{name}")
        except ModuleNotFoundError as error:  # what looks for attributes expects this one
            raise AttributeError(f"abw.{name} needs {error.name}, which is not installed") from error
    if not name.startswith("_") and (made := _operation(name)):
        return made
    raise AttributeError(f"module 'abw' has no attribute '{name}'")


def _operation(name: str) -> Any:  # noqa: ANN401
    """An operation of cells that are written in Python (`abw.tanh`); None for a name that is none."""
    from abw.core.ir.operations import FUNCTIONS

    if name not in FUNCTIONS:
        return None
    from abw.core.spec.cells.traced import operation

    return operation(name)


def __dir__() -> list[str]:
    from abw.core.ir.operations import FUNCTIONS

    ours = {name for name in globals() if name.startswith("__")}
    return sorted({*ours, *__all__, *_MODULES, *FUNCTIONS})


def _show_in_notebooks() -> None:
    """Inside IPython: runs, models, graphs, plans, policies, cells, PQ-trees, layouts show themselves."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is None:
        return
    # by name: nothing is imported before there is something to show
    for module, name in (
        ("abw.core.store.runs", "StoredRun"),
        ("abw.core.graph.graph", "Graph"),
        ("abw.core.plan.plan", "Plan"),
        ("abw.core.policy.learned.fsm", "FsmPolicy"),
        ("abw.core.ir.cell", "Cell"),
        ("abw.core.ir.model", "Model"),
        ("abw.pqtree.tree", "PQTree"),
        ("abw.pqtree.layouts.layout", "Layout"),
    ):
        shell.display_formatter.formatters["text/html"].for_type_by_name(module, name, _show)


def _show(thing: object) -> str:
    # by name too: nothing in abw may depend on pictures but what is above them
    notebook: Any = importlib.import_module("abw.viz.notebook")
    shown: str = notebook.SHOWN[type(thing)](thing)
    return shown


_show_in_notebooks()
