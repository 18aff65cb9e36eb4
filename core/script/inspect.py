"""Runs one mini-batch of a program for pictures and explanations."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from dataclasses import dataclass

from abw.core.base.errors import AbwError
from abw.core.data.feed import open_feed
from abw.core.data.plain import Plain
from abw.core.graph.graph import Graph
from abw.core.policy.schedule import Schedule
from abw.core.program.net import session_of
from abw.core.program.running.fibers import Failed
from abw.core.script.find import Program, opened
from abw.core.script.items import batches_of, format_of, items_of
from abw.core.script.run import ProgramOptions
from abw.core.script.tracebacks import user_error
from abw.core.store.runs import in_range


@dataclass(frozen=True, slots=True)
class Inspected:
    """Mini-batch `number` of `mini_batches`: its graph, and the schedule by which it was executed; `first` is
    its first instance's number in the data, `pieces` are those in which the graph came.
    """

    program: Program
    policy: str
    number: int
    mini_batches: int
    first: int
    graph: Graph
    schedule: Schedule
    pieces: int


def inspect_batch(target: str, options: ProgramOptions, number: int = 0) -> Inspected:
    """Run mini-batch `number` of a program's data. Errors: see `run_program`."""
    format = format_of(options.data, options.format)
    with redirect_stdout(sys.stderr), opened(target, options.overrides) as program:
        wanted: Plain | None = None
        total = 0
        with open_feed(options.data) as feed:
            parts = items_of(feed, format, options.batch, limit=options.limit)
            batches = (items for part in parts for items in batches_of(part.instances, options.batch))
            for total, items in enumerate(batches, 1):
                wanted = items if total == number + 1 else wanted
        in_range(number, total)
        assert wanted is not None
        session, numbers = session_of(program.net), wanted.numbers.tolist()
        ran = session.run(program.function, wanted.objects, numbers, options.granularity)
        for end, line, instance in zip(ran.ends, wanted.lines.tolist(), numbers, strict=True):
            if isinstance(end, Failed):
                raise user_error(end.error, f"{options.data}:{line} (instance {instance})") from end.error
        graph = ran.graph
        if not len(graph):
            raise AbwError(f"{program.name} called no cell in mini-batch {number}")
        schedule = ran.schedule(graph)
        first, pieces = int(wanted.numbers[0]), len(ran.engine.segments)
        return Inspected(program, session.how.policy, number, total, first, graph, schedule, pieces)
