"""abw, the auto-batching workbench: mini-batches of dynamic neural networks, batched by themselves."""

import sys
from typing import Any

__version__ = "0.1.0"


def _show_in_notebooks() -> None:
    """Inside IPython: runs, policies, cells, PQ-trees and layouts show themselves as pictures."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is None:
        return
    # by name: nothing is imported before there is something to show
    for module, name in (
        ("abw.core.store.runs", "StoredRun"),
        ("abw.core.policy.fsm", "FsmPolicy"),
        ("abw.core.spec.cell", "Cell"),
        ("abw.pqtree.tree", "PQTree"),
        ("abw.pqtree.layout", "Layout"),
    ):
        shell.display_formatter.formatters["text/html"].for_type_by_name(module, name, _show)


def _show(thing: object) -> str:
    from abw.viz.notebook import SHOWN

    return SHOWN[type(thing)](thing)


_show_in_notebooks()
