"""Kernels are compiled as in `tests/core`."""

from tests.core.conftest import quickly_compiled as quickly_compiled
