"""What kernels need beyond numba.cuda's own vocabulary, as PTX: wide and asynchronous memory accesses, ex2
and rcp, products on tensor cores, a barrier.

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

from abw.core.exec.lower.polynomials import ROOT_HALF_BITS

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
    touched = f"{constraints},~{{memory}}".lstrip(",")
    return builder.call(ir.InlineAsm(function, text, touched, side_effect=True), arguments)


def _wide(count: int, doc: str) -> Callable[..., Any]:
    """A load of so many consecutive floats at once."""
    several = ir.VectorType(_FLOAT, count)

    def make(typingctx: Any, array: Any, index: Any) -> Made:
        def generate(context: Any, builder: Builder, sig: Any, args: Any) -> Any:
            address = _element(context, builder, sig.args[0], *args)
            loaded = builder.load(builder.bitcast(address, several.as_pointer(address.type.addrspace)))
            loaded.align = 4 * count
            parts = [builder.extract_element(loaded, ir.Constant(_INT, k)) for k in range(count)]
            return context.make_tuple(builder, sig.return_type, parts)

        return signature(types.UniTuple(types.float32, count), array, index), generate

    make.__doc__ = doc
    made: Callable[..., Any] = intrinsic(make)
    return made


ld2 = _wide(2, "Two consecutive floats, in one load of 8 bytes; `index` a multiple of 2.")
ld4 = _wide(4, "Four consecutive floats, in one load of 16 bytes; `index` a multiple of 4.")


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
sqrt = _unary("sqrt.rn.f32 $0, $1;", "The square root, rounded to the nearest.")
rcp = _unary("rcp.approx.ftz.f32 $0, $1;", "1 / x; relative error under 2**-23; 0 for inf, inf for 0.")


@intrinsic
def copy4(typingctx: Any, target: Any, place: Any, source: Any, index: Any, floats: Any) -> Made:
    """Begin to copy so many floats (0 to 4) from global to shared memory, and zeros after them, four in all.

    `place` and `index` are multiples of 4. The source is read through L2 alone, and not beyond these floats.
    What was there before is gone at once; who reads the target has to wait (`few_copies_left`), and other
    threads for a barrier after that. Needs compute capability 8.0.
    """

    def generate(context: Any, builder: Builder, sig: Any, args: Any) -> Any:
        shared = _element(context, builder, sig.args[0], *args[:2])
        addresses = [
            # an address within shared memory has 32 bits
            builder.ptrtoint(builder.addrspacecast(shared, shared.type.pointee.as_pointer(3)), _INT),
            builder.ptrtoint(_element(context, builder, sig.args[2], *args[2:4]), _LONG),
        ]
        size = builder.shl(args[4], ir.Constant(_INT, 2))
        _asm(builder, "cp.async.cg.shared.global [$0], [$1], 16, $2;", "r,l,r", _VOID, [*addresses, size])
        return context.get_dummy_value()

    return signature(types.void, target, place, source, index, types.uint32), generate


def _of_copies(text: str, doc: str) -> Callable[..., Any]:
    """A word about this thread's copies."""

    def make(typingctx: Any) -> Made:
        def generate(context: Any, builder: Builder, sig: Any, args: Any) -> Any:
            _asm(builder, text, "", _VOID, [])
            return context.get_dummy_value()

        return signature(types.void), generate

    make.__doc__ = doc
    made: Callable[..., Any] = intrinsic(make)
    return made


end_copies = _of_copies(
    "cp.async.commit_group;", "The copies begun since the last call, if any, are a group from now on."
)
few_copies_left = _of_copies(
    "cp.async.wait_group 1;", "Wait until this thread's groups of copies are done, all but the latest."
)


