"""How to install what abw needs only for some of its commands."""

from __future__ import annotations


def install(*extras: str) -> str:
    """What to do to install optional dependencies of abw, as a hint. No package index has abw itself."""
    wanted = f'".[{",".join(extras)}]"' if extras else "."
    return f"in a clone of abw: pip install {wanted}"
