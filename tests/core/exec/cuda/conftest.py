"""NVIDIA's compiler, for the tests that compile kernels to machine code."""

from __future__ import annotations

import os
import re

import pytest

from abw.core.exec.cuda.driver.toolkit import HINT, Toolkit, find_toolkit, need_toolkit

_FLOAT64 = re.compile(r"^\s*(?:@\S+\s+)?\S*\.f64\b.*$", re.MULTILINE)


def float64_lines(ptx: str) -> list[str]:
    """The instructions that touch a float64: none should, it runs at half or a 64th of the speed."""
    return [line.strip() for line in _FLOAT64.findall(ptx)]


@pytest.fixture(scope="session")
def toolkit() -> Toolkit:
    """NVVM and ptxas; skips without them, or fails if ABW_NEED_CUDA_COMPILER is set, as .ci/run does."""
    found = find_toolkit()
    if found is None or found.ptxas is None:
        reason = f"needs NVIDIA's compiler: {HINT}"
        if os.environ.get("ABW_NEED_CUDA_COMPILER"):
            pytest.fail(reason)
        pytest.skip(reason)
    return need_toolkit()