@intrinsic
def split(typingctx: Any, x: Any) -> Made:
    """A float as the sum of two of TF32 (mantissas of 10 bits), the larger one first; a 2**23rd may be lost.

    What is not a number stays so; infinity becomes it. In plain instructions, half as many as two `cvt.rna`
    take: the larger one is rounded (to the nearest, ties away from 0), what is left cut off.
    """

    def generate(context: Any, builder: Builder, sig: Any, args: Any) -> Any:
        half, kept = ir.Constant(_INT, 1 << 12), ir.Constant(_INT, -1 << 13)
        bits = builder.bitcast(args[0], _INT)
        large = builder.bitcast(builder.and_(builder.add(bits, half), kept), _FLOAT)
        rest = builder.bitcast(builder.fsub(args[0], large), _INT)
        return context.make_tuple(
            builder, sig.return_type, [large, builder.bitcast(builder.and_(rest, kept), _FLOAT)]
        )

    return signature(types.UniTuple(types.float32, 2), types.float32), generate


@intrinsic
def halves(typingctx: Any, x: Any) -> Made:
    """(m, n) of a normal x = m 2^n above 0: m from root(1/2) to root(2)."""

    def generate(context: Any, builder: Builder, sig: Any, args: Any) -> Any:
        bits, places = builder.bitcast(args[0], _INT), ir.Constant(_INT, 23)
        power = builder.ashr(builder.sub(bits, ir.Constant(_INT, ROOT_HALF_BITS)), places)
        near = builder.bitcast(builder.sub(bits, builder.shl(power, places)), _FLOAT)
        return context.make_tuple(builder, sig.return_type, [near, builder.sitofp(power, _FLOAT)])

    return signature(types.UniTuple(types.float32, 2), types.float32), generate


@intrinsic
def mma(
    typingctx: Any, a0: Any, a1: Any, a2: Any, a3: Any, b0: Any, b1: Any, c0: Any, c1: Any, c2: Any, c3: Any
) -> Made:
    """A (16, 8) times B (8, 8) plus C (16, 8) on a tensor core: this thread's part of what its warp computes.

    All 32 threads must come. A and B are of TF32. Thread 4 g + t has rows g and g + 8 of A and C, column g of
    B: A[g, t], A[g + 8, t], A[g, t + 4], A[g + 8, t + 4]; B[t, g], B[t + 4, g]; C[g, 2 t], C[g, 2 t + 1],
    C[g + 8, 2 t], C[g + 8, 2 t + 1], and so of the result (PTX ISA, matrix fragments for mma.m16n8k8). Sums
    are float32, but cut off, not rounded (Fasi et al., Numerical behavior of NVIDIA tensor cores, 2021).
    Needs compute capability 8.0.
    """

    def generate(context: Any, builder: Builder, sig: Any, args: Any) -> Any:
        arguments = [builder.bitcast(value, _INT) for value in args[:6]] + list(args[6:])
        function = ir.FunctionType(ir.LiteralStructType([_FLOAT] * 4), [a.type for a in arguments])
        text = (
            "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
            "{$0,$1,$2,$3}, {$4,$5,$6,$7}, {$8,$9}, {$10,$11,$12,$13};"
        )
        # with a side effect, lest it be moved to where not all threads come
        called = ir.InlineAsm(function, text, "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f", side_effect=True)
        four = builder.call(called, arguments)
        parts = [builder.extract_value(four, k) for k in range(4)]
        return context.make_tuple(builder, sig.return_type, parts)

    return signature(types.UniTuple(types.float32, 4), *[types.float32] * 10), generate


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
def arrive(counter: Any, place: Any) -> None:
    """One more block is there, with all that its threads did before they last met (`syncthreads`)."""
    if cuda.threadIdx.x == 0:
        red_release(counter, uint32(place), uint32(1))


@cuda.jit(device=True)
def await_blocks(counter: Any, place: Any, arrivals: Any) -> None:
    """Wait in one thread until so many blocks are there; the others learn it when they next meet."""
    if cuda.threadIdx.x == 0:
        while ld_acquire(counter, uint32(place)) < arrivals:
            pass


@cuda.jit(device=True)
def grid_barrier(counter: Any, arrivals: Any) -> None:
    """Wait until every block of the launch has come here.

    `counter` (1,) uint32 is zero at the launch; `arrivals`: blocks of the launch times the number of barriers
    so far, this one counted. All threads of all blocks must call it, and all blocks must be resident at once:
    else it waits for ever.
    """
    cuda.syncthreads()
    arrive(counter, uint32(0))
    await_blocks(counter, uint32(0), arrivals)
    cuda.syncthreads()
