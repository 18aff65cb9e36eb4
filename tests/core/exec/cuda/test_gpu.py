"""The host's side of the GPU, against a driver whose kernels run in the simulator."""

from __future__ import annotations

import threading
import time
from _thread import interrupt_main
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from numba import cuda as typed_cuda
from numba import uint32

from abw.core.base.errors import AbwError
from abw.core.exec.cuda.backend import Kernels
from abw.core.exec.cuda.driver import device, gpu
from abw.core.exec.cuda.driver.device import Buffer, Device, Event, HungError, Staging
from abw.core.exec.cuda.driver.driver import CudaError, Driver
from abw.core.exec.cuda.driver.gpu import Gpu
from abw.core.exec.cuda.driver.launch import widest_phase
from abw.core.exec.cuda.image import ITEM, Image
from abw.core.exec.cuda.ondevice.intrinsics import grid_barrier
from abw.core.exec.interface import TooLargeError
from tests.core.exec.cuda.fakedriver import FakeLibrary

cuda: Any = typed_cuda
THREADS = 32


def add(words, at, floats, weights):
    """A tile's floats grow by its weight, and by what the tile before had."""
    tile = cuda.blockIdx.x
    lane = tile * cuda.blockDim.x + cuda.threadIdx.x
    floats[words[at + 1] + lane] += weights[words[at + 4]]


def double(words, at, floats, weights):
    lane = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    floats[words[at + 1] + lane] *= weights[words[at + 4]]


def whole(words, floats, weights, counters):
    """The same, for all items; those of a phase in any order."""
    for p in range(words[0]):
        for i in range(words[4 + p], words[5 + p]):
            item = words[2] + ITEM * i
            tile = cuda.blockIdx.x
            while tile < words[item + 3]:
                lane = words[item + 1] + tile * cuda.blockDim.x + cuda.threadIdx.x
                if words[item] == 0:
                    floats[lane] += weights[words[item + 4]]
                else:
                    floats[lane] *= weights[words[item + 4]]
                tile += cuda.gridDim.x
        grid_barrier(counters, uint32(cuda.gridDim.x * (p + 1)))


KERNELS = Kernels((add, double), whole, THREADS, THREADS, 0, "text")


def image(phases: list[list[tuple[int, int, int, int]]]) -> Image:
    """Phases of items (kernel, first float, tiles, weight)."""
    items = [item for phase in phases for item in phase]
    ends = np.cumsum([0, *map(len, phases)])
    words = [len(phases), len(items), 4 + len(ends), 0, *ends]
    for phase in phases:
        before = 0
        for kernel, first, tiles, weight in phase:
            words += [kernel, first, before, tiles, weight]
            before += tiles
    return Image(np.array(words, np.uint32), 1000)


# floats 0:96 and 128:160 in phase one; what phase two doubles must be complete by then
PLAN = image([[(0, 0, 3, 0), (0, 128, 1, 1)], [(1, 0, 3, 2), (0, 128, 1, 0)], [(0, 0, 1, 1)]])
WEIGHTS = np.array([2.0, 3.0, 10.0], np.float32)


def expected(start: np.ndarray) -> np.ndarray:
    out = start.copy()
    out[:96] += 2
    out[128:160] += 3
    out[:96] *= 10
    out[128:160] += 2
    out[:32] += 3
    return out


def make(library: FakeLibrary) -> Gpu:
    made = Gpu(Device(Driver(library)))
    with patch.object(gpu, "compile_image", library.compile):
        made.load(KERNELS, WEIGHTS)
    return made


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("scheme", ["batch", "plan"])
def test_a_plan_is_launched_with_the_right_arguments(scheme: Any, seed: int | None) -> None:
    library = FakeLibrary(seed=seed)
    made = make(library)
    start = np.arange(200, dtype=np.float32)
    made.reserve(200, [(0, start[:150]), (150, start[150:])])
    made.run(PLAN, scheme)
    found = made.read(0, 200)
    assert library.failed is None
    assert (found == expected(start)).all()
    if scheme == "batch":
        assert [(name, tiles) for name, tiles, _, _ in library.launches] == [
            ("kernel0", 3), ("kernel0", 1), ("kernel1", 3), ("kernel0", 1), ("kernel0", 1)
        ]  # fmt: skip
        assert made.seconds() == pytest.approx(5e-3)
    else:
        assert library.launches == [("kernel2", 4, THREADS, True)]  # no more blocks than have work
        assert made.seconds() == pytest.approx(1e-3)


def test_floats_are_written_where_they_belong() -> None:
    library = FakeLibrary()
    made = make(library)
    made.reserve(200, [(0, np.zeros(200, np.float32))])
    made.write(50, np.arange(1, 11, dtype=np.float32))
    assert made.read(48, 14).tolist() == [0, 0, *range(1, 11), 0, 0]
    assert library.failed is None


def test_a_second_run_needs_no_new_memory_and_one_copy() -> None:
    library = FakeLibrary()
    made = make(library)
    made.reserve(200, [(0, np.zeros(200, np.float32))])
    made.run(PLAN, "plan")
    memory = set(library.device)
    library.copies.clear()
    made.reserve(200, [])
    for _ in range(3):
        made.run(PLAN, "plan")
    assert set(library.device) == memory
    assert library.copies == [("up", PLAN.words.nbytes)] * 3
    assert made.read(0, 1)[0] > 0


def test_no_more_blocks_than_are_resident() -> None:
    library = FakeLibrary(occupancy=1)
    made = make(library)
    made.reserve(2000, [(0, np.zeros(2000, np.float32))])
    made.run(image([[(0, 0, 50, 0)], [(1, 0, 50, 2)]]), "plan")
    assert library.failed is None
    assert library.launches == [("kernel2", 4, THREADS, True)]
    assert (made.read(0, 50 * THREADS) == 20).all()
    full = FakeLibrary(occupancy=0)
    with pytest.raises(AbwError, match="--scheme batch"):
        make(full).run(PLAN, "plan")


