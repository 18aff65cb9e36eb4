"""`python -m tests.mutants core/policy pqtree --most 40 --seed 0`: do the tests notice a changed product?

Draws places of the product's files and changes one at a time in a copy of the tree: a comparison, a sign, a
number, `and` and `or`, a condition, a statement left out. A mutant is killed where the tests beside it fail
(those of `core/policy/x.py` are `tests/core/policy`) or do not end; one that survives is code that nothing
asks for, or that means the same.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# what stands for an operator in a mutant
SWAPPED: dict[type[ast.AST], ast.AST] = {
    ast.Lt: ast.LtE(),
    ast.LtE: ast.Lt(),
    ast.Gt: ast.GtE(),
    ast.GtE: ast.Gt(),
    ast.Eq: ast.NotEq(),
    ast.NotEq: ast.Eq(),
    ast.In: ast.NotIn(),
    ast.NotIn: ast.In(),
    ast.Is: ast.IsNot(),
    ast.IsNot: ast.Is(),
    ast.Add: ast.Sub(),
    ast.Sub: ast.Add(),
    ast.And: ast.Or(),
    ast.Or: ast.And(),
}
# bytes of addresses that the tests of a mutant may have
MEMORY = 16 << 30


@dataclass(frozen=True)
class Mutant:
    """A part of a file, in bytes, and what stands there instead."""

    file: Path
    line: int
    begin: int
    end: int
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {_short(self.old)}  ->  {_short(self.new)}"


def mutants_of(file: Path, text: str) -> Iterator[Mutant]:
    """Every mutant of a file, in the order of its tree."""
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node, new in _changed(ast.parse(text)):
        assert node.end_lineno is not None and node.end_col_offset is not None
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        old = text.encode()[begin:end].decode()
        yield Mutant(file, node.lineno, begin, end, old, new)


def _changed(tree: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """Nodes of a tree with the text that they become."""
    for node in _executed(tree):
        if isinstance(node, ast.Compare):
            for i, op in enumerate(node.ops):
                ops = [*node.ops[:i], SWAPPED[type(op)], *node.ops[i + 1 :]]
                yield node, _text(ast.Compare(node.left, ops, node.comparators))  # type: ignore[arg-type]
        elif isinstance(node, ast.BinOp) and type(node.op) in SWAPPED:
            yield node, _text(ast.BinOp(node.left, SWAPPED[type(node.op)], node.right))  # type: ignore[arg-type]
        elif isinstance(node, ast.BoolOp):
            yield node, _text(ast.BoolOp(SWAPPED[type(node.op)], node.values))  # type: ignore[arg-type]
        elif isinstance(node, ast.Constant) and isinstance(node.value, int):
            yield node, str(not node.value if isinstance(node.value, bool) else node.value + 1)
        elif isinstance(node, ast.If | ast.While | ast.IfExp):
            yield node.test, f"(not ({ast.unparse(node.test)}))"
        elif isinstance(node, ast.AugAssign | ast.Break | ast.Continue) or (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        ):
            yield node, "pass"


def _executed(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run: no annotations, texts or imports, and nothing of a `raise`."""
    if isinstance(tree, ast.JoinedStr | ast.Raise | ast.Import | ast.ImportFrom):
        return
    yield tree
    for name, field in ast.iter_fields(tree):
        if name not in ("annotation", "returns", "decorator_list", "bases"):
            for child in field if isinstance(field, list) else [field]:
                if isinstance(child, ast.AST):
                    yield from _executed(child)


def _text(node: ast.AST) -> str:
    return f"({ast.unparse(ast.fix_missing_locations(node))})"


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) < 50 else f"{text[:47]}..."


class Tree:
    """A copy of the tree, in which one file at a time is changed."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "tree"
        self._compiled = folder / "compiled"
        # with CI, random examples are the same each time
        self._env = {**os.environ, "CI": "1", "ABW_HOME": str(folder / "home")}
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        files = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for name in filter(None, files.split("\0")):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).exists():
                shutil.copyfile(ROOT / name, self.root / name, follow_symlinks=False)

    def passes(self, tests: list[str], limit: float | None = None, mutant: Mutant | None = None) -> bool:
        """Whether tests pass within `limit` seconds; the machine code of a mutant is not kept."""
        if mutant is None:
            return self._run(tests, limit, self._compiled)
        path = self.root / mutant.file
        whole = path.read_bytes()
        scratch = Path(tempfile.mkdtemp(dir=self.root.parent))
        try:
            path.write_bytes(whole[: mutant.begin] + mutant.new.encode() + whole[mutant.end :])
            # numba replaces files and never writes into them: links are enough
            shutil.copytree(self._compiled, scratch, copy_function=os.link, dirs_exist_ok=True)
            return self._run(tests, limit, scratch)
        finally:
            path.write_bytes(whole)
            shutil.rmtree(scratch)

    def _run(self, tests: list[str], limit: float | None, compiled: Path) -> bool:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
        process = subprocess.Popen(
            command,
            cwd=self.root,
            env={**self._env, "NUMBA_CACHE_DIR": str(compiled), "PYTHONPATH": str(self.root)},
            stdout=None if compiled == self._compiled else subprocess.DEVNULL,
            stderr=None if compiled == self._compiled else subprocess.DEVNULL,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
            start_new_session=True,
        )
        try:
            return process.wait(limit) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            process.kill()
            process.wait()


def main() -> int:
    """Print each mutant's fate and a summary; returns 1 where the tests fail without any."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument(
        "folders", nargs="+", help="of the product, such as core/policy; their tests lie in tests/"
    )
    parser.add_argument("--most", type=int, default=40, help="so many mutants, drawn from all folders alike")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    drawn = [
        (folder, mutant)
        for i, folder in enumerate(given.folders)
        for mutant in _drawn(Path(folder), given.seed, len(range(i, given.most, len(given.folders))))
    ]
    killed = 0
    with tempfile.TemporaryDirectory() as place:
        tree = Tree(Path(place))
        limits = {}
        for folder in given.folders:
            begun = time.monotonic()
            if not tree.passes([f"tests/{folder}"]):
                print(f"tests/{folder} fails without a mutant")
                return 1
            limits[folder] = 60 + 3 * (time.monotonic() - begun)  # it compiled all, which later ones need not
        for folder, mutant in drawn:
            survived = tree.passes(_tests(folder, mutant), limits[folder], mutant)
            killed += not survived
            print("survived" if survived else "killed  ", mutant, flush=True)
    print(f"{killed} of {len(drawn)} mutants killed")
    return 0


def _drawn(folder: Path, seed: int, count: int) -> list[Mutant]:
    every = [
        mutant
        for path in sorted((ROOT / folder).rglob("*.py"))
        for mutant in mutants_of(path.relative_to(ROOT), path.read_text(encoding="utf-8"))
    ]
    return random.Random(f"{seed} {folder}").sample(every, min(count, len(every)))


def _tests(folder: str, mutant: Mutant) -> list[str]:
    """The tests of a folder, those named as the mutant's file first."""
    named = f"tests/{folder}/test_{mutant.file.stem}.py"
    return [*[named for _ in [0] if (ROOT / named).is_file()], f"tests/{folder}"]


if __name__ == "__main__":
    sys.exit(main())
