"""The backend on a real GPU: kernels compiled and loaded, memory kept, plans launched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.exec.cuda.backend import Kernel, Kernels, Scheme
from abw.core.exec.cuda.driver.compiled import KernelImage, compile_image
from abw.core.exec.cuda.driver.device import Buffer, Device, Event, Staging
from abw.core.exec.cuda.driver.launch import Arguments, launch_items, widest_phase
from abw.core.exec.cuda.image import Image
from abw.core.exec.cuda.ondevice.intrinsics import types
from abw.core.exec.cuda.tiles import forms_for

Floats = NDArray[np.float32]

# Floats beyond the buffer's end that may be read.
ROOM = 4
# The bits of a float that is none.
NOT_A_NUMBER = 0x7FC00000


class Gpu:
    """One network's kernels and memory on a GPU (`Backend`)."""

    def __init__(self, device: Device, *, tensor_cores: bool = True) -> None:
        """`tensor_cores`: where the GPU has them."""
        self.device = device
        self._modules: list[int] = []
        traits = device.traits
        self.forms = forms_for(traits.processors, tensor_cores and traits.tf32)
        self._staging = Staging(device)
        self._words, self._floats = Buffer(device), Buffer(device)
        self._weights, self._counters = Buffer(device), Buffer(device)
        self._begin, self._end = Event(device), Event(device)

    def load(self, kernels: Kernels, weights: Floats) -> None:
        """Take kernels and weights. Cost: 0.3 to 12 s a kernel, from disk a millisecond. Errors: AbwError."""
        self.device.enter()
        self._unload()
        self._threads = kernels.threads
        *handles, self._plan = [self._handle(code) for code in images_of(kernels, self.device.traits.arch)]
        self._handles = np.array(handles, np.uint64)
        self._plan_threads, self._plan_shared = kernels.plan_threads, kernels.plan_shared
        self.device.allow(self._plan, self._plan_shared)
        fit = self.device.resident(self._plan, self._plan_threads, self._plan_shared)
        self._resident = min(fit, self.forms.plan.blocks)
        self._weights.reserve(max(weights.nbytes, 4))
        self._weight_count = weights.size
        self.renew(weights)

    def renew(self, weights: Floats) -> None:
        """Send other weights for the same kernels."""
        self.device.enter()
        self._staging.upload(self._weights.pointer, weights)

    def reserve(self, floats: int, pieces: Sequence[tuple[int, Floats]]) -> None:
        """Have a buffer of so many floats with these pieces in it. Errors: TooLargeError."""
        self.device.enter()
        self._floats.reserve(4 * (floats + ROOM))
        for place, values in pieces:
            self._staging.upload(self._floats.pointer + 4 * place, np.ascontiguousarray(values))

    def write(self, first: int, values: Floats) -> None:
        """Send floats of the buffer."""
        self.device.enter()
        self._staging.upload(self._floats.pointer + 4 * first, values)

    def run(self, image: Image, scheme: Scheme) -> None:
        """Copy the plan and launch it; it is not done on return. Errors: CudaError, TooLargeError."""
        self.device.enter()
        self._words.reserve(image.words.nbytes)
        self._staging.upload(self._words.pointer, image.words)
        self._last = image, scheme
        self._begin.record()
        self._start(image, scheme)
        self._end.record()

    def poison(self) -> None:
        """Let no value be a number that is not computed, or sent, from now on."""
        self.device.enter()
        if self._floats.size:
            self.device.fill(self._floats.pointer, self._floats.size // 4, NOT_A_NUMBER)

    @property
    def image(self) -> Image:
        """What ran last."""
        return self._last[0]

    def again(self, times: int) -> float:
        """Seconds on the device that the last run takes, the mean of so many one right after the other.

        Launches wait in the device's queue: what the host takes for one is not in it.
        """
        self._begin.record()
        for _ in range(times):
            self._start(*self._last)
        self._end.record()
        return self.seconds() / times

    def _start(self, image: Image, scheme: Scheme) -> None:
        words = self._words.array(image.words.size)
        floats = self._floats.array(self._floats.size // 4)
        weights = self._weights.array(self._weight_count)
        if scheme == "plan":
            phases = max(1, int(image.words[0]))
            self._counters.reserve(4 * phases)
            counters = self._counters.array(phases)
            self.device.fill(counters.pointer, phases)
            self._launch_plan(image, Arguments([words, floats, weights, counters]))
        else:
            self._launch_items(image, Arguments([words, 0, floats, weights]))

    def read(self, first: int, count: int) -> Floats:
        """Floats of the buffer, after all that was asked for before. Other Python threads run meanwhile."""
        self.device.enter()
        out = np.empty(count, np.float32)
        self._staging.download(self._floats.pointer + 4 * first, out)
        return out

    def seconds(self) -> float:
        """What the last run took on the device, its plan already there."""
        return self._end.since(self._begin)

    def _launch_items(self, image: Image, arguments: Arguments) -> None:
        driver = self.device.driver
        status = launch_items(
            driver.address("cuLaunchKernel"), self.device.stream, self._handles, self._threads,
            image.words, arguments,
        )  # fmt: skip
        driver.check(status, "cuLaunchKernel")

    def _launch_plan(self, image: Image, arguments: Arguments) -> None:
        """Launch the persistent kernel so that all its blocks are resident, or not at all."""
        if self._resident == 0:
            raise AbwError("the kernel of a whole plan does not fit this GPU", hint="--scheme batch")
        blocks = min(self._resident, widest_phase(image.words))
        if blocks == 0:
            return
        self.device.launch(
            self._plan, blocks, self._plan_threads, arguments, shared=self._plan_shared, together=True
        )

    def _unload(self) -> None:
        while self._modules:
            self.device.unload(self._modules.pop())

    def __del__(self) -> None:
        if self._modules and self.device.settled():
            self._unload()

    def _handle(self, image: KernelImage) -> int:
        module, handle = self.device.load(image)
        self._modules.append(module)
        return handle


def images_of(kernels: Kernels, arch: tuple[int, int]) -> list[KernelImage]:
    """The code of all kernels, the whole plan's last, made without a GPU, or from disk. Errors: AbwError."""
    return [
        compile_image(kernel, signature, threads, kernels.text, arch)
        for kernel, signature, threads in signed(kernels)
    ]


def signed(kernels: Kernels) -> list[tuple[Kernel, Any, int]]:
    """All kernels with the types of their arguments and the threads of a block, the whole plan's last."""
    words, floats, at = types.uint32[::1], types.float32[::1], types.uint32
    batch, whole = types.void(words, at, floats, floats), types.void(words, floats, floats, words)
    return [
        *((kernel, batch, kernels.threads) for kernel in kernels.batch),
        (kernels.plan, whole, kernels.plan_threads),
    ]
