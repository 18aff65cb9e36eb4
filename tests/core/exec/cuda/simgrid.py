"""A simulator of CUDA grids: every thread of several blocks is a greenlet, one scheduler runs them all.

Unlike numba's own simulator it keeps several blocks alive at once, has shuffles and a barrier of the whole
grid, lets threads run in random order by a seed, finds deadlocks, divergent barriers, misaligned wide
accesses and data races, and does asynchronous copies as late as can be. It needs no environment variable: a
kernel is a Python function, or what `cuda.jit` made of one, and is run as a copy whose globals `cuda` and the
intrinsics are the simulated ones.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import numpy as np
from greenlet import getcurrent, greenlet
from numba import cuda as real_cuda
from numba.np.numpy_support import as_dtype
from numpy.typing import NDArray

from abw.core.exec.cuda.ondevice import intrinsics
from tests.core.exec.cuda.races import Clock, Races, barrier
from tests.core.exec.cuda.simtensor import Copies, Copy, multiply, split

WARP = 32
# So many rounds in which threads only poll are a deadlock: nobody is left who could change what they see.
IDLE_ROUNDS = 100


class SimulationError(AssertionError):
    """The kernel does what a device would not run, or would not run the same way each time."""


class DeadlockError(SimulationError):
    """No thread can go on."""


class DivergenceError(SimulationError):
    """Threads of one block wait at different barriers, or those of a warp at different instructions."""


class MisalignedError(SimulationError):
    """A wide access at an address that is no multiple of its size."""


@dataclass(frozen=True, slots=True)
class Dim:
    """threadIdx and its kin."""

    x: int
    y: int = 1
    z: int = 1


class Thread(greenlet):
    """One CUDA thread."""

    def __init__(self, run: Callable[[], None], grid: Grid, block: int, place: Dim, number: int) -> None:
        super().__init__(run)
        self.grid, self.block, self.place, self.number = grid, block, place, number
        self.warp = number // WARP
        self.clock = Clock(block, self.warp, block * grid.threads + number, {})
        self.copies = Copies()
        self.answer: Any = None


@dataclass(slots=True)
class Grid:
    """A launch under way: who waits where, the blocks' shared memory."""

    shape: Dim
    threads: int
    dynamic: int
    races: Races | None
    live: dict[int, list[Thread]] = field(default_factory=dict)
    shared: dict[tuple[int, Any], NDArray[Any]] = field(default_factory=dict)
    blocks: list[tuple[int, int]] = field(default_factory=list)


