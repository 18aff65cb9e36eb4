"""The kernels generated for models, as machine code for sm_90: no spills, no stack, no float64."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import pytest

from abw.bench.workloads import CASES
from abw.core.exec.cuda.driver.compiled import Resources, assemble, compile_ptx, float64_lines
from abw.core.exec.cuda.driver.gpu import signed
from abw.core.exec.cuda.driver.toolkit import Toolkit
from abw.core.exec.cuda.lowering import device_program
from abw.core.exec.cuda.text.module import load_kernels
from abw.core.exec.cuda.tiles import HOPPER
from abw.core.ir.network import Network
from abw.core.run.workload import open_model, open_networks
from abw.core.spec.load import Overrides
from tests.conftest import ROOT
from tests.core.exec.corners import one_type
from tests.core.exec.operations import operations_cell

pytestmark = pytest.mark.skipif(
    not os.environ.get("ABW_NEED_CUDA_COMPILER"), reason="takes minutes where it is not asked for"
)
# The specs whose kernels are compiled.
ALL = ("fig10.yaml", "plans/bao.yaml", "plans/zero-shot.yaml", *dict.fromkeys(case.spec for case in CASES))
# Bytes of shared memory that a block may have without asking for more.
SHARED = 48 << 10
# What an SM has for a block's thread.
REGISTERS = 65536 // HOPPER.plan.threads


@dataclass(frozen=True)
class Found:
    """A kernel's machine code."""

    number: int
    resources: Resources
    float64: list[str]
    tensor: bool
    read_only: bool
    """Whether it loads through a cache that does not see what the launch writes."""


def network_of(spec: str) -> Network:
    """What a spec's kernels are made of."""
    return open_networks(open_model(ROOT / "specs" / spec, Overrides(dims={"hidden": 64})), "cell").network


def distinct(networks: dict[str, Network]) -> list[str]:
    """The specs without those all of whose cells, with the same reductions, another one has."""
    cells = {
        spec: {(t.cell, t.reduction, tuple(s.reduction for s in t.slots)) for t in network.types}
        for spec, network in networks.items()
    }
    kept: list[str] = []
    for spec in sorted(cells, key=lambda spec: -len(cells[spec])):
        if not any(cells[spec] <= cells[other] for other in kept):
            kept.append(spec)
    return kept


def kernels_of(network: Network) -> tuple[str, int]:
    """The module of a network's kernels, and the shared memory that the plan's needs."""
    program = device_program(network, HOPPER)
    return program.text, program.plan_shared


def machine_code(module: tuple[str, int]) -> list[Found]:
    """All kernels of a module."""
    text, shared = module
    found = []
    for number, (kernel, signature, threads) in enumerate(signed(load_kernels(text, HOPPER, shared))):
        ptx = compile_ptx(kernel, signature, threads)
        resources = assemble(ptx).resources
        assert resources is not None
        read_only = "ld.global.nc" in ptx
        found.append(Found(number, resources, float64_lines(ptx), "mma.sync" in ptx, read_only))
    return found


def test_every_kernel_stays_in_registers_and_in_float32(toolkit: Toolkit) -> None:
    networks = {spec: network_of(spec) for spec in ALL}
    texts = {kernels_of(networks[spec]): spec for spec in distinct(networks)}
    with ProcessPoolExecutor(min(len(texts), os.cpu_count() or 1), get_context("spawn")) as pool:
        for spec, found in zip(texts.values(), pool.map(machine_code, texts), strict=True):
            assert len(found) >= 2, spec  # a step and a plan at least
            assert any(kernel.tensor for kernel in found[:-1]) and found[-1].tensor, spec
            for kernel in found:
                assert (kernel.resources.stack, kernel.resources.spills) == (0, 0), (spec, kernel)
                assert kernel.resources.registers <= REGISTERS, (spec, kernel)
                assert kernel.resources.shared <= SHARED, (spec, kernel)
                assert not kernel.float64, (spec, kernel)
            assert not found[-1].read_only, spec  # the plan's kernel reads what it wrote


def test_all_operations_stay_in_registers_and_in_float32(toolkit: Toolkit) -> None:
    _, network = one_type(operations_cell(), 2)
    program = device_program(network, HOPPER)
    for kernel in machine_code((program.text, program.plan_shared)):
        assert (kernel.resources.stack, kernel.resources.spills) == (0, 0), kernel
        assert kernel.resources.registers <= REGISTERS, kernel
        assert not kernel.float64, kernel
