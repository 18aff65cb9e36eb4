"""A cost model inside PostgreSQL: the extension of specs/library/postgres, built and asked in a server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from abw.core.api import LoadedModel
from tests.core.build.library import EXAMPLES, loaded, needs_compiler


def _folder(what: str) -> Path | None:
    """A folder of the PostgreSQL that is installed."""
    if not (program := shutil.which("pg_config")):
        return None
    found = subprocess.run([program, f"--{what}"], capture_output=True, text=True, check=False)
    return Path(found.stdout.strip())


BIN, HEADERS = _folder("bindir"), _folder("includedir-server")
pytestmark = [
    needs_compiler,
    pytest.mark.skipif(
        not (BIN and (BIN / "initdb").exists() and HEADERS and (HEADERS / "postgres.h").exists()),
        reason="not installed: PostgreSQL's server and its headers",
    ),
]
# The server refuses to run as root.
USER = "postgres" if os.geteuid() == 0 else None
QUERY = "SELECT count(*) FROM a JOIN b ON a.x = b.x WHERE b.y < 5"
SCHEMA = """
CREATE TABLE a AS SELECT i AS x, i % 7 AS y FROM generate_series(1, 2000) i;
CREATE TABLE b AS SELECT i % 100 AS x, i AS y FROM generate_series(1, 500) i;
CREATE INDEX ON a (x);
ANALYZE;
"""


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return loaded("plans/bao", 8)


@pytest.fixture(scope="module")
def server(model: LoadedModel) -> Iterator[Path]:
    """A server's folder, with the extension's functions and two tables."""
    with tempfile.TemporaryDirectory(prefix="abw-postgres-") as name:
        folder = Path(name)
        built = folder / "extension"
        shutil.copytree(EXAMPLES / "postgres", built)
        model.build(built / "libplan.so")
        subprocess.run(["make", "-s", "with_llvm=no"], cwd=built, check=True, capture_output=True)
        if USER:
            shutil.chown(folder, USER)
        run("initdb", "-A", "trust", "-U", "abw", "-N", "-D", folder / "data")
        options = (
            f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off -c shared_buffers=16MB"
        )
        run("pg_ctl", "-w", "-D", folder / "data", "-l", folder / "log", "-o", options, "start")
        try:
            functions = (built / "abw_plan--1.0.sql").read_text()
            ask(folder, SCHEMA + functions.replace("MODULE_PATHNAME", str(built / "abw_plan")))
            yield folder
        finally:
            run("pg_ctl", "-D", folder / "data", "-m", "immediate", "stop")


def run(program: str, *arguments: str | Path) -> None:
    """Run one of PostgreSQL's programs."""
    assert BIN
    subprocess.run([BIN / program, *arguments], check=True, stdout=subprocess.DEVNULL, user=USER, cwd="/")


def ask(folder: Path, query: str) -> str:
    """What a query gives, as text without a frame. Raises CalledProcessError with what psql says."""
    assert BIN
    command: list[str | Path] = [
        BIN / "psql",
        "-XqAt",
        "-v",
        "ON_ERROR_STOP=1",
        "-h",
        folder,
        "-U",
        "abw",
        "postgres",
    ]
    return subprocess.run(command, input=query, capture_output=True, text=True, check=True).stdout.strip()


def test_costs_are_those_of_the_explained_plan(server: Path, model: LoadedModel) -> None:
    for settings in (
        "",
        "SET enable_hashjoin = off;",
        "SET enable_hashjoin = off; SET enable_mergejoin = off;",
    ):
        explained = ask(server, f"{settings} EXPLAIN (FORMAT JSON) {QUERY};")
        told = ask(server, f"{settings} SELECT cost FROM abw_cost($q${QUERY}$q$);")
        expected = model([json.dumps(json.loads(explained))])["cost"][0][0, 0]
        assert np.float32(told) == expected


def test_the_cheapest_hint_is_chosen(server: Path, model: LoadedModel) -> None:
    hints = ["", "enable_hashjoin", "enable_hashjoin enable_mergejoin"]
    costs = []
    for hint in hints:
        settings = "".join(f"SET {name} = off; " for name in hint.split())
        costs.append(float(ask(server, f"{settings} SELECT cost FROM abw_cost($q${QUERY}$q$);")))
    assert len(set(costs)) > 1
    listed = ", ".join(f"'{hint}'" for hint in hints)
    chosen = ask(
        server, f"SELECT hint, cost FROM abw_choose($q${QUERY}$q$, ARRAY[{listed}]); SHOW enable_hashjoin;"
    )
    assert chosen == f"{hints[int(np.argmin(costs))]}|{min(costs)!r}\non"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT", ""),
        ("nonsense", "syntax error"),
        ("SELECT 1; SELECT 2", "abw_cost takes one statement"),
        ("VACUUM", "abw_cost takes a statement that is planned"),
        ("SELECT * FROM nothing", "does not exist"),
    ],
)
def test_mistakes_are_errors_of_the_query_alone(server: Path, query: str, said: str) -> None:
    if not said:
        assert ask(server, f"SELECT cost IS NOT NULL FROM abw_cost('{query}');") == "t"
        return
    with pytest.raises(subprocess.CalledProcessError) as raised:
        ask(server, f"SELECT * FROM abw_cost('{query}');")
    assert said in raised.value.stderr
    assert ask(server, "SELECT 1;") == "1"