class Memory:
    """An array as threads see it: every access is checked."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array
        self.first = array.__array_interface__["data"][0]

    def __getitem__(self, index: Any) -> Any:
        value = self.array[index]
        thread = _me()
        if thread.grid.races is not None:
            thread.grid.races.read(self.address(index), thread.clock)
        return value

    def __setitem__(self, index: Any, value: Any) -> None:
        self.array[index] = value
        thread = _me()
        if thread.grid.races is not None:
            thread.grid.races.write(self.address(index), thread.clock)

    def __len__(self) -> int:
        return len(self.array)

    @property
    def size(self) -> int:
        return self.array.size

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def address(self, index: Any) -> int:
        places = index if isinstance(index, tuple) else (index,)
        if any(int(i) < 0 for i in places):
            raise SimulationError(f"index {index}")
        return int(self.first + sum(int(i) * s for i, s in zip(places, self.array.strides, strict=True)))


def launch(
    kernel: Any,
    grid: int | tuple[int, int],
    threads: int,
    args: Sequence[Any],
    *,
    shared: int = 0,
    seed: int | None = None,
    resident: int = 16,
    races: bool = True,
) -> None:
    """Run a kernel; arrays in `args` are changed in place.

    `grid`: blocks along x, or along x and y. `shared`: bytes of dynamic shared memory, which a shared array
    of no elements has. `seed`: lets threads go on in random order, some of them in each
    round; None: all, in order. `resident`: blocks that run at once, as a device has room for; the next one
    starts when one ends. `races`: look for data races (costs about as much again). Raises SimulationError,
    races.RaceError, and IndexError.
    """
    if threads > 1024:
        raise SimulationError(f"{threads} threads a block; 1024 are the most")
    shape = Dim(*grid) if isinstance(grid, tuple) else Dim(grid)
    running = Grid(shape, threads, shared, Races() if races else None)
    running.blocks = [(x, y) for y in range(shape.y) for x in range(shape.x)]
    function = _simulated(kernel, {})
    seen = [Memory(a) if isinstance(a, np.ndarray) else a for a in args]

    def thread() -> None:
        # a greenlet does not see the settings around the scheduler
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            function(*seen)
        if _me().copies.under_way:
            raise SimulationError("a thread ends before its copies do")

    _run(thread, running, resident, None if seed is None else random.Random(seed))


def _run(body: Callable[[], None], grid: Grid, resident: int, order: random.Random | None) -> None:
    """Let every thread go on until it waits; free those whose barrier is full; until all are done."""
    waiting: dict[tuple[Any, ...], list[tuple[Thread, Any]]] = {}
    ready: list[Thread] = []
    begun = idle = 0
    while True:
        while begun < len(grid.blocks) and len(grid.live) < resident:
            x, y = grid.blocks[begun]
            block = [Thread(body, grid, begun, Dim(x, y), number) for number in range(grid.threads)]
            grid.live[begun] = block
            ready += block
            begun += 1
        if not grid.live:
            return
        again: list[Thread] = []
        if order is not None:
            order.shuffle(ready)
            some = order.randint(1, len(ready))  # the rest has to wait: blocks and warps run apart
            ready, again = ready[:some], ready[some:]
        moved = False
        for thread in ready:
            found = thread.switch() if thread.answer is None else thread.switch(thread.answer)
            thread.answer = None
            if thread.dead:
                moved = True
                grid.live[thread.block].remove(thread)
                if not grid.live[thread.block]:
                    del grid.live[thread.block]
            elif found[0] == "spin":
                again.append(thread)
            else:
                moved = True
                kind, value = found
                key = (kind, thread.block) if kind == "block" else (kind, thread.block, thread.warp)
                waiting.setdefault(key, []).append((thread, value))
        ready = again + _freed(waiting, grid)
        idle = 0 if moved else idle + 1
        if (grid.live and not ready) or idle > IDLE_ROUNDS:
            raise DeadlockError(
                f"{sum(map(len, grid.live.values()))} threads wait: {sorted({k[0] for k in waiting})}"
            )


def _freed(waiting: dict[tuple[Any, ...], list[tuple[Thread, Any]]], grid: Grid) -> list[Thread]:
    """The threads whose barrier or warp is complete, with what they are to learn from the others."""
    freed: list[Thread] = []
    for key, group in list(waiting.items()):
        live = grid.live.get(key[1], [])
        expected = len(live) if key[0] == "block" else sum(t.warp == key[2] for t in live)
        if len(group) < expected:
            continue
        del waiting[key]
        places = {place for _, (place, _) in group}
        if len(places) > 1:
            raise DivergenceError(f"threads of {key[0]} {key[-1]} wait at {len(places)} places")
        answers = {thread.number % WARP: value for thread, (_, value) in group}
        if key[0] == "block":
            barrier([thread.clock for thread, _ in group])
        for thread, (_, value) in group:
            thread.answer = answers
            if key[0] == "warp" and value is None:
                thread.clock.warp_epoch += 1
            freed.append(thread)
    return freed


def _me() -> Thread:
    thread = getcurrent()
    assert isinstance(thread, Thread), "this runs only inside a simulated kernel"
    return thread


def _wait(kind: str, value: Any = None, depth: int = 2) -> Any:
    """Wait with others for whom the same line of the kernel waits, `depth` calls up; what each one gave."""
    parent = getcurrent().parent
    assert parent is not None
    frame = sys._getframe(depth)
    return parent.switch((kind, ((frame.f_code, frame.f_lasti), value)))


# ---- numba.cuda as a kernel sees it


class _SharedMemory:
    """One array for each block and place in the text."""

    @staticmethod
    def array(shape: Any, dtype: Any) -> Memory:
        frame = sys._getframe(1)
        grid = _me().grid
        # arrays of dynamic memory are all the same one
        key = _me().block, (frame.f_code, frame.f_lasti) if shape else None
        if key not in grid.shared:
            size = np.dtype(as_dtype(dtype)).itemsize
            made = np.empty(shape or grid.dynamic // size, as_dtype(dtype))
            made.view(np.uint8)[...] = 0xFF  # NaN, and integers that are no index: what was there before
            grid.shared[key] = made
        return Memory(grid.shared[key])


class _LocalMemory:
    @staticmethod
    def array(shape: Any, dtype: Any) -> NDArray[Any]:
        made = np.empty(shape, as_dtype(dtype))
        made.view(np.uint8)[...] = 0xFF
        return made


class _Cuda:
    """The part of numba.cuda that kernels use; anything else is an AttributeError."""

    shared = _SharedMemory()
    local = _LocalMemory()

    @property
    def threadIdx(self) -> Dim:  # noqa: N802
        return Dim(_me().number, 0, 0)

    @property
    def blockIdx(self) -> Dim:  # noqa: N802
        return _me().place

    @property
    def blockDim(self) -> Dim:  # noqa: N802
        return Dim(_me().grid.threads)

    @property
    def gridDim(self) -> Dim:  # noqa: N802
        return _me().grid.shape

    @property
    def laneid(self) -> int:
        return _me().number % WARP

    @staticmethod
    def syncthreads() -> None:
        _wait("block")

    @staticmethod
    def syncwarp(mask: int = 0xFFFFFFFF) -> None:
        _full(mask)
        _wait("warp")

    @staticmethod
    def shfl_sync(mask: int, value: Any, lane: Any) -> Any:
        return _shuffle(mask, value, int(lane) % WARP)

    @staticmethod
    def shfl_xor_sync(mask: int, value: Any, lanes: Any) -> Any:
        return _shuffle(mask, value, _me().number % WARP ^ int(lanes))

    @staticmethod
    def shfl_down_sync(mask: int, value: Any, lanes: Any) -> Any:
        lane = _me().number % WARP
        return _shuffle(mask, value, lane + int(lanes) if lane + int(lanes) < WARP else lane)

    @staticmethod
    def shfl_up_sync(mask: int, value: Any, lanes: Any) -> Any:
        lane = _me().number % WARP
        return _shuffle(mask, value, lane - int(lanes) if lane >= int(lanes) else lane)

    @staticmethod
    def fma(a: Any, b: Any, c: Any) -> Any:
        return np.float32(np.float64(a) * np.float64(b) + np.float64(c))


def _full(mask: int) -> None:
    if mask & 0xFFFFFFFF != 0xFFFFFFFF:
        raise SimulationError("only whole warps take part in a warp's operations here")


def _shuffle(mask: int, value: Any, source: int) -> Any:
    _full(mask)
    values = _wait("warp", (value,), 3)
    if source not in values:
        raise SimulationError(f"lane {source} of the warp is gone, or never was")
    return values[source][0]


# ---- the intrinsics


def _wide(memory: Memory, index: Any, floats: int = 4) -> int:
    if memory.address(index) % (4 * floats):
        raise MisalignedError(f"{4 * floats} bytes at element {index}")
    return int(index)


def _ld2(memory: Memory, index: Any) -> tuple[Any, ...]:
    i = _wide(memory, index, 2)
    return memory[i], memory[i + 1]


def _ld4(memory: Memory, index: Any) -> tuple[Any, ...]:
    i = _wide(memory, index)
    return tuple(memory[i + k] for k in range(4))


def _st4(memory: Memory, index: Any, a: Any, b: Any, c: Any, d: Any) -> None:
    i = _wide(memory, index)
    for k, value in enumerate((a, b, c, d)):
        memory[i + k] = value


def _copy4(target: Memory, place: Any, source: Memory, index: Any, floats: Any) -> None:
    if not 0 <= floats <= 4:
        raise SimulationError(f"a copy of {floats} floats")
    _me().copies.begin(Copy(target, _wide(target, place), source, _wide(source, index), int(floats)))


def _split(x: Any) -> tuple[Any, Any]:
    large, rest = split(np.array([x], np.float32))
    return large[0], rest[0]


def _halves(x: Any) -> tuple[Any, Any]:
    near, power = np.frexp(np.float32(x))
    lower = near < np.sqrt(np.float32(0.5))
    return (near * np.float32(2), np.float32(power - 1)) if lower else (near, np.float32(power))


def _mma(*operands: Any) -> tuple[Any, ...]:
    answers = _wait("warp", operands)
    if "product" not in answers:
        if len(answers) < WARP:
            raise SimulationError("only whole warps multiply on tensor cores")
        try:
            answers["product"] = multiply(answers)
        except ValueError as error:
            raise SimulationError(str(error)) from None
    return tuple(answers["product"][_me().number % WARP])


def _red_release(memory: Memory, index: Any, value: Any) -> None:
    thread = _me()
    if thread.grid.races is not None:
        thread.grid.races.release(memory.address(index), thread.clock)
    memory.array[index] += value


def _ld_acquire(memory: Memory, index: Any) -> Any:
    thread = _me()
    if thread.grid.races is not None:
        thread.grid.races.acquire(memory.address(index), thread.clock)
    value = memory.array[index]
    # the others go on after the load, not before: what it returns is as old as can be
    _wait("spin")
    return value


def _ex2(x: Any) -> Any:
    return np.exp2(np.float32(x))


def _rcp(x: Any) -> Any:
    return np.float32(1) / np.float32(x)


_MEANING: dict[str, Callable[..., Any]] = {
    "ld2": _ld2,
    "ld4": _ld4,
    "st4": _st4,
    "ex2": _ex2,
    "rcp": _rcp,
    "sqrt": lambda x: np.sqrt(np.float32(x)),
    "halves": _halves,
    "copy4": _copy4,
    "end_copies": lambda: _me().copies.group(),
    "few_copies_left": lambda: _me().copies.wait(1),
    "split": _split,
    "mma": _mma,
    "red_release": _red_release,
    "ld_acquire": _ld_acquire,
}
# ids of modules and functions that live as long as the process
_REPLACED = {id(real_cuda): _Cuda()} | {id(getattr(intrinsics, name)): f for name, f in _MEANING.items()}


def _simulated(value: Any, done: dict[int, Any]) -> Any:
    """A value as the simulation wants it: functions as copies that see simulated globals and closures."""
    if id(value) in _REPLACED:
        return _REPLACED[id(value)]
    function = getattr(value, "py_func", value)
    if not isinstance(function, FunctionType) or (
        function is value and function.__module__.split(".")[0] in ("numpy", "numba", "math")
    ):
        return value
    if id(function) not in done:
        names = {**function.__globals__}
        copy = done[id(function)] = FunctionType(
            function.__code__,
            names,
            function.__name__,
            function.__defaults__,
            tuple(_cell(c.cell_contents, done) for c in function.__closure__ or ()) or None,
        )
        for name in function.__code__.co_names:
            if name in names:
                names[name] = _simulated(names[name], done)
        return copy
    return done[id(function)]


def _cell(value: Any, done: dict[int, Any]) -> Any:
    inner = _simulated(value, done)
    return (lambda: inner).__closure__[0]  # type: ignore[index]
