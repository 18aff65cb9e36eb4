"""The kernels generated for models, as machine code for sm_90: no spills, no stack, no float64."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import pytest

from abw.bench.workloads import CASES
from abw.core.exec.cuda.driver.compiled import Resources, assemble, compile_ptx
from abw.core.exec.cuda.driver.gpu import signed
from abw.core.exec.cuda.driver.toolkit import Toolkit
from abw.core.exec.cuda.lowering import DeviceProgram, device_program
from abw.core.exec.cuda.text.module import load_kernels
from abw.core.exec.cuda.tiles import HOPPER
from abw.core.ir.network import Network
from abw.core.run.workload import open_model, open_networks
from abw.core.spec.load import Overrides
from tests.conftest import ROOT
from tests.core.exec.corners import one_type
from tests.core.exec.cuda.conftest import float64_lines
from tests.core.exec.operations import operations_cell

pytestmark = pytest.mark.skipif(
    not os.environ.get("ABW_NEED_CUDA_COMPILER"), reason="takes minutes where it is not asked for"
)

# The specs whose kernels are compiled, and sizes of theirs: of bao layers of one size, which share kernels.
ALL: dict[str, dict[str, int]] = {
    "plans/bao.yaml": {"c1": 64, "c2": 64},
    "plans/zero-shot.yaml": {},
    "fig10.yaml": {},
    **{case.spec: {} for case in CASES},
}
# A function of a generated module, and an unsigned constant in it: a pitch, an offset, how many there are.
FUNCTION = re.compile(r"\n@cuda\.jit\(device=True\)\ndef (\w+)(.*?)(?=\n\n\n)", re.DOTALL)
CONSTANT = re.compile(r"\bU\d+\b")
EPILOGUE = re.compile(r"epilogue\d+")
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
    sizes = Overrides(dims={"hidden": 64, **ALL[spec]})
    return open_networks(open_model(ROOT / "specs" / spec, sizes), "cell").network


def kinds_of(text: str) -> list[str]:
    """Each step's function with its epilogue: what its machine code follows from, but for constants."""
    functions = dict(FUNCTION.findall(text))
    kinds = []
    for number in range(text.count("\ndef batch")):
        step = functions[f"step{number}"]
        epilogue = "".join(functions[name] for name in sorted(set(EPILOGUE.findall(step))))
        kinds.append(CONSTANT.sub("U", EPILOGUE.sub("epilogue", step) + epilogue))
    return kinds


def jobs_of(programs: Mapping[str, DeviceProgram]) -> dict[str, tuple[str, int, list[int]]]:
    """By spec its module, the shared memory of its plan, and which kernels to compile (-1: the plan's).

    Of steps that differ in constants alone the first is compiled; the plans of most of whose steps there
    were others before are not.
    """
    seen: set[str] = set()
    jobs = {}
    for spec, program in sorted(programs.items(), key=lambda item: -item[1].text.count("\ndef batch")):
        kinds = kinds_of(program.text)
        numbers = [n for n, kind in enumerate(kinds) if kind not in {*seen, *kinds[:n]}]
        if numbers:
            jobs[spec] = (
                program.text,
                program.plan_shared,
                [*numbers, *[-1] * (2 * len(numbers) > len(kinds))],
            )
        seen.update(kinds)
    return jobs


def machine_code(job: tuple[str, int, list[int]]) -> list[Found]:
    """Some kernels of a module."""
    text, shared, numbers = job
    kernels = signed(load_kernels(text, HOPPER, shared))
    found = []
    for number in numbers:
        kernel, signature, threads = kernels[number]
        ptx = compile_ptx(kernel, signature, threads)
        resources = assemble(ptx).resources
        assert resources is not None
        read_only = "ld.global.nc" in ptx
        found.append(Found(number, resources, float64_lines(ptx), "mma.sync" in ptx, read_only))
    return found


def test_every_kernel_stays_in_registers_and_in_float32(toolkit: Toolkit) -> None:
    jobs = jobs_of({spec: device_program(network_of(spec), HOPPER) for spec in ALL})
    with ProcessPoolExecutor(min(len(jobs), os.cpu_count() or 1), get_context("spawn")) as pool:
        for spec, found in zip(jobs, pool.map(machine_code, jobs.values()), strict=True):
            for kernel in found:
                assert (kernel.resources.stack, kernel.resources.spills) == (0, 0), (spec, kernel)
                assert kernel.resources.registers <= REGISTERS, (spec, kernel)
                assert kernel.resources.shared <= SHARED, (spec, kernel)
                assert not kernel.float64, (spec, kernel)
            if found[-1].number < 0:  # the plan's kernel reads what it wrote
                assert any(kernel.tensor for kernel in found[:-1]) and found[-1].tensor, spec
                assert not found[-1].read_only, spec


def test_all_operations_stay_in_registers_and_in_float32(toolkit: Toolkit) -> None:
    _, network = one_type(operations_cell(), 2)
    (job,) = jobs_of({"operations": device_program(network, HOPPER)}).values()
    for kernel in machine_code(job):
        assert (kernel.resources.stack, kernel.resources.spills) == (0, 0), kernel
        assert kernel.resources.registers <= REGISTERS, kernel
        assert not kernel.float64, kernel
