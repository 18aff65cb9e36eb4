"""What a kernel is compiled for: the width of a vector and the registers of a processor."""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import llvmlite.binding as llvm

from abw.core.base.errors import AbwError

TargetName = Literal["avx512", "avx2", "plain"]
TARGETS: tuple[TargetName, ...] = ("avx512", "avx2", "plain")

MACHINE = platform.machine()
# AArch64 as Linux, macOS and Windows call it.
IS_AARCH64 = MACHINE.lower() in ("aarch64", "arm64")

SECOND_LEVEL = Path("/sys/devices/system/cpu/cpu0/cache/index2/size")
USUAL_CACHE = 1 << 20


@dataclass(frozen=True, slots=True)
class Target:
    """A processor as LLVM knows it (`cpu`, `features`), with `lanes` floats in a vector register.

    `accumulators`: vector registers that sums may take, so that the weights of a step and a broadcast operand
    fit in beside them. `group`: the most sums of a row that a block of rows works on. `counter`: how code
    reads a clock that runs evenly: LLVM's function, and what it is given. `cache`: bytes of a core's
    second-level cache.
    """

    name: TargetName
    cpu: str
    features: str
    lanes: int
    accumulators: int
    group: int
    counter: tuple[str, str] = ("readcyclecounter", "")  # on x86 that of time stamps
    cache: int = USUAL_CACHE

    @property
    def vector(self) -> str:
        """The type of a vector of floats."""
        return f"<{self.lanes} x float>"

    @property
    def wide(self) -> str:
        """The type of as many floats in double precision."""
        return f"<{self.lanes} x double>"

    @property
    def integers(self) -> str:
        """The type of a vector of 32-bit integers."""
        return f"<{self.lanes} x i32>"

    @property
    def fused(self) -> bool:
        """Whether a product and a sum are rounded once: on all but the least processor of x86."""
        return bool(self.features)

    @property
    def fours(self) -> bool:
        """Whether four products of bytes are added to a 32-bit sum by one instruction (VNNI)."""
        found = self.features.split(",")
        return "+avx512vnni" in found or (self.lanes == 8 and "+avxvnni" in found)

    def block_rows(self, vectors: int) -> int:
        """How many rows a block has whose rows have `vectors` sums each."""
        # more rows than 10 have no general register left for each row's address
        return max(1, min(10, (self.accumulators - 1 - vectors) // vectors))


_TIMER = ("read_volatile_register.i64", 'metadata !{!"CNTVCT_EL0"}')
# The least that every 64-bit ARM processor has. Its counter of cycles is for the system alone.
AARCH64 = Target("plain", "generic", "+neon", 4, 32, 6, _TIMER)


@cache
def get_target(name: TargetName | None = None) -> Target:
    """A target by its name, or the best that this machine has. Errors: AbwError where it has it not."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    has: dict[str, bool] = llvm.get_host_cpu_features()
    best: TargetName = "plain"
    if has.get("avx2") and has.get("fma"):
        best = "avx512" if has.get("avx512f") and has.get("avx512vl") else "avx2"
    chosen = name or best
    if IS_AARCH64 and chosen == "plain":
        return AARCH64
    if TARGETS.index(chosen) < TARGETS.index(best):
        raise AbwError(f"this machine's processor has no {chosen}", hint=f"it has: {best}")
    cpu = llvm.get_host_cpu_name()
    features = dict(has)
    if chosen == "avx2":
        features = {f: on and "avx512" not in f and not f.startswith("avx10") for f, on in has.items()}
    if chosen == "plain":
        # the least that the architecture promises
        return Target("plain", "x86-64" if "sse2" in has else "generic", "", 4, 16, 3, cache=_second_level())
    flags = ",".join(f"{'+' if on else '-'}{feature}" for feature, on in sorted(features.items()))
    lanes, registers, group = (16, 32, 6) if chosen == "avx512" else (8, 16, 3)
    return Target(chosen, cpu, flags, lanes, registers, group, cache=_second_level())


def _second_level() -> int:
    """The second-level cache as Linux tells of it; where nothing does, a usual one."""
    try:
        told = re.fullmatch(r"(\d+)K", SECOND_LEVEL.read_text(encoding="ascii").strip())
    except OSError:
        told = None
    return 1024 * int(told[1]) if told else USUAL_CACHE
