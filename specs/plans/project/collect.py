"""Runs queries under sets of hints and writes their plans with what they took: `python collect.py [QUERIES]`.

`data/train.jsonl` and `data/dev.jsonl` are for `abw train`, `data/test.sql` has a fifth of the queries, for
`choose.py`. Plans that several sets of hints give are run once. Stop the server by `python postgres.py stop`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from postgres import HINTS, Session, queries, start

# Milliseconds that a plan may take; one that takes longer is worth this. Queries whose default plan takes
# longer are left out, as are those that take next to nothing.
LEAST, LIMIT = 2, 2000
FOLDER = Path(__file__).parent / "data"


def shape(node: dict[str, Any]) -> object:
    """What makes two plans the same: operators, tables and indexes."""
    own = tuple(node.get(key) for key in ("Node Type", "Relation Name", "Index Name"))
    return own, tuple(map(shape, node.get("Plans", ())))


def plans(session: Session, query: str) -> list[str]:
    """A line for each different plan of a query, the default one first.

    None where that takes too long, or next to nothing.
    """
    found: dict[object, str] = {}
    for hints in HINTS:
        session.under(hints, LIMIT)
        (planned,) = json.loads(session.explain(query))
        key = shape(planned["Plan"])
        if key in found:
            continue
        try:
            (planned,) = json.loads(session.explain(query, ", ANALYZE, TIMING OFF, BUFFERS"))
        except RuntimeError as error:
            if "timeout" not in str(error):
                raise
            if not found:
                return []
            planned["Execution Time"] = LIMIT
        if not found and planned["Execution Time"] < LEAST:
            return []
        found[key] = json.dumps([planned], separators=(",", ":"))
    return list(found.values())


def main() -> None:
    """Collect plans of so many queries."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    start()
    session = Session()
    kept: list[tuple[str, list[str]]] = []
    for query in queries(4 * count, seed=1):
        if len(kept) < count and (lines := plans(session, query)):
            kept.append((query, lines))
            print(f"\r{len(kept)} of {count} queries", end="", flush=True)
    print()
    FOLDER.mkdir(exist_ok=True)
    # of five queries one is for testing; of the others, every fifth is held back to see when to stop
    test = [query for i, (query, _) in enumerate(kept) if i % 5 == 4]
    rest = [lines for i, (_, lines) in enumerate(kept) if i % 5 != 4]
    (FOLDER / "test.sql").write_text("".join(f"{query}\n" for query in test))
    for name, part in (("dev", rest[::5]), ("train", [lines for i, lines in enumerate(rest) if i % 5])):
        lines = [line for some in part for line in some]
        (FOLDER / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
        print(f"data/{name}.jsonl: {len(lines)} plans of {len(part)} queries")
    print(f"data/test.sql: {len(test)} queries")


if __name__ == "__main__":
    main()
