"""Whatever a file holds: what is wrong with it is told as an AbwError, and the error can be shown."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from abw.core.base.errors import AbwError, SpecError
from abw.core.data.readers.jsonl import schema_of_json
from abw.core.spec.load import load_cell, load_model
from tests.core.spec.writing import LATTICE, LINEAR, LSTM, Folder

ANY = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
SIGNS = st.sampled_from("\n\t :{}[](),.-+*/@=#&!|>'\"%\\0123456789abhx_<é\u2028\x00\ud7ff")
WORDS = st.sampled_from(
    ["zeros", " or ", "state", "hidden", "from", "sum", "x: ", "inputs", "*a", "&a ", "- ", ": {"]
)
EDITS = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 12), SIGNS | WORDS | st.just("")), min_size=1, max_size=4
)


def edit(text: str, edits: list[tuple[float, int, str]]) -> str:
    """The text with some pieces replaced: (where, how much goes, what comes)."""
    for place, gone, come in edits:
        at = int(place * len(text))
        text = text[:at] + come + text[at + gone :]
    return text


def attempt(path: Path) -> None:
    """Load a file as model and as cell: success, or an error with a text."""
    for load in (lambda: load_model(path, schema_of=schema_of_json), lambda: load_cell(path)):
        try:
            load()
        except AbwError as error:
            shown = str(error)
            assert shown.encode() and "Traceback" not in shown
            if isinstance(error, SpecError):
                assert all(p.message for p in error.problems)
                assert len(error.problems) > 0


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Path:
    folder = tmp_path_factory.mktemp("fuzz") / "specs"
    shutil.copytree(root / "specs", folder)
    return folder


@settings(ANY, max_examples=150)
@given(number=st.integers(0, 1000), edits=EDITS)
def test_shipped_specs_with_pieces_replaced(
    specs: Path, root: Path, number: int, edits: list[tuple[float, int, str]]
) -> None:
    names = sorted(path.relative_to(root / "specs") for path in (root / "specs").glob("**/*.yaml"))
    name = names[number % len(names)]
    path = specs / name
    original = (root / "specs" / name).read_text(encoding="utf-8")
    try:
        path.write_text(edit(original, edits), encoding="utf-8")
        attempt(path)
    finally:
        path.write_text(original, encoding="utf-8")


@settings(ANY, max_examples=60)
@given(edits=EDITS)
def test_a_model_with_a_damaged_cell(folder: Folder, edits: list[tuple[float, int, str]]) -> None:
    folder.write("lstm.yaml", edit(LSTM, edits))
    folder.write("linear.yaml", edit(LINEAR, edits))
    attempt(folder.write("model.yaml", LATTICE))


@settings(ANY, max_examples=100)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=80))
def test_any_text_as_equations_source_or_file(folder: Folder, text: str) -> None:
    quoted = "'" + text.replace("'", "''") + "'"
    attempt(folder.write("cell.yaml", f"cell: c\ninputs: {{x: 2}}\nequations: {quoted}\noutputs: {{y: y}}\n"))
    attempt(folder.write("model.yaml", LATTICE.replace("state.h}", f"{quoted}}}")))
    attempt(folder.write("file.yaml", text))


@settings(ANY, max_examples=60)
@given(data=st.binary(max_size=60))
def test_any_bytes(folder: Folder, data: bytes) -> None:
    path = folder.path / "bytes.yaml"
    path.write_bytes(data)
    attempt(path)


@settings(ANY, max_examples=150)
@given(
    tokens=st.lists(
        st.sampled_from(
            [*"()[]:,+-*/@=\n", "x", "W", "y", "z", "n", "1", "0.5", "concat", "tanh", "softmax", "transpose"]
        ),
        max_size=30,
    )
)
def test_rows_of_tokens_as_equations(folder: Folder, tokens: list[str]) -> None:
    lines = " ".join(["y", "=", *tokens]).split("\n")
    text = "cell: c\ndims: [n]\ninputs: {x: n}\nparams: {W: [n, n]}\nequations: |\n"
    attempt(folder.write("cell.yaml", text + "".join(f"  {line}\n" for line in lines) + "outputs: {y: y}\n"))
