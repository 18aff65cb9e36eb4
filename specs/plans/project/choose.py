"""Chooses hints for new queries by the served model: `abw serve …`, then `python choose.py [ADDRESS]`.

For each query of `data/test.sql` all sets of hints are explained, the model is asked for the times of their
plans in one request, and the plan that promises to be fastest is chosen. To compare, all others run, too.
"""

from __future__ import annotations

import json
import sys
import time
from http.client import HTTPConnection

from collect import FOLDER, LIMIT, shape
from postgres import HINTS, Session, start


def told(connection: HTTPConnection, plans: list[str]) -> list[float]:
    """The time of each plan in milliseconds, as the model has it."""
    connection.close()  # the server closes one that is idle
    connection.request("POST", "/v1/predict", "\n".join(plans), {"content-type": "text/plain"})
    answers = connection.getresponse().read().decode().splitlines()
    return [json.loads(answer)["outputs"]["time"][0] for answer in answers]


def run(session: Session, query: str, hints: str) -> float:
    """Milliseconds that a query takes under hints, at most LIMIT."""
    session.under(hints, LIMIT)
    begun = time.perf_counter()
    try:
        session.run(query)
    except RuntimeError as error:
        if "timeout" not in str(error):
            raise
        return LIMIT
    return min(1000 * (time.perf_counter() - begun), LIMIT)


def measured(session: Session, query: str, plans: list[str]) -> list[float]:
    """Milliseconds that each plan takes: the least of three runs, in turns; equal plans are one."""
    shapes = [shape(json.loads(plan)[0]["Plan"]) for plan in plans]
    which = [shapes.index(one) for one in shapes]
    rounds = [{i: run(session, query, list(HINTS)[i]) for i in {*which}} for _ in range(3)]
    return [min(times[i] for times in rounds) for i in which]


def main() -> None:
    """Print what the workload takes by default, as chosen and at best."""
    start()
    session = Session()
    connection = HTTPConnection(sys.argv[1] if len(sys.argv) > 1 else "localhost:8000")
    default = chosen = best = explaining = asking = 0.0
    tests, other = (FOLDER / "test.sql").read_text().splitlines(), 0
    for query in tests:
        plans = []
        for hints in HINTS:
            session.under(hints)
            begun = time.perf_counter()
            plans.append(session.explain(query))
            explaining += 1000 * (time.perf_counter() - begun)
        begun = time.perf_counter()
        times = told(connection, plans)
        asking += 1000 * (time.perf_counter() - begun)
        pick = times.index(min(times))
        taken = measured(session, query, plans)
        other += taken[pick] != taken[0]
        default, chosen, best = default + taken[0], chosen + taken[pick], best + min(taken)
    print(f"{len(tests)} queries, {other} of them not by the default plan")
    print(f"  default plans {default:8,.0f} ms")
    print(f"  as chosen     {chosen:8,.0f} ms")
    print(f"  at best       {best:8,.0f} ms")
    explained, asked = explaining / len(tests), asking / len(tests)
    print(f"added to a query: {explained:.2f} ms to explain {len(HINTS)} plans, {asked:.2f} ms to ask")


if __name__ == "__main__":
    main()
