"""`abw run` in a pipe: instances in, outputs out, as they come."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from abw.core.run import learning
from tests.cli.conftest import Abw

TREES = "specs/treelstm.yaml"
FAST = ("--policy", "critical", "--set", "hidden=8", "-q")
TREE = "(3 (2 It) (4 works))\n"


@contextmanager
def process(root: Path, *args: str) -> Iterator[subprocess.Popen[bytes]]:
    """`abw run ARGS` as a process of its own, with pipes."""
    started = subprocess.Popen(
        [sys.executable, "-c", "from abw.cli.main import main; main()", "run", *args],
        cwd=root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield started
    finally:
        started.kill()
        started.wait()
        for pipe in (started.stdin, started.stdout, started.stderr):
            with suppress(BrokenPipeError):
                pipe.close()  # type: ignore[union-attr]


def lines_of(text: str | bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def arrays_of(path: Path) -> dict[str, Any]:
    with np.load(path) as kept:
        return dict(kept)


def test_outputs_come_while_the_pipe_stays_open(root: Path, home: Path) -> None:
    with process(root, TREES, "--data", "-", "--output", "-", *FAST[:-1]) as run:
        assert run.stdin and run.stdout and run.stderr
        for number, trees in enumerate((2, 1)):
            run.stdin.write(trees * TREE.encode() + b"(3 (2"[: 5 * number])
            run.stdin.flush()
            for i in range(trees):
                line = json.loads(run.stdout.readline())
                assert line["id"] == line["line"] - 1 == 2 * number + i
                assert np.shape(line["outputs"]["classes"]) == (3, 5)
        run.stdin.write(b" It) (4 works))\n")
        run.stdin.close()
        assert [line["id"] for line in lines_of(run.stdout.read())] == [3]
        said = run.stderr.read().decode()
        assert run.wait() == 0, said
    assert "4 instances in 3 mini-batches" in said
    assert "on stdin" in said


def test_who_reads_no_more_ends_it_quietly(root: Path, home: Path) -> None:
    with process(root, TREES, "--data", "-", "--output", "-", *FAST) as run:
        assert run.stdin and run.stdout and run.stderr
        run.stdin.write(TREE.encode())
        run.stdin.flush()
        assert json.loads(run.stdout.readline())["id"] == 0
        run.stdout.close()
        run.stdin.write(TREE.encode())
        run.stdin.close()
        assert run.wait() == 141
        assert run.stderr.read() == b""
    assert not list((home / "runs").iterdir())


def test_interrupted_while_it_waits(root: Path, home: Path) -> None:
    with process(root, TREES, "--data", "-", "--output", "-", *FAST) as run:
        assert run.stdin and run.stdout and run.stderr
        run.stdin.write(TREE.encode())
        run.stdin.flush()
        first = run.stdout.readline()
        run.send_signal(signal.SIGINT)
        assert run.wait() == 130
        assert lines_of(first + run.stdout.read())[0]["id"] == 0
        assert "standard output has are whole lines" in run.stderr.read().decode()
    assert not list((home / "runs").iterdir())


def test_interrupted_while_it_writes(root: Path, home: Path) -> None:
    """The pipe is full: the line under way is finished once there is room again."""
    with process(root, TREES, "--data", "-", "--output", "-", *FAST) as run:
        assert run.stdin and run.stdout and run.stderr
        run.stdin.write(2000 * TREE.encode())
        run.stdin.flush()
        start = os.read(run.stdout.fileno(), 10)  # it writes, and nobody reads on: the pipe fills
        run.send_signal(signal.SIGINT)
        rest = run.stdout.read()
        assert run.wait() == 130
    found = lines_of(start + rest)
    assert [line["id"] for line in found] == list(range(len(found)))
    assert 0 < len(found) < 2000 and (start + rest).endswith(b"\n")


def test_formats_hold_the_same(abw: Abw, root: Path, tmp_path: Path) -> None:
    files = {suffix: tmp_path / f"out{suffix}" for suffix in (".jsonl", ".npz", ".safetensors")}
    for file in files.values():
        done = abw("run", TREES, *FAST[:-1], "--batch", "10", "--output", str(file))
        assert done.code == 0, done.err
        assert str(file) in "".join(done.out.split("\n"))
    lines = lines_of(files[".jsonl"].read_text())
    arrays = arrays_of(files[".npz"])
    tensors = read_safetensors(files[".safetensors"].read_bytes())
    assert arrays.keys() == tensors.keys()
    assert all(np.array_equal(arrays[k], tensors[k]) and arrays[k].dtype == tensors[k].dtype for k in arrays)
    ends = arrays["classes.offsets"]
    assert len(lines) == len(ends) - 1 == 48
    for i, line in enumerate(lines):
        mine = slice(int(ends[i]), int(ends[i + 1]))
        assert np.array_equal(np.array(line["outputs"]["classes"], np.float32), arrays["classes"][mine])
        assert arrays["classes.vertex"][mine].tolist() == list(range(mine.stop - mine.start))
        assert (line["id"], line["line"]) == (arrays["instance.id"][i], arrays["instance.line"][i])


def read_safetensors(data: bytes) -> dict[str, Any]:
    """By the description of the format alone."""
    size = int.from_bytes(data[:8], "little")
    types = {"F32": np.float32, "I64": np.int64, "I32": np.int32, "U8": np.uint8, "BOOL": np.bool_}
    found = {}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        first, last = entry["data_offsets"]
        values: Any = np.frombuffer(data[8 + size + first : 8 + size + last], types[entry["dtype"]])
        found[name] = values.reshape(entry["shape"])
    return found


def test_one_value_an_instance_and_ids_of_the_data(abw: Abw, root: Path, tmp_path: Path) -> None:
    shutil.copytree(root / "specs/cells", tmp_path / "cells")
    spec = (root / "specs/fig10.yaml").read_text()
    spec = spec.replace("data/", f"{root}/specs/data/").replace(
        "outputs: {total: R.h}",
        '  top: {per: instance, cell: CELL, dims: {in: hidden, out: hidden}, inputs: {x: "r[-1].R.h"}}\n'
        "outputs: {top: top.h, total: R.h}".replace("CELL", "cells/dense.yaml"),
    )
    (tmp_path / "one.yaml").write_text(spec)
    data = (root / "specs/data/fig10.jsonl").read_text().splitlines()
    unnamed = json.dumps({k: v for k, v in json.loads(data[0]).items() if k != "id"})
    (tmp_path / "data.jsonl").write_text("\n".join([data[0], unnamed, "broken", unnamed]))
    flags = (str(tmp_path / "one.yaml"), "--data", str(tmp_path / "data.jsonl"), *FAST, "--skip-bad")
    assert abw("run", *flags, "-o", str(tmp_path / "a.jsonl"), "--batch", "2").code == 0
    done = abw("run", *flags, "-o", str(tmp_path / "a.npz"), "--json")
    assert done.code == 0, done.err
    assert (done.json()["instances"], done.json()["skipped"]) == (3, 1)
    assert done.json()["complaints"][0].startswith(f"{tmp_path}/data.jsonl:3:1: not JSON")
    lines = lines_of((tmp_path / "a.jsonl").read_text())
    assert [line["id"] for line in lines] == ["fig10", 1, 2, 3]
    assert lines[2]["outputs"] is None and "not JSON" in lines[2]["error"]
    assert np.shape(lines[0]["outputs"]["top"]) == (8,)
    arrays = arrays_of(tmp_path / "a.npz")
    assert arrays["top"].shape == (4, 8)
    assert arrays["instance.bad"].tolist() == [False, False, True, False]
    assert np.isnan(arrays["top"][2]).all()
    assert np.array_equal(arrays["top"][1], np.array(lines[1]["outputs"]["top"], np.float32))
    counts = np.diff(arrays["total.offsets"])
    assert counts[2] == 0 and counts[0] > 0
    ends = arrays["instance.id.offsets"]
    ids = [bytes(arrays["instance.id"][a:b]).decode() for a, b in pairwise(ends)]
    assert ids == ["fig10", "1", "2", "3"]


def test_instances_that_the_model_cannot_be_run_on_are_left_out(abw: Abw, root: Path, tmp_path: Path) -> None:
    """A word that is not in the vocabulary is found when the graph is made, not by the reader."""
    shutil.copytree(root / "specs/cells", tmp_path / "cells")
    spec = (root / TREES).read_text()
    spec = spec.replace("words: {dim: embed}", "words: {dim: embed, vocab: words.txt}")
    (tmp_path / "vocab.yaml").write_text(spec)
    (tmp_path / "words.txt").write_text("It\nworks\n")
    good = [False, True, True, False, True, False]
    text = "".join(TREE if g else TREE.replace("works", "fails") for g in good)
    (tmp_path / "data.txt").write_text("(2 It\n" + text)
    flags = (str(tmp_path / "vocab.yaml"), "--data", str(tmp_path / "data.txt"), *FAST[:-1])
    done = abw("run", *flags, "--skip-bad", "-o", str(tmp_path / "a.jsonl"))
    assert done.code == 0, done.err
    lines = lines_of((tmp_path / "a.jsonl").read_text())
    assert [line["outputs"] is not None for line in lines] == [False, *good]
    assert [line["id"] for line in lines] == list(range(7))
    assert [line["line"] for line in lines] == list(range(1, 8))
    assert "'fails' is not in the vocabulary" in lines[1]["error"]
    assert f"{tmp_path}/data.txt:2" in lines[1]["error"]
    assert "4 instances left out" in done.out and "and 1 more" in done.out
    (tmp_path / "data.txt").write_text(text)
    done = abw("run", *flags)
    assert done.code == 1 and "'fails' is not in the vocabulary" in done.err


def test_outputs_do_not_depend_on_mini_batches_and_pipes(abw: Abw, root: Path, tmp_path: Path) -> None:
    data = root / "specs/data/tags.txt"
    found = []
    for number, batch in enumerate(("1", "7", "1000")):
        target = tmp_path / f"{number}.npz"
        flags = ("specs/bilstm.yaml", "--data", str(data), "--batch", batch, *FAST)
        assert abw("run", *flags, "--output", str(target)).code == 0
        found.append(arrays_of(target))
    with process(root, "specs/bilstm.yaml", "--data", "-", "-o", str(tmp_path / "p.npz"), *FAST) as run:
        run.communicate(data.read_bytes())
        assert run.returncode == 0
    for other in (*found[1:], arrays_of(tmp_path / "p.npz")):
        for name, values in found[0].items():
            np.testing.assert_allclose(values, other[name], atol=1e-6)


def test_graphs_are_kept_of_the_first_mini_batches_alone(abw: Abw, home: Path) -> None:
    from abw.core.run.run import KEPT

    done = abw("run", TREES, *FAST, "--batch", "1", "--json")
    report = done.json()
    assert report["mini_batches"] == 48 and report["kept"] == KEPT == 32
    folder = Path(report["path"])
    assert len(list((folder / "batches").iterdir())) == KEPT
    assert report["compared"]["critical"] < report["batches"]
    assert f"first {KEPT} mini-batches" in abw("runs", "show").out
    assert abw("viz", "--mini-batch", str(KEPT - 1)).code == 0
    done = abw("viz", "--mini-batch", str(KEPT))
    assert done.code == 1 and "0 to 31" in done.err


@pytest.mark.parametrize("command", ["check", "learn", "compare", "explain", "viz"])
def test_pipes_are_for_runs_alone(abw: Abw, command: str) -> None:
    done = abw(command, TREES, "--data", "-")
    assert done.code == 2 and "only `abw run` reads from a pipe" in done.err


def test_a_folder_that_cannot_be_written_is_told_before_anything_is_read(
    abw: Abw, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("ABW_HOME", str(tmp_path / "file"))
    done = abw("run", "no-such-spec.yaml")
    assert done.code == 1 and f"cannot write to {tmp_path / 'file/runs'}" in done.err
    assert "ABW_HOME" in done.err and "no-such-spec" not in done.err
    monkeypatch.setattr(learning, "train", None)
    done = abw("learn", TREES)
    assert done.code == 1 and f"cannot write to {tmp_path / 'file/policies'}" in done.err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--json", "--output", "-"), "both want standard output"),
        (("--output", "out.txt"), ".safetensors"),
        (("--output", "nowhere/out.jsonl"), "cannot write nowhere/out.jsonl: there is no folder nowhere"),
    ],
)
def test_outputs_that_cannot_be(abw: Abw, args: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = abw("run", TREES, *FAST, *args)
    assert done.code == (1 if "nowhere/out.jsonl" in args else 2)
    assert said in done.err and not done.out


def test_what_a_run_reads_is_never_written_over(abw: Abw, root: Path, tmp_path: Path) -> None:
    data, weights = tmp_path / "data.jsonl", tmp_path / "w.npz"
    shutil.copy(root / "specs/data/trees.txt", data)
    shutil.copy(root / "tests/golden/torch/torch-bilstm.npz", weights)
    for spec, flag, file in ((TREES, "--data", data), ("specs/torch-bilstm.yaml", "--weights", weights)):
        before = file.read_bytes()
        link = tmp_path / f"link{file.suffix}"
        link.symlink_to(file)
        for output in (file, link):
            done = abw("run", spec, flag, str(file), "-q", "--output", str(output))
            assert done.code == 2 and f"{output} would be overwritten" in done.err
        assert file.read_bytes() == before


def test_a_folder_is_no_file_of_outputs_and_is_told_before_anything_runs(abw: Abw, tmp_path: Path) -> None:
    (tmp_path / "out.npz").mkdir()
    done = abw("run", TREES, "--policy", "critical", "--output", str(tmp_path / "out.npz"))
    assert done.code == 1 and "out.npz: Is a directory" in done.err and "run ..." not in done.err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("args", [("run", TREES, *FAST, "-o", "-"), ("schema",)])
def test_standard_output_that_takes_no_more(root: Path, home: Path, args: tuple[str, ...]) -> None:
    command = [sys.executable, "-c", "from abw.cli.main import main; main()", *args]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, cwd=root, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "error: cannot write standard output: No space left on device\n"


@pytest.mark.parametrize("args", [("specs",), ("run", TREES, *FAST, "--json")])
def test_standard_output_that_nobody_reads(root: Path, home: Path, args: tuple[str, ...]) -> None:
    command = [sys.executable, "-c", "from abw.cli.main import main; main()", *args]
    nobody, out = os.pipe()
    os.close(nobody)
    done = subprocess.run(command, cwd=root, stdout=out, stderr=subprocess.PIPE, text=True, check=False)
    os.close(out)
    assert (done.returncode, done.stderr) == (141, "")


def test_the_first_mistake_ends_it_and_what_came_before_is_written(
    abw: Abw, root: Path, tmp_path: Path
) -> None:
    text = (root / "specs/data/trees.txt").read_text()
    (tmp_path / "data.txt").write_text(30 * text + "(2 It\n")
    out = tmp_path / "out.jsonl"
    flags = ("--data", str(tmp_path / "data.txt"), *FAST, "--limit", "9999")
    done = abw("run", TREES, *flags, "-o", str(out))
    assert done.code == 1 and f"{tmp_path}/data.txt:{30 * 48 + 1}:6" in done.err
    assert [line["id"] for line in lines_of(out.read_text())] == list(range(30 * 48))
    done = abw("run", TREES, *flags, "-o", str(tmp_path / "out.npz"))
    assert done.code == 1 and not (tmp_path / "out.npz").exists()
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".out")] == []


def test_the_mini_batch_is_chosen(abw: Abw) -> None:
    done = abw("run", TREES, *FAST, "--batch", "auto", "--json")
    assert done.code == 0, done.err
    report = done.json()
    tried = {t["batch"]: t for t in report["auto_batch"]["tried"]}
    assert list(tried) == [1, 2, 4, 8, 16, 32] and report["batch"] in tried
    limit = tried[8]["bytes"]
    done = abw("run", TREES, *FAST[:-1], "--batch", "auto", "--memory", str(limit))
    assert done.code == 0, done.err
    assert "32: " in done.out and "(too large)" in done.out
    assert abw("runs", "show", "--json").json()["batch"] <= 8
    done = abw("run", TREES, *FAST, "--batch", "auto", "--memory", "100")
    assert done.code == 1 and "raise --memory" in done.err
    done = abw("run", TREES, *FAST, "--memory", "1G")
    assert done.code == 2 and "--batch auto" in done.err
    for wrong in ("0", "many", "-1"):
        done = abw("run", TREES, *FAST, f"--batch={wrong}")
        assert done.code == 2 and "--batch" in done.err


@pytest.mark.parametrize(
    ("closed", "args", "code", "said"),
    [
        (
            "<&-",
            "--data - --output -",
            1,
            "error: standard input is closed\n  hint: `< FILE`, or --data FILE\n",
        ),
        (">&-", "--output -", 1, "error: cannot write standard output: it is closed\n"),
        ("2>&-", "", 0, ""),
    ],
)
def test_streams_that_are_closed(
    root: Path, home: Path, closed: str, args: str, code: int, said: str
) -> None:
    command = f"{sys.executable} -c 'from abw.cli.main import main; main()' run {TREES} {args}"
    flags = " ".join(FAST if "2" not in closed else FAST[:-1])
    done = subprocess.run(
        ["sh", "-c", f"{command} {flags} {closed}"], cwd=root, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (code, said)
    assert "run ..." not in done.stdout


def test_a_pipe_without_instances(abw: Abw) -> None:
    done = abw("run", TREES, *FAST[:-1], "--data", "/dev/null", "--verify", "--profile")
    assert done.code == 0 and "0 instances in 0 mini-batches" in done.out
    for command in ("viz", "explain"):
        done = abw(command)
        assert done.code == 1 and "the run has no mini-batches" in done.err