def test_a_kernel_that_fails_is_told() -> None:
    library = FakeLibrary()
    made = make(library)
    made.reserve(100, [])  # too small: the kernel reads beyond it
    with pytest.raises(CudaError, match=r"cuLaunchKernel failed: unspecified launch failure \(719\)"):
        made.run(PLAN, "batch")
    assert isinstance(library.failed, IndexError)
    assert len(library.launches) == 2  # and nothing after it


def test_memory_grows_with_room_to_spare_and_says_when_it_cannot() -> None:
    device = Device(Driver(library := FakeLibrary(memory=1000)))
    buffer = Buffer(device)
    assert buffer.reserve(400)
    assert buffer.size == 600
    assert not buffer.reserve(600)
    assert buffer.reserve(900)  # no room to spare
    assert buffer.size == 900
    with pytest.raises(TooLargeError, match="free on Simulated GPU"):
        buffer.reserve(1100)
    assert buffer.size == 900  # what there was is still there
    assert not buffer.reserve(800)
    del buffer
    assert not library.device


def test_loading_again_gives_back_what_was_there() -> None:
    library = FakeLibrary()
    made = make(library)
    with patch.object(gpu, "compile_image", library.compile):
        made.load(KERNELS, WEIGHTS * 2)
    assert len(library.modules) == len(library.functions) == 3
    start = np.zeros(200, np.float32)
    made.reserve(200, [(0, start)])
    made.run(PLAN, "batch")
    assert made.read(150, 1)[0] == 10


def test_copies_go_through_one_piece_of_host_memory() -> None:
    library = FakeLibrary()
    device = Device(Driver(library))
    staging, pointer = Staging(device), device.allocate(4000)
    for size in (10, 1000, 1):
        values = np.random.default_rng(size).normal(size=size).astype(np.float32)
        staging.upload(pointer, values)
        out = np.empty_like(values)
        staging.download(pointer, out)
        assert (out == values).all()
    assert len(library.host) == 1


def test_events_tell_time() -> None:
    library = FakeLibrary()
    device = Device(Driver(library))
    begin, end = Event(device), Event(device)
    begin.record()
    library.clock += 0.25
    end.record()
    assert end.since(begin) == pytest.approx(0.25)
    assert device.traits.name == "Simulated GPU"
    assert device.traits.arch == (9, 0)
    with pytest.raises(CudaError, match="cuDeviceGet"):
        Device(Driver(library), 1)


@pytest.mark.parametrize("seconds", [2e-4, 1e-3])
def test_the_same_again_is_timed_as_a_mean(seconds: float) -> None:
    library = FakeLibrary(seconds=seconds)
    made = make(library)
    made.reserve(200, [(0, np.zeros(200, np.float32))])
    made.run(PLAN, "plan")
    library.copies.clear()
    assert made.again(3) == pytest.approx(seconds)
    assert len(library.launches) == 4
    assert not library.copies
    assert made.read(0, 1)[0] == expected(expected(expected(expected(np.zeros(200, np.float32)))))[0]


def test_what_is_larger_than_a_piece_is_copied_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "PIECE", 100)
    library = FakeLibrary()
    on = Device(Driver(library))
    staging, pointer = Staging(on), on.allocate(4000)
    values = np.random.default_rng(0).normal(size=60).astype(np.float32)
    staging.upload(pointer, values)
    out = np.empty_like(values)
    staging.download(pointer, out)
    assert (out == values).all()
    assert library.copies == [(way, size) for way in ("up", "down") for size in (100, 100, 40)]
    assert [len(held) for held in library.host.values()] == [100]


def test_all_is_given_back() -> None:
    library = FakeLibrary()
    made = make(library)
    made.reserve(200, [(0, np.zeros(200, np.float32))])
    made.run(PLAN, "plan")
    assert library.device
    assert library.host
    assert library.modules
    del made
    assert not library.device
    assert not library.host
    assert not library.modules


def test_a_kernel_that_hangs_is_not_waited_for_for_ever() -> None:
    library = FakeLibrary()
    made = Gpu(Device(Driver(library), patience=0.02))
    with patch.object(gpu, "compile_image", library.compile):
        made.load(KERNELS, WEIGHTS)
    made.reserve(200, [(0, np.zeros(200, np.float32))])
    made.run(PLAN, "plan")
    library.hangs = True
    with pytest.raises(HungError, match="kernel hangs"):
        made.read(0, 1)
    held = set(library.device)
    begun = time.perf_counter()
    del made  # giving memory back would wait for the kernel
    assert time.perf_counter() - begun < 30
    assert set(library.device) == held


def test_ctrl_c_ends_the_wait_for_a_kernel_that_hangs() -> None:
    library = FakeLibrary()
    on = Device(Driver(library))
    library.hangs = True
    timer = threading.Timer(0.05, interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        on.synchronize()
    timer.join()


def test_a_failed_kernel_says_that_all_is_lost_and_gives_nothing_back() -> None:
    library = FakeLibrary()
    made = make(library)
    made.reserve(100, [])
    library.failed = ValueError("an address that is none")
    with pytest.raises(CudaError, match="719") as caught:
        made.read(0, 1)
    assert "report" in caught.value.hint
    held = set(library.device)
    del made
    assert set(library.device) == held


def test_widest_phase() -> None:
    assert widest_phase(PLAN.words) == 4
    assert widest_phase(image([[], [(0, 0, 7, 0)], []]).words) == 7
    assert widest_phase(image([]).words) == 0
