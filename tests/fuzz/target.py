"""What is fuzzed: a target has intact cases, a way to damage them, and a function that must survive them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.mutate import damaged

ROOT = Path(__file__).resolve().parents[2]
# Bytes (a file), a mapping from names to bytes (a folder), or any object of a target with its own damage.
Case = Any
Attempt = Callable[[Any, Path], object]
Damage = Callable[[Random, Sequence[Any], int], Any]


@dataclass(frozen=True, slots=True)
class Target:
    """One format that is read.

    `corpus` gives cases that are right: `attempt` must take each without an error. `damage` makes the
    case of a number from them. `attempt` is given a case and an empty folder, the current one. Of the cases
    asked for a `share` is run; one may take `seconds` of CPU time, and `memory` bytes beyond 200 for each of
    its own.
    """

    name: str
    corpus: Callable[[], Sequence[Case]]
    damage: Damage
    attempt: Attempt
    share: float
    seconds: float
    memory: int


TARGETS: dict[str, Target] = {}


def target(
    name: str,
    corpus: Callable[[], Sequence[Case]],
    *,
    damage: Damage | None = None,
    words: Sequence[bytes] = (),
    share: float = 1.0,
    seconds: float = 5.0,
    memory: int = 64 << 20,
) -> Callable[[Attempt], Attempt]:
    """Register the function below as a target; `words` are what the format's own damage inserts."""

    def registered(attempt: Attempt) -> Attempt:
        assert name not in TARGETS, name
        how = damage or (lambda rng, cases, number: damaged_case(rng, cases, words))
        TARGETS[name] = Target(name, corpus, how, attempt, share, seconds, memory)
        return attempt

    return registered


def damaged_case(rng: Random, cases: Sequence[Case], words: Sequence[bytes] = ()) -> Case:
    """One of the cases, damaged: a file, or one file of a folder."""
    case = rng.choice(cases)
    if not isinstance(case, Mapping):
        return damaged(rng, case, words, rng.choice(cases))
    name = rng.choice(sorted(case))
    return {**case, name: damaged(rng, case[name], words, rng.choice(list(case.values())))}


def load_targets() -> Mapping[str, Target]:
    """All targets by name."""
    for path in sorted((Path(__file__).parent / "targets").glob("[!_]*.py")):
        import_module(f"tests.fuzz.targets.{path.stem}")
    return TARGETS


def shipped(*names: str, most: int = 700) -> Callable[[], list[bytes]]:
    """Files of `specs/`, their first lines up to so many bytes."""

    def cases() -> list[bytes]:
        found = [(ROOT / "specs" / name).read_bytes() for name in names]
        return [text if len(text) <= most else text[: text.rfind(b"\n", 0, most) + 1] for text in found]

    return cases


def put(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder's files."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
