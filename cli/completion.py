"""Completions for a shell: shipped specs, runs, policies. The shell completes files itself."""

from __future__ import annotations


def specs(incomplete: str) -> list[str]:
    """The names of shipped models."""
    from abw.core.spec.shipped import shipped_files

    return [path.stem for path in shipped_files() if path.stem.startswith(incomplete)]


def programs(incomplete: str) -> list[str]:
    """The functions of a Python file, found without running it, and shipped programs."""
    from pathlib import Path

    from abw.core.spec.shipped import functions_in, shipped_programs

    file, colon, _ = incomplete.partition(".py:")
    found = [f"{file}.py:{name}" for name in functions_in(Path(f"{file}.py"))] if colon else []
    found += [program.name for program in shipped_programs()] if incomplete.startswith("p") else []
    return [name for name in found if name.startswith(incomplete)]


def specs_and_programs(incomplete: str) -> list[str]:
    """Shipped models, then programs."""
    return [*specs(incomplete), *programs(incomplete)]


def runs(incomplete: str) -> list[str]:
    """The numbers of the stored runs, the latest first."""
    from abw.core.base.files import home
    from abw.core.store.folders import number_of, numbered

    found = [str(number_of(folder)) for folder in reversed(numbered(home() / "runs"))]
    return [number for number in found if number.startswith(incomplete)]


def runs_and_specs(incomplete: str) -> list[str]:
    """Runs, then shipped models, then programs."""
    return [*runs(incomplete), *specs_and_programs(incomplete)]


def policies(incomplete: str) -> list[str]:
    """The names of policies; completes the last one of a list with commas."""
    from abw.core.policy.registry import NAMES

    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in NAMES if name.startswith(last)]
