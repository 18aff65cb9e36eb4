"""What the executor `cuda` needs of a machine: a driver with a GPU, and NVIDIA's compiler."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

from abw.core.base.errors import AbwError, install
from abw.core.exec.codecache import kernels_folder
from abw.core.exec.cuda.driver.compiled import SUFFIX
from abw.core.exec.cuda.driver.device import PATIENCE, Device, Traits
from abw.core.exec.cuda.driver.driver import CudaError, load_driver
from abw.core.exec.cuda.driver.toolkit import HINT, find_toolkit
from abw.core.exec.cuda.measure.costs import costs_of

# The compute capability from which on GPUs have the memory model that the barriers need (Volta).
OLDEST = (7, 0)

# The command that measures a GPU.
MEASURE = "abw calibrate --device cuda"

# The CUDA version of the compiler that the extra `cuda` installs, as drivers say theirs.
PINNED_CUDA = 13000


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing abw uses: whether it is there, what it is, and how to get it if not."""

    name: str
    ok: bool
    value: str
    hint: str = ""


def inspect() -> list[Finding]:
    """The GPU with its driver, the compiler, and what is known of the GPU's costs. Changes nothing but that
    the driver is initialised."""
    gpu, device = _gpu()
    if device is None:
        return [gpu, _compiler()]
    device.close()
    return [gpu, _compiler(), _costs(device.traits)]


def open_device(patience: float = PATIENCE) -> Device:
    """The first GPU (`patience`: see `Device`). Errors: AbwError that says all that is missing and how to get
    it."""
    gpu, device = _gpu(patience)
    missing = [need for need in (gpu, _compiler()) if not need.ok]
    if device is None or missing:
        if device is not None:
            device.close()
        raise AbwError(
            "the executor cuda cannot run here: " + "; ".join(f"{n.name}: {n.value}" for n in missing),
            hint="; ".join(need.hint for need in missing),
        )
    return device


def _gpu(patience: float = PATIENCE) -> tuple[Finding, Device | None]:
    """What there is; the GPU itself where it can be used."""
    driver = load_driver()
    if driver is None:
        hint = "install NVIDIA's driver, 580 or newer (a container must be started with its GPUs)"
        return Finding("gpu", False, "no NVIDIA driver (libcuda) found", hint), None
    try:
        device = Device(driver, patience=patience)
    except CudaError as error:
        hint = "the driver is here but finds no GPU that it can use: see `nvidia-smi`"
        return Finding("gpu", False, error.message, hint), None
    traits = device.traits
    cuda = f"{traits.driver // 1000}.{traits.driver % 1000 // 10}"
    value = (
        f"{traits.name}, {traits.processors} SMs, {traits.memory_bytes / 1e9:.0f} GB, "
        f"compute capability {traits.arch[0]}.{traits.arch[1]}, driver for CUDA {cuda}"
    )
    if traits.arch < OLDEST:
        device.close()
        return Finding("gpu", False, value, "compute capability 7.0 or newer is needed (Volta, 2017)"), None
    if traits.driver < PINNED_CUDA:
        hint = f"the extra cuda's compiler needs a driver for CUDA {PINNED_CUDA / 1000:.1f} (580 or newer)"
        return Finding("gpu", True, value, f"{hint}; with this one set CUDA_HOME to a toolkit as old"), device
    return Finding("gpu", True, value), device


def _costs(traits: Traits) -> Finding:
    costs = costs_of(traits)
    fitted = "times fitted to runs" if costs.batch and costs.plan else "these"
    known = f"{costs.limits.said()}; schemes are chosen by {fitted}"
    if costs.path is None:
        return Finding(
            "gpu costs", True, f"as published for H200, not measured: {known}", f"`{MEASURE}` does"
        )
    return Finding("gpu costs", True, f"measured ({costs.path}): {known}")


def _compiler() -> Finding:
    if find_spec("numba.cuda") is None:
        return Finding("cuda compiler", False, "this numba has no numba.cuda", install("cuda"))
    toolkit = find_toolkit()
    if toolkit is None:
        folder = kernels_folder()
        if count := len(list(folder.glob(f"*{SUFFIX}"))):
            return Finding(
                "cuda compiler", True, f"none; {count} kernels compiled before are in {folder}", HINT
            )
        return Finding("cuda compiler", False, "NVIDIA's NVVM (libnvvm, libdevice) not found", HINT)
    if toolkit.ptxas is None:
        hint = "the driver compiles what it is given, which takes longer and is not what the tests checked"
        return Finding("cuda compiler", True, f"{toolkit.nvvm}; no ptxas", f"{hint}: {HINT}")
    return Finding("cuda compiler", True, f"{toolkit.nvvm} with {toolkit.ptxas}")
