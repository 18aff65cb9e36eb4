"""A network's kernels as one module of LLVM IR, compiled, and its packed constants."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.cpu.llvm.attention import emit_attention
from abw.core.exec.cpu.llvm.attention_gradient import emit_attention_gradient
from abw.core.exec.cpu.llvm.clock import emit_clock
from abw.core.exec.cpu.llvm.compiled import Code, compile_ir
from abw.core.exec.cpu.llvm.emit import Module, function_text
from abw.core.exec.cpu.llvm.kernel import emit_cell, emit_fill
from abw.core.exec.cpu.llvm.reduction import emit_collect, emit_reduction
from abw.core.exec.cpu.llvm.walker import emit_walker
from abw.core.exec.cpu.quantized import Narrow
from abw.core.exec.cpu.repack import Packing, packing_of
from abw.core.exec.cpu.target import Target
from abw.core.exec.cpu.tiling import CellTiling, layout_of, packed_constants
from abw.core.exec.memory import aligned
from abw.core.exec.params import Params
from abw.core.graph.group import structure
from abw.core.ir.model import Attention, AttentionGradient
from abw.core.ir.network import Network
from abw.core.jit.pointers import Table
from abw.core.plan.arenas import arenas_of

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class NetworkKernels:
    """A network's machine code: `names` of the types' kernels and their `layouts`, None for reductions."""

    code: Code
    names: list[str]
    layouts: list[CellTiling | None]

    @property
    def addresses(self) -> NDArray[np.int64]:
        """Where each type's kernel begins."""
        return np.array([self.code.address(name) for name in self.names], np.int64)


def compile_network(
    network: Network, target: Target, narrow: Narrow | None, *, stamped: bool = False
) -> NetworkKernels:
    """Compile a network's kernels and the walker, or find them on disk; stamped ones tell their time."""
    text, names, layouts = emit_network(network, target, narrow, stamped=stamped)
    return NetworkKernels(compile_ir(text, target), names, layouts)


def kernel_texts(network: Network, target: Target, narrow: Narrow | None) -> Mapping[str, str]:
    """Each type's kernel as LLVM IR; what all share (fills, lists collected, the walker) is left out."""
    text, names, _ = emit_network(network, target, narrow)
    return {t.name: function_text(text, n) for t, n in zip(network.types, names, strict=True)}


def emit_network(
    network: Network, target: Target, narrow: Narrow | None, *, stamped: bool = False
) -> tuple[str, list[str], list[CellTiling | None]]:
    """The network's module, and each type's kernel and layout; equal types share a kernel."""
    arenas, module = arenas_of(network), Module(target)
    emit_fill(module)
    if stamped:
        emit_clock(module)
    collectors: set[str] = set()
    made: dict[Hashable, tuple[str, CellTiling | None]] = {}
    found = []
    for net_type, normal in zip(network.types, arenas.cells, strict=True):
        key = structure(net_type)
        if key not in made:
            name, layout = f"kernel{len(made)}", None
            if normal is not None:
                layout = layout_of(normal, target, tuple(s.reduction for s in net_type.slots), narrow)
                for place in filter(None, layout.lists):
                    if place.collector not in collectors:
                        collectors.add(place.collector)
                        emit_collect(module, place)
                emit_cell(module, name, layout, stamped=stamped)
            elif isinstance(net_type.reduction, Attention):
                emit_attention(module, name, net_type.reduction, tuple(s.shape for s in net_type.slots))
            elif isinstance(net_type.reduction, AttentionGradient):
                emit_attention_gradient(
                    module, name, net_type.reduction, tuple(s.shape for s in net_type.slots)
                )
            elif net_type.reduction is not None:
                emit_reduction(module, name, net_type.reduction, tuple(s.shape for s in net_type.slots))
            made[key] = name, layout
        found.append(made[key])
    emit_walker(module, arenas.slot_arena.shape[1], network.width, stamped=stamped)
    return module.text(), [name for name, _ in found], [layout for _, layout in found]


class PackedConstants:
    """What no lane changes of each type's cell, packed for its kernel: weights, biases, rows of constants."""

    def __init__(self, network: Network, layouts: list[CellTiling | None], params: Params) -> None:
        """Pack them."""
        self._network, self._layouts = network, layouts
        self._packings: list[Packing | None] | None = None
        self.table = Table(np.zeros(len(layouts), np.int64))
        self.update(params)

    @property
    def nbytes(self) -> int:
        """The bytes of all types."""
        return sum(memory.nbytes for memory in self.memory)

    def update(self, params: Params) -> None:
        """Pack other parameters, in memory of their own."""
        self.params = params
        self.memory = [
            aligned(0) if layout is None else packed_constants(layout, self._values(t))
            for t, layout in enumerate(self._layouts)
        ]
        for t, packed in enumerate(self.memory):
            self.table.point(t, packed)

    def refresh(self, theta: Floats, share: Callable[[Callable[[int, int], object], int, str], None]) -> None:
        """Pack the parameters again, which were changed in place: all in one vector, by numbers found once.

        `share(work, amount, kind)` calls `work(part, parts)` for all parts (see `Executor.share`).
        """
        if self._packings is None:
            ends = np.cumsum([0, *(value.size for value in self.params.values)]).tolist()
            self._packings = []
            for t, layout in enumerate(self._layouts):
                begins = [ends[i] for i in self._network.types[t].params]
                gathered = layout if layout and layout.narrow is None else None
                self._packings.append(packing_of(gathered, self._values(t), begins) if gathered else None)
        packed = [(p, memory) for p, memory in zip(self._packings, self.memory, strict=True) if p]

        def gather(part: int, parts: int) -> None:
            for packing, memory in packed:
                packing.gather(theta, memory, part, parts)

        share(gather, sum(memory.size for _, memory in packed), "pack")
        for packing, memory in packed:
            packing.finish(theta, memory)
        for t, layout in enumerate(self._layouts):
            if layout is not None and self._packings[t] is None:
                self.memory[t][:] = packed_constants(layout, self._values(t))

    def _values(self, t: int) -> list[Floats]:
        return [self.params.values[i] for i in self._network.types[t].params]
