"""A checker of cell programs that shares no code with what makes them."""

from __future__ import annotations

from itertools import pairwise
from math import prod

from abw.core.base.errors import CheckError
from abw.core.cell.layout import BROADCAST, CONTIGUOUS, COPIED, PACKED, STRIDED
from abw.core.cell.program import CellProgram, Operand


def check_cell_program(program: CellProgram) -> None:
    """Raise CheckError, with all that is wrong, unless a program computes its cell.

    Checked by addresses: every batched operation runs once and after its arguments; a batch's operations are
    isomorphic; no two variables, temporaries included, share a float of scratch memory; every operand's
    status, step and shift give exactly the addresses at which its values lie.
    """
    wrong = [*_order(program), *_overlap(program), *_operands(program)]
    if wrong:
        raise CheckError("\n".join(wrong))


def _order(program: CellProgram) -> list[str]:
    normal, wrong = program.normal, []
    inputs = len(program.cell.inputs)
    done = {v for v, static in enumerate(normal.static) if static} | set(range(inputs))
    for number, batch in enumerate(program.batches):
        values = batch.result.values
        ops = [normal.op(v) for v in values]
        if len({(op.name, op.attr, op.shape) for op in ops}) != 1 or ops[0].name != batch.op:
            wrong.append(f"batch {number} mixes operations")
        for lane, op in enumerate(ops):
            if tuple(source.values[lane] for source in batch.sources) != op.args:
                wrong.append(f"batch {number}, lane {lane}: wrong sources")
            wrong += [
                f"batch {number}, lane {lane}: argument {argument} is not computed yet"
                for argument in op.args
                if normal.root[argument] not in done
            ]
        for source in batch.sources:
            if len({program.cell.shape_of(v) for v in source.values}) != 1:
                wrong.append(f"batch {number}: operand of several shapes")
        if done.intersection(values) or len(set(values)) != len(values):
            wrong.append(f"batch {number} computes a value again")
        done.update(values)
    wrong += [f"value {v} is never computed" for v in normal.batched if v not in done]
    return wrong


def _overlap(program: CellProgram) -> list[str]:
    spans = []
    for value, rank in enumerate(program.position):
        if rank >= 0:
            spans.append((program.place[value].offset, prod(program.cell.shape_of(value)), f"value {value}"))
    for number, batch in enumerate(program.batches):
        for operand in batch.operands:
            if operand.temporary >= 0:
                size = prod(program.cell.shape_of(operand.values[0])) * len(operand.values)
                spans.append((operand.temporary, size, f"temporary of batch {number}"))
    spans.sort()
    wrong = [f"{a[2]} and {b[2]} overlap" for a, b in pairwise(spans) if a[0] + a[1] > b[0]]
    if spans and spans[-1][0] + spans[-1][1] > program.width:
        wrong.append("the scratch memory is too narrow")
    return wrong


def _operands(program: CellProgram) -> list[str]:
    normal, wrong = program.normal, []
    outputs = [value for _, value in program.cell.outputs]
    lanes = 3

    def address(value: int, row: int) -> tuple[object, int]:
        """(memory, float) of a value's first element at one of three lanes."""
        held = normal.root[value]
        pitch = prod(program.cell.shape_of(held))
        inside = row * pitch + normal.start[value]
        if program.position[held] >= 0:
            return "scratch", lanes * program.place[held].offset + inside
        return (("output", outputs.index(held)) if held in outputs else ("input", held)), inside

    def said(operand: Operand, lane: int, row: int) -> tuple[object, int]:
        memory, begin = address(operand.values[0], 0)
        pitch = prod(program.cell.shape_of(normal.root[operand.values[0]]))
        return memory, begin + row * pitch + lane * (lanes * operand.step + operand.shift)

    for number, batch in enumerate(program.batches):
        for place, operand in enumerate(batch.operands):
            name = f"batch {number}, operand {place}"
            if operand.status == PACKED:
                if not all(normal.static[v] for v in operand.values):
                    wrong.append(f"{name}: packed, but computed at run time")
                continue
            if operand.status == COPIED:
                if operand.temporary < 0:
                    wrong.append(f"{name}: copied to nowhere")
                continue
            size = prod(program.cell.shape_of(operand.values[0]))
            pitch = prod(program.cell.shape_of(normal.root[operand.values[0]]))
            several = len(operand.values) > 1
            if (
                several
                and operand.status == CONTIGUOUS
                and (operand.step, operand.shift, pitch) != (size, 0, size)
            ):
                wrong.append(f"{name}: not contiguous")
            if operand.status == BROADCAST and (operand.step or operand.shift):
                wrong.append(f"{name}: not a broadcast")
            if operand.status == STRIDED and not (operand.step or operand.shift):
                wrong.append(f"{name}: strided by nothing")
            if any(
                address(value, row) != said(operand, lane, row)
                for lane, value in enumerate(operand.values)
                for row in range(lanes)
            ):
                wrong.append(f"{name}: its values lie elsewhere")
    return wrong
