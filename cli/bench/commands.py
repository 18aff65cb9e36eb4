"""`abw bench ...`: every figure of docs/benchmarks.md, measured again."""

from __future__ import annotations

from abw.cli.bench import cuda as commands_cuda
from abw.cli.bench import engine as commands_engine
from abw.cli.bench import graphs as commands_graphs
from abw.cli.bench import growth as commands_growth
from abw.cli.bench import one as commands_one
from abw.cli.bench import programs as commands_programs
from abw.cli.bench import serving as commands_serving
from abw.cli.bench import speed as commands_speed
from abw.cli.bench import systems as commands_systems
from abw.cli.bench import threads as commands_threads
from abw.cli.bench.app import app

__all__ = [
    "app",
    "commands_cuda",
    "commands_engine",
    "commands_graphs",
    "commands_growth",
    "commands_one",
    "commands_programs",
    "commands_serving",
    "commands_speed",
    "commands_systems",
    "commands_threads",
]
