"""Memory and machine code by their addresses, for compiled functions alone.

Whoever writes an address where a compiled function reads it keeps what lies there.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

WORD = ir.IntType(64)


def _call(context: Any, function: Any, arguments: Any) -> Any:  # noqa: ANN401 (numba's)
    """`call(function, (a, b, …))`: call the C function at an address with 64-bit integers and addresses.

    It must return nothing. Cost: 2 ns.
    """

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:  # noqa: ANN401
        kind = ir.FunctionType(ir.VoidType(), [WORD] * len(arguments))
        numbers = [builder.extract_value(given[1], n) for n in range(len(arguments))]
        builder.call(builder.inttoptr(given[0], kind.as_pointer()), numbers)
        return context.get_dummy_value()

    given = types.UniTuple(types.int64, len(arguments))  # type: ignore[no-untyped-call]
    return types.void(types.int64, given), generate


def _ask(context: Any, function: Any, argument: Any) -> Any:  # noqa: ANN401 (numba's)
    """`ask(function, word)`: call the compiled function at an address (`decorators.address_of_code`), which
    takes a 64-bit integer, and return the one that it gives.

    It must raise nothing. Cost: 2 ns.
    """

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:  # noqa: ANN401
        pointer = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.IntType(32), [WORD.as_pointer(), pointer.as_pointer(), WORD])
        found, raised = (cgutils.alloca_once(builder, what) for what in (WORD, pointer))  # type: ignore[no-untyped-call]
        builder.call(builder.inttoptr(given[0], kind.as_pointer()), [found, raised, given[1]])
        return builder.load(found)

    return types.int64(types.int64, types.int64), generate


def _address_of(context: Any, array: Any) -> Any:  # noqa: ANN401 (numba's)
    """`address_of(array)`: where an array lies that the function was given."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:  # noqa: ANN401
        data = context.make_array(array)(context, builder, given[0]).data
        return builder.ptrtoint(data, WORD)

    return types.int64(array), generate


def _arrays_of(kind: Any, *, readonly: bool = False) -> Any:  # noqa: ANN401 (numba's)
    """`array_at(address, length)`: the array of so many elements of a kind at an address."""

    @intrinsic
    def array_at(context: Any, address: Any, length: Any) -> Any:  # noqa: ANN401
        def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:  # noqa: ANN401
            return _array(context, builder, kind, *given)

        return types.Array(kind, 1, "C", readonly=readonly)(types.int64, types.int64), generate

    return array_at


def _tables_of(kind: Any) -> Any:  # noqa: ANN401 (numba's)
    """`table_at(address, rows, columns)`: the array (rows, columns) of elements of a kind at an address."""

    @intrinsic
    def table_at(context: Any, address: Any, rows: Any, columns: Any) -> Any:  # noqa: ANN401
        def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:  # noqa: ANN401
            return _shaped(context, builder, kind, given[0], given[1:])

        return types.Array(kind, 2, "C")(types.int64, types.int64, types.int64), generate

    return table_at


def _int_cube(context: Any, address: Any, tables: Any, rows: Any, columns: Any) -> Any:  # noqa: ANN401
    """`int_cube(address, tables, rows, columns)`: an array of 32-bit integers with three axes."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:  # noqa: ANN401
        return _shaped(context, builder, types.int32, given[0], given[1:])

    return types.Array(types.int32, 3, "C")(*[types.int64] * 4), generate


def _shaped(context: Any, builder: Any, kind: Any, address: Any, shape: Any) -> Any:  # noqa: ANN401
    """An array of elements of a kind at an address, the last axis the innermost."""
    array = context.make_array(types.Array(kind, len(shape), "C"))(context, builder)
    size = ir.Constant(WORD, getattr(kind, "bitwidth", 8) // 8)
    strides = [size]
    for length in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], length))
    data = builder.inttoptr(address, array.data.type)
    context.populate_array(array, data=data, shape=list(shape), strides=strides, itemsize=size, meminfo=None)
    return array._getvalue()


def _named_arrays_of(kind: Any) -> Any:  # noqa: ANN401 (numba's)
    """`array_in(words, number)`: the array whose address is a word, and the next one its length."""

    @intrinsic
    def array_in(context: Any, words: Any, number: Any) -> Any:  # noqa: ANN401
        def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:  # noqa: ANN401
            begin = context.make_array(words)(context, builder, given[0]).data
            first = builder.gep(begin, [given[1]])
            after = builder.gep(first, [ir.Constant(WORD, 1)])
            return _array(context, builder, kind, builder.load(first), builder.load(after))

        return types.Array(kind, 1, "C")(words, types.int64), generate

    return array_in


def int_rows(array: int, length: int) -> Any:  # noqa: ANN401
    """`row(words, number)`: one of the rows of 32-bit integers that lie one after the other from the address
    in word `array` on, each of as many as word `length` says.
    """

    @intrinsic
    def row(context: Any, words: Any, number: Any) -> Any:  # noqa: ANN401
        def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:  # noqa: ANN401
            begin = context.make_array(words)(context, builder, given[0]).data
            first, size = (builder.load(builder.gep(begin, [ir.Constant(WORD, n)])) for n in (array, length))
            offset = builder.mul(builder.mul(size, given[1]), ir.Constant(WORD, 4))
            return _array(context, builder, types.int32, builder.add(first, offset), size)

        return types.Array(types.int32, 1, "C")(words, types.int64), generate

    return row


def _eights_at(context: Any, address: Any, length: Any) -> Any:  # noqa: ANN401 (numba's)
    """`eights_at(address, length)`: as `length` 64-bit numbers the eight bytes from each byte on."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:  # noqa: ANN401
        array = context.make_array(signature.return_type)(context, builder)
        data, size = builder.inttoptr(given[0], array.data.type), ir.Constant(WORD, 8)
        context.populate_array(
            array, data=data, shape=[given[1]], strides=[ir.Constant(WORD, 1)], itemsize=size, meminfo=None
        )
        return array._getvalue()

    made = types.Array(types.uint64, 1, "A", readonly=True, aligned=False)
    return made(types.int64, types.int64), generate


def _array(context: Any, builder: Any, kind: Any, address: Any, length: Any) -> Any:  # noqa: ANN401
    return _shaped(context, builder, kind, address, [length])


call: Any = intrinsic(_call)
ask: Any = intrinsic(_ask)
int_cube: Any = intrinsic(_int_cube)
address_of: Any = intrinsic(_address_of)
ints_at, longs_at = _arrays_of(types.int32), _arrays_of(types.int64)
floats_at, doubles_at = _arrays_of(types.float32), _arrays_of(types.float64)
bytes_at, bools_at = _arrays_of(types.uint8), _arrays_of(types.boolean)
hashes_at = _arrays_of(types.uint64)
eights_at: Any = intrinsic(_eights_at)
# The bytes of a text, as readers take them.
text_at = _arrays_of(types.uint8, readonly=True)
int_table, long_table = _tables_of(types.int32), _tables_of(types.int64)
bool_table, double_table = _tables_of(types.boolean), _tables_of(types.float64)
ints_in, longs_in = _named_arrays_of(types.int32), _named_arrays_of(types.int64)
doubles_in, bytes_in = _named_arrays_of(types.float64), _named_arrays_of(types.uint8)
