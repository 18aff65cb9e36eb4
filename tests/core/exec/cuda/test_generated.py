"""The kernels generated for models, as machine code for sm_90: no spills, no stack, no float64."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

from abw.cli.bench.workloads import CASES
from abw.core.exec.cuda.compiled import Resources, assemble, compile_ptx, float64_lines
from abw.core.exec.cuda.gpu import signed
from abw.core.exec.cuda.module import load_kernels
from abw.core.exec.cuda.program import device_program
from abw.core.exec.cuda.tiles import HOPPER
from abw.core.exec.cuda.toolkit import Toolkit
from abw.core.spec.load import Overrides
from abw.core.workload import open_model, open_networks
from tests.conftest import ROOT

ALL = ("fig10.yaml", "fig1.yaml", *dict.fromkeys(case.spec for case in CASES))
"""The specs whose kernels are compiled where the compiler is required; elsewhere only the first's."""
SHARED = 48 << 10
"""Bytes of shared memory that a block may have without asking for more."""
REGISTERS = 65536 // HOPPER.threads
"""What an SM has for a block's thread."""


@dataclass(frozen=True)
class Found:
    """A kernel's machine code."""

    name: str
    resources: Resources
    float64: list[str]


def machine_code(spec: str) -> list[Found]:
    """All kernels of a spec's network."""
    model = open_model(ROOT / "specs" / spec, Overrides(dims={"hidden": 64}))
    network = open_networks(model, "cell").network
    kernels = load_kernels(device_program(network, HOPPER).text, HOPPER.threads)
    found = []
    for number, (kernel, signature) in enumerate(signed(kernels)):
        ptx = compile_ptx(kernel, signature, kernels.threads)
        resources = assemble(ptx).resources
        assert resources is not None
        found.append(Found(f"{spec}, kernel {number}", resources, float64_lines(ptx)))
    return found


def test_every_kernel_stays_in_registers_and_in_float32(toolkit: Toolkit) -> None:
    specs = ALL if os.environ.get("ABW_NEED_CUDA_COMPILER") else ALL[:1]
    with ProcessPoolExecutor(min(len(specs), os.cpu_count() or 1), get_context("spawn")) as pool:
        found = [kernel for kernels in pool.map(machine_code, specs) for kernel in kernels]
    assert len(found) >= 2 * len(specs)  # each has a step and a plan at least
    for kernel in found:
        assert (kernel.resources.stack, kernel.resources.spills) == (0, 0), kernel
        assert kernel.resources.registers <= REGISTERS, kernel
        assert kernel.resources.shared <= SHARED, kernel
        assert not kernel.float64, kernel
