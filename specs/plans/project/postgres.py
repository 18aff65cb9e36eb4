"""A PostgreSQL server of its own with the library of `library.sql`, queries over it, and hints.

`python postgres.py start` makes and starts it, `stop` ends it, `remove` also deletes it. It needs Debian's
package postgresql, listens on no port, and lies in the folder $LIBRARY, or in `abw-library` among temporary
files.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
HOME = Path(os.environ.get("LIBRARY", Path(tempfile.gettempdir()) / "abw-library"))
# One process a query and no compilation: what a plan costs is then up to its joins and scans.
SETTINGS = {
    "fsync": "off", "shared_buffers": "256MB", "work_mem": "16MB", "jit": "off", "listen_addresses": "",
    "max_parallel_workers_per_gather": "0", "unix_socket_directories": HOME, "autovacuum": "off",
}  # fmt: skip
# What a table refers to, and by which columns.
REFERENCES = {
    ("book", "author"): "author", ("book", "publisher"): "publisher", ("copy", "book"): "book",
    ("copy", "branch"): "branch", ("reader", "branch"): "branch", ("loan", "copy"): "copy",
    ("loan", "reader"): "reader", ("review", "book"): "book", ("review", "reader"): "reader",
}  # fmt: skip
# Conditions on a table, with the numbers of a drawn author (a), branch (b) and reader (r): they go together.
CONDITIONS = {
    "branch": ["branch.city = {b} % 12", "branch.size < 80"],
    "author": ["author.born BETWEEN 1988 - {a} / 90 AND 1992 - {a} / 90", "author.country < 8"],
    "publisher": ["publisher.country = {a} * 7 % 700 % 30", "publisher.founded > 1900"],
    "book": ["book.genre = {a} % 15", "book.year >= 2015 - {a} / 120", "book.pages = 80 + {a} % 15 * 40"],
    "copy": ["copy.state = {a} % 15 % 8", "copy.branch = {b}"],
    "reader": ["reader.born = 1930 + {r} % 80", "reader.kind = 5", "reader.city = {b} % 12"],
    "loan": ["loan.late = 1", "loan.day BETWEEN {r} % 80 * 25 AND {r} % 80 * 25 + 25", "loan.day < 1200"],
    "review": ["review.stars = 1 + {a} % 15 % 5", "review.day BETWEEN {r} % 80 * 25 AND {r} % 80 * 25 + 50"],
}
# Sets of hints, by name: what the optimizer may not use.
HINTS = {
    "default": (), "no nested loops": ("nestloop",), "no hash joins": ("hashjoin",),
    "no merge joins": ("mergejoin",), "no sequential scans": ("seqscan",),
    "no index scans": ("indexscan", "indexonlyscan", "bitmapscan"),
    "hash joins alone": ("nestloop", "mergejoin"),
}  # fmt: skip


def programs() -> Path:
    """Where initdb and pg_ctl are."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        sys.exit("PostgreSQL is not installed: apt-get install postgresql")
    return found[-1].parent


def as_server(*command: object) -> None:
    """Run a program of PostgreSQL's, which refuses to run as root: then as its own user."""
    user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    done = subprocess.run([*user, *map(str, command)], cwd="/", capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{command[0]}: {done.stderr or done.stdout}")


def start() -> None:
    """Start the server if it does not run; the first time, make it and its data, which takes some 10 s."""
    data = HOME / "data"
    ready = [programs() / "pg_isready", "-q", "-h", HOME]
    if subprocess.run(ready, check=False).returncode == 0:
        return
    new = not data.exists()
    if new:
        HOME.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            shutil.chown(HOME, "postgres")
        as_server(
            programs() / "initdb", "-D", data, "-A", "trust", "-U", "library", "-E", "UTF8", "--no-locale"
        )
    settings = " ".join(f"-c {name}={value}" for name, value in SETTINGS.items())
    as_server(programs() / "pg_ctl", "-D", data, "-l", HOME / "log", "-w", "-o", settings, "start")
    if new:
        Session().run((HERE / "library.sql").read_text())


def stop() -> None:
    """Stop the server."""
    as_server(programs() / "pg_ctl", "-D", HOME / "data", "-m", "fast", "-w", "stop")


class Session:
    """A session of psql's that stays open."""

    def __init__(self) -> None:
        command = ["psql", "-XqAt", "-h", str(HOME), "-U", "library", "postgres"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        self._psql = subprocess.Popen(command, text=True, **pipes)

    def run(self, sql: str) -> str:
        """What statements print. Raises RuntimeError for an error of the server's."""
        assert self._psql.stdin and self._psql.stdout
        self._psql.stdin.write(f"{sql};\n\\echo done\n")
        self._psql.stdin.flush()
        lines = []
        for line in self._psql.stdout:
            if line == "done\n":
                break
            lines.append(line)
        said = "".join(lines)
        if "ERROR:" in said or self._psql.poll() is not None:
            raise RuntimeError(said)
        return said

    def under(self, hints: str, limit: int = 0) -> None:
        """Set hints for what follows, and how many milliseconds a statement may take."""
        every = {name for names in HINTS.values() for name in names}
        settings = [f"enable_{name} = {'off' if name in HINTS[hints] else 'on'}" for name in sorted(every)]
        self.run("".join(f"SET {setting};" for setting in [*settings, f"statement_timeout = {limit}"]))

    def explain(self, query: str, options: str = "") -> str:
        """A query's plan as JSON, on one line."""
        return self.run(f"EXPLAIN (FORMAT JSON{options}) {query}").replace("\n", " ").strip()


def queries(count: int, seed: int) -> list[str]:
    """Random joins of two to six tables along their references, with conditions on some."""
    drawn, found = random.Random(seed), []
    while len(found) < count:
        tables, conditions = [drawn.choice(["loan", "copy", "review", "book"])], []
        for _ in range(drawn.randrange(1, 6)):
            near = [(a, by, b) for (a, by), b in REFERENCES.items() if (a in tables) != (b in tables)]
            a, by, b = drawn.choice(near)
            tables.append(b if a in tables else a)
            conditions.append(f"{a}.{by} = {b}.id")
        row = {"a": drawn.randrange(1, 3000), "b": drawn.randrange(1, 30), "r": drawn.randrange(1, 5000)}
        for table in drawn.sample(tables, drawn.randrange(1, len(tables) + 1)):
            possible = CONDITIONS[table]
            chosen = drawn.sample(possible, min(drawn.randrange(1, 3), len(possible)))
            conditions += [condition.format(**row) for condition in chosen]
        found.append(f"SELECT count(*) FROM {', '.join(tables)} WHERE {' AND '.join(conditions)}")
    return found


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["start"]:
            start()
        case ["stop"]:
            stop()
        case ["remove"]:
            stop()
            shutil.rmtree(HOME)
        case _:
            sys.exit(__doc__)
