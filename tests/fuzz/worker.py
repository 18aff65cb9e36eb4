"""The process that runs cases; it may die of one, and another one goes on behind it.

Its standard output is a line of JSON for what begins, and for what failed.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import shutil
import sys
import tempfile
import time
import traceback
import unicodedata
from importlib import import_module
from pathlib import Path
from random import Random

from abw.core.base.errors import AbwError
from abw.core.base.memory import peak_since, settle
from tests.fuzz.target import TARGETS, Case, Target

# The number of the case that is all of the corpus, undamaged.
INTACT = -1
_ADDRESS_SPACE = 4 << 30


def case_of(target: Target, seed: int, number: int, corpus: list[Case]) -> Case:
    """The damaged case of a number: the same again for the same seed."""
    return target.damage(Random(f"{seed} {target.name} {number}"), corpus, number)


def size_of(case: Case) -> int:
    """The bytes of a case; 0 for one that is neither file nor folder."""
    files = case.values() if isinstance(case, dict) else [case]
    return sum(len(content) for content in files if isinstance(content, bytes))


def failure(target: Target, case: Case, folder: Path, intact: bool = False) -> str:
    """What is wrong with how a case ends; '' for nothing."""
    before = settle()
    begun = time.process_time()
    try:
        target.attempt(case, folder)
    except AbwError as error:
        if intact:
            return f"the corpus is refused: {error}"
        if wrong := unshowable(str(error)):
            return f"the message holds control characters: {wrong}: {error!s:.200}"
    except BaseException:  # whatever it is: a SystemExit or KeyboardInterrupt must not end the worker
        return traceback.format_exc()
    seconds, peak = time.process_time() - begun, peak_since()
    if intact:  # compiled code may still have to be made
        return ""
    if seconds > target.seconds:
        return f"took {seconds:.1f} s of CPU time"
    allowed = target.memory + 200 * size_of(case)
    if before is not None and peak is not None and peak - before > allowed:
        return f"took {(peak - before) >> 20} MB, {allowed >> 20} MB are allowed"
    return ""


def unshowable(text: str) -> str:
    """A character that a terminal obeys or no file can hold, by its name; '' for none."""
    wrong = {c for c in text if unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t"}
    return ", ".join(f"U+{ord(c):04X}" for c in sorted(wrong))


def main(modules: list[str], jobs: list[tuple[str, int, int]], seed: int) -> None:
    """Run cases `first` to `last` (exclusive) of the targets of modules, one after the other."""
    says = os.fdopen(os.dup(1), "w", buffering=1)
    # nothing that abw prints may get in between
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    sys.stdin = Path(os.devnull).open()  # noqa: SIM115
    faulthandler.enable()
    for module in modules:
        import_module(module)
    for name, first, last in jobs:
        target = TARGETS[name]
        corpus = list(target.corpus())
        for number in (INTACT, *range(max(first, 0), last)):
            says.write(json.dumps({"target": name, "case": number}) + "\n")
            for case in corpus if number == INTACT else [case_of(target, seed, number, corpus)]:
                folder = Path(tempfile.mkdtemp(prefix="abw-fuzz-"))
                os.chdir(folder)
                if said := failure(target, case, folder, number == INTACT):
                    says.write(json.dumps({"target": name, "case": number, "failure": said}) + "\n")
                os.chdir("/")
                shutil.rmtree(folder, ignore_errors=True)
    says.write(json.dumps({"done": True}) + "\n")


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    main(json.loads(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3]))
