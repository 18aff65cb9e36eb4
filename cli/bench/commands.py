"""`abw bench ...`: every figure of docs/benchmarks.md, measured again."""

from __future__ import annotations

from abw.cli.bench import commands_cuda, commands_graphs, commands_speed, commands_systems
from abw.cli.bench.app import app

__all__ = ["app", "commands_cuda", "commands_graphs", "commands_speed", "commands_systems"]
