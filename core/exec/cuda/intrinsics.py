"""What kernels need beyond numba.cuda's own vocabulary, as PTX: wide memory accesses, ex2 and rcp, a barrier.

The same text compiles with numba's built-in CUDA target and with the package numba-cuda, which replaces it on
import where it is installed. Arrays are one-dimensional and contiguous, indices unsigned.

The barrier between all blocks of a launch is a counter in device memory: a release by each block, then an
acquire that polls. The PTX memory model makes what a block wrote before it visible to every block after it
(PTX ISA, Memory Consistency Model: release and acquire patterns, causality order). It costs one round trip
to L2, and unlike cooperative groups it links no device runtime.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from llvmlite import ir
from numba import cuda as _cuda

cuda: Any = _cuda

# numba-cuda has copies of its own of numba's compiler
_compiler = "numba.cuda" if cuda.implementation == "NVIDIA" else "numba.core"
types: Any = import_module(f"{_compiler}.types")
intrinsic: Any = import_module(f"{_compiler}.extending").intrinsic
signature: Any = import_module(f"{_compiler}.typing").signature

_FLOAT, _INT, _LONG, _VOID = ir.FloatType(), ir.IntType(32), ir.IntType(64), ir.VoidType()
_FOUR = ir.VectorType(_FLOAT, 4)

Builder = Any
Made = tuple[Any, Callable[..., Any]]


def _element(context: Any, builder: Builder, array_type: Any, array: Any, index: Any) -> Any:
    """The address of an array's element; 32-bit indices are unsigned."""
    data = context.make_array(array_type)(context, builder, array).data
    wide = builder.zext(index, _LONG) if index.type.width < 64 else index
    return builder.gep(data, [wide])


def _asm(builder: Builder, text: str, constraints: str, result: Any, arguments: list[Any]) -> Any:
    """An instruction that touches memory: never moved across another one that does, never dropped."""
    function = ir.FunctionType(result, [a.type for a in arguments])
    return builder.call(
        ir.InlineAsm(function, text, f"{constraints},~{{memory}}", side_effect=True), arguments
    )


@intrinsic
def ld4(typingctx: Any, array: Any, index: Any) -> Made:
    """Four consecutive floats, in one load of 16 bytes; `index` a multiple of 4."""

    def generate(context: Any, builder: Builder, sig: Any, args: Any) -> Any:
        address = _element(context, builder, sig.args[0], *args)
        four = builder.load(builder.bitcast(address, _FOUR.as_pointer(address.type.addrspace)))
        four.align = 16
        parts = [builder.extract_element(four, ir.Constant(_INT, k)) for k in range(4)]
        return context.make_tuple(builder, sig.return_type, parts)

    return signature(types.UniTuple(types.float32, 4), array, index), generate


@intrinsic
def ld4_cg(typingctx: Any, array: Any, index: Any) -> Made:
    """Like `ld4`, from global memory through L2 alone: what other blocks wrote in the same launch."""

    def generate(context: Any, builder: Builder, sig: Any, args: Any) -> Any:
        address = builder.ptrtoint(_element(context, builder, sig.args[0], *args), _LONG)
        text, constraints = "ld.global.cg.v4.f32 {$0,$1,$2,$3}, [$4];", "=f,=f,=f,=f,l"
        four = _asm(builder, text, constraints, ir.LiteralStructType([_FLOAT] * 4), [address])
        parts = [builder.extract_value(four, k) for k in range(4)]
        return context.make_tuple(builder, sig.return_type, parts)

    return signature(types.UniTuple(types.float32, 4), array, index), generate


@intrinsic
def st4(typingctx: Any, array: Any, index: Any, a: Any, b: Any, c: Any, d: Any) -> Made:
    """Store four consecutive floats at once; `index` a multiple of 4."""

    def generate(context: Any, builder: Builder, sig: Any, args: Any) -> Any:
        address = _element(context, builder, sig.args[0], *args[:2])
        four = ir.Constant(_FOUR, ir.Undefined)
        for k, value in enumerate(args[2:]):
            four = builder.insert_element(four, value, ir.Constant(_INT, k))
        builder.store(four, builder.bitcast(address, _FOUR.as_pointer(address.type.addrspace))).align = 16
        return context.get_dummy_value()

    return signature(types.void, array, index, *[types.float32] * 4), generate


def _unary(text: str, doc: str) -> Callable[..., Any]:
    """A float32 function that is one instruction."""

    def make(typingctx: Any, x: Any) -> Made:
        def generate(context: Any, builder: Builder, sig: Any, args: Any) -> Any:
            return builder.call(ir.InlineAsm(ir.FunctionType(_FLOAT, [_FLOAT]), text, "=f,f"), args)

        return signature(types.float32, types.float32), generate

    make.__doc__ = doc
    made: Callable[..., Any] = intrinsic(make)
    return made


ex2 = _unary(
    "ex2.approx.ftz.f32 $0, $1;", "2 to the power of x; relative error under 2**-22, inf and 0 at the ends."
)
rcp = _unary("rcp.approx.ftz.f32 $0, $1;", "1 / x; relative error under 2**-23; 0 for inf, inf for 0.")


@intrinsic
def red_release(typingctx: Any, array: Any, index: Any, value: Any) -> Made:
    """Add to a uint32 in global memory, after all that this thread wrote or saw written."""

    def generate(context: Any, builder: Builder, sig: Any, args: Any) -> Any:
        address = builder.ptrtoint(_element(context, builder, sig.args[0], *args[:2]), _LONG)
        _asm(builder, "red.release.gpu.global.add.u32 [$0], $1;", "l,r", _VOID, [address, args[2]])
        return context.get_dummy_value()

    return signature(types.void, array, index, types.uint32), generate


@intrinsic
def ld_acquire(typingctx: Any, array: Any, index: Any) -> Made:
    """Load a uint32 from global memory, before all that this thread reads later."""

    def generate(context: Any, builder: Builder, sig: Any, args: Any) -> Any:
        address = builder.ptrtoint(_element(context, builder, sig.args[0], *args), _LONG)
        return _asm(builder, "ld.acquire.gpu.global.u32 $0, [$1];", "=r,l", _INT, [address])

    return signature(types.uint32, array, index), generate


uint32 = types.uint32


@cuda.jit(device=True)
def grid_barrier(counter: Any, arrivals: Any) -> None:
    """Wait until every block of the launch has come here.

    `counter` (1,) uint32 is zero at the launch; `arrivals`: blocks of the launch times the number of barriers
    so far, this one counted. All threads of all blocks must call it, and all blocks must be resident at once:
    else it waits for ever.
    """
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        red_release(counter, uint32(0), uint32(1))
        while ld_acquire(counter, uint32(0)) < arrivals:
            pass
    cuda.syncthreads()
