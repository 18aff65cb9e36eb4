"""Loaded machine code that makes arrays runs in a process that has compiled nothing."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import numpy as np
from abw.core.graph.edges import successors
ints = lambda *n: np.array(n, np.int32)
found = successors(ints(0, 0, 1), ints(0), 0)
print(found.succ_ptr.tolist(), found.succ.tolist(), found.indegree.tolist())
"""


def test_arrays_are_made_by_code_from_the_cache() -> None:
    for _ in range(2):  # the second finds what the first has compiled
        done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "[0, 1, 1] [1] [0, 1]\n"), done.stderr
