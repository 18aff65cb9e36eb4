"""A model as a C library: the compiled pass, its kernels and weights, behind a few functions of C."""

from __future__ import annotations

import os
import platform
import shutil
import struct
import subprocess
import sys
import tempfile
from bisect import bisect
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.base.files import write_bytes, write_text
from abw.core.build.machine import Loop, Machine, machine_code
from abw.core.exec.cpu.executor import CpuExecutor
from abw.core.exec.cpu.target import IS_AARCH64, Target, TargetName, get_target
from abw.core.exec.params import Params
from abw.core.exec.precision import Precision
from abw.core.ir.cell import Shape
from abw.core.ir.model import AS_IT_IS, Model
from abw.core.jit.decorators import address_of_code, njit
from abw.core.jit.pointers import Pointer, Table
from abw.core.policy.schedule import Policy
from abw.core.run.onepass import finish
from abw.core.run.onepass import state as at
from abw.core.run.onepass.loop import answer
from abw.core.run.onepass.onepass import Pass, Passes, refusal, texts_refusal
from abw.core.run.onepass.workspace import LEAST
from abw.core.run.workload import Networks
from abw.core.store.outputs import Output

Longs = NDArray[np.int64]

# What a part begins at a multiple of, in the image and in memory.
LINE = 64
# Numbers that a word of a table can be only if it is an address.
_ADDRESSES = range(1 << 36, 1 << 48)

# Kinds of relocations.
TO_PART, TO_CODE = range(2)


@dataclass(frozen=True, slots=True)
class Image:
    """Memory of a workspace as parts, the first of which is the root.

    `parts` (p, 3): where each begins in `data`, its bytes, and whether it is shared: read there by all
    workspaces. `relocations` (r, 5): the part and the byte where an address stands; its kind; and what it is
    the address of: a part and a byte in it, or a function and 0.
    """

    data: bytes
    parts: Longs
    relocations: Longs


def image_of(root: Table, code: Mapping[int, int], shared: Collection[NDArray[Any]]) -> Image:
    """The image of a table and of all that it leads to.

    `code`: the numbers of functions by their addresses. `shared`: arrays that nothing writes to. Raises
    RuntimeError for a word that is the address of something else. Cost: linear in the memory.
    """
    reached = [*_reached(root, set())]
    found = {place: memory for place, memory in map(_memory, reached) if len(memory)}
    begins: list[int] = []
    for place in sorted(found):
        if not begins or place >= begins[-1] + len(found[begins[-1]]):
            begins.append(place)
        elif place + len(found[place]) > begins[-1] + len(found[begins[-1]]):
            raise RuntimeError("two arrays overlap")
    order = sorted(range(len(begins)), key=lambda n: begins[n] != root.at)
    number = {n: part for part, n in enumerate(order)}
    relocations = []
    for table in {each.at: each for each in reached if isinstance(each, Table) and each.at}.values():
        part = bisect(begins, table.at) - 1
        for word, value in enumerate(np.asarray(table.words, np.int64).tolist()):
            here = number[part], table.at - begins[part] + 8 * word
            target = bisect(begins, value) - 1
            if target >= 0 and value < begins[target] + len(found[begins[target]]):
                relocations.append((*here, TO_PART, number[target], value - begins[target]))
            elif value in code:
                relocations.append((*here, TO_CODE, code[value], 0))
            elif value in _ADDRESSES:
                raise RuntimeError(f"word {word} of a table is an unknown address")
    fixed = {Pointer(array).at for array in shared}
    data, parts = bytearray(), []
    for n in order:
        memory = found[begins[n]]
        parts.append((len(data), len(memory), begins[n] in fixed))
        data += memory
        data += bytes(-len(memory) % LINE)
    return Image(bytes(data), np.array(parts, np.int64), np.array(relocations, np.int64).reshape(-1, 5))


def _reached(thing: object, met: set[int]) -> Iterator[Table | NDArray[Any]]:
    """The tables and arrays that a table leads to, itself first."""
    if id(thing) in met:
        return
    met.add(id(thing))
    if isinstance(thing, Table):
        yield thing
        for kept in thing.kept:
            yield from _reached(kept, met)
    elif isinstance(thing, np.ndarray):
        yield thing
    elif isinstance(thing, Pointer):
        yield from _reached(thing.owner, met)


def _memory(thing: Table | NDArray[Any]) -> tuple[int, memoryview]:
    """Where a table or an array lies, and its bytes."""
    array = np.asarray(thing.words) if isinstance(thing, Table) else thing
    place = thing.at if isinstance(thing, Table) else Pointer(array).at
    return place, memoryview(cast(Any, array.reshape(-1).view(np.uint8)))


BuildTarget = Literal["native", "avx512", "avx2", "plain"]

# What every processor of a family has, by LLVM's names.
_FAMILIES: dict[TargetName, tuple[str, str]] = {
    "avx512": (
        "x86-64-v4",
        "+avx512f,+avx512vl,+avx512bw,+avx512dq,+avx512cd,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+movbe,+popcnt",
    ),
    "avx2": ("x86-64-v3", "+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+movbe,+popcnt"),
    "plain": ("x86-64", ""),
}
# Whether a library runs here, in C.
_RUNS = {
    "avx512": " && ".join(
        f'__builtin_cpu_supports("{feature}")'
        for feature in ("avx512f", "avx512vl", "avx512bw", "avx512dq", "avx2", "fma")
    ),
    "avx2": '__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")',
    "plain": "1",
}
# Bytes of a workspace's block at most, and of a text.
MOST_BLOCK, MOST_TEXT = 1 << 40, 1 << 30
_MAGIC, _VERSION = b"ABWIMAGE", 1


_HEADER = struct.Struct("<8s6Q")
# Where the hash stands in it; the words of an arena's head; bytes behind an arena's last row, of which whole
# vectors are read.
_HASH_AT, _HEAD, _SLACK = 16, 3, 64
# The words of a workspace, and of an output in it, that the runtime reads.
_OF_STATE = (
    "BLOCK", "ROOM", "NEXT", "FIRST", "LAST", "ARENA", "PITCH", "HELD", "ROWS_NOW", "OUTPUTS",
    "FINE", "MORE", "ROWS", "APART",
)  # fmt: skip
_OF_OUTPUT = ("OF_OUTPUT", "VALUES", "AT_VALUES", "AT_VERTEX", "AT_OFFSETS")
# An output's name and the shape of a value.
NamedShape = tuple[str, Shape]


@dataclass(frozen=True, slots=True)
class Compiled:
    """A model compiled for a target: its image, and the machine code that goes with it."""

    target: Target
    image: bytes
    machine: Machine


@dataclass(frozen=True, slots=True)
class Source:
    """What a library is made of."""

    model: Model
    networks: Networks
    params: Params
    policy: Policy
    outputs: tuple[Output, ...]

    def shape(self, number: int) -> Shape:
        """The shape of an output's values, also where its answers are labels."""
        network = self.networks.cells
        t, o = network.outputs[number][1][0]
        return network.types[t].outputs[o].shape


def build_library(
    source: Source, file: Path, targets: Sequence[BuildTarget], precision: Precision, *, beside: bool
) -> dict[str, Any]:
    """Write a shared library and its header, as `LoadedModel.build` says; returns what was written."""
    compiler = c_compiler()
    chosen = {target.name: target for target in map(_target, targets)}.values()
    best_first = sorted(chosen, key=lambda target: -target.lanes)
    found = [_compiled(source, target, precision) for target in best_first]
    weights = file.with_suffix(".weights") if beside else None
    header = file.with_suffix(".h")
    shapes = [(name, source.shape(n)) for n, (name, _) in enumerate(source.networks.cells.outputs)]
    text = _header(source.model, shapes)
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder)
        (made / "abw_model.h").write_text(text, encoding="utf-8")
        (made / "model.h").write_text(
            _constants(shapes, found, source.model, inside=not beside), encoding="utf-8"
        )
        (made / "runtime.c").write_bytes(files(__package__).joinpath("runtime.c").read_bytes())
        for compiled in found:
            (made / f"{compiled.target.name}.o").write_bytes(compiled.machine.code)
            (made / f"{compiled.target.name}.image").write_bytes(compiled.image)
        _link(compiler, made, [f"{compiled.target.name}.o" for compiled in found])
        write_bytes(file, (made / "library").read_bytes())
    write_text(header, text)
    if weights:
        write_bytes(weights, b"".join(compiled.image for compiled in found))
    return {
        "library": str(file),
        "bytes": file.stat().st_size,
        "header": str(header),
        "weights": str(weights) if weights else None,
        "targets": [compiled.target.name for compiled in found],
        "outputs": [output.name for output in source.outputs],
    }


def c_compiler() -> list[str]:
    """The C compiler: `CC`, or the first of cc, gcc and clang that there is. Errors: AbwError without one."""
    if not sys.platform.startswith("linux"):
        raise AbwError(f"libraries are built on Linux, not on {platform.system()}")
    if chosen := os.environ.get("CC", "").split():
        return chosen
    for name in ("cc", "gcc", "clang"):
        if path := shutil.which(name):
            return [path]
    raise AbwError("a library needs a C compiler", hint="install gcc or clang, or name one: CC=/path/to/cc")


def _target(name: BuildTarget) -> Target:
    """A target. Errors: AbwError where this machine cannot run what is built for it."""
    best = get_target(None if name == "native" else name)
    if name == "native" or IS_AARCH64:
        return best
    cpu, features = _FAMILIES[name]
    return replace(best, cpu=cpu, features=features)


def _compiled(source: Source, target: Target, precision: Precision) -> Compiled:
    """Prepare the model for a target, and take its pass apart. Errors: AbwError where it has none."""
    model, networks, policy = source.model, source.networks, source.policy
    for name, form in model.answers.items():
        if form.form == "probabilities" or form.top:
            why = f"output '{name}' has probabilities, which are computed behind the pass"
            raise AbwError(f"{model.name} cannot be a library: {why}", hint="give back labels or values")
    why = "the model grows" if model.growth else refusal(model, networks, policy)
    why = why or texts_refusal(model, networks)
    if why:
        raise AbwError(f"{model.name} cannot be a library: {why}")
    executor = CpuExecutor(target, precision)
    executor.prepare(networks.cells, source.params, 1)
    every = replace(networks, equal=None)  # a library computes equal nodes, too
    made = cast(Pass, Passes(model, every, executor, source.outputs).make(policy))
    parts = executor.parts()
    loops: list[Loop] = [(answer, 4), *((stage, 1) for stage in made.reading)]
    machine = machine_code(loops, parts.ir, parts.names, parts.target)
    code = [*map(address_of_code, made.reading), *parts.addresses]
    image = image_of(made.table(), {where: n for n, where in enumerate(code)}, parts.packed)
    return Compiled(parts.target, _packed(image, parts.heads), machine)


def _packed(image: Image, heads: Sequence[NDArray[np.float32]]) -> bytes:
    """The image as the runtime reads it."""
    tables = 8 * (image.parts.size + image.relocations.size + _HEAD * len(heads))
    first = _HEADER.size + tables
    first += -first % LINE
    parts = image.parts.copy()
    parts[:, 0] += first
    data, begins = bytearray(image.data), []
    for head in heads:
        begins.append((first + len(data), head.nbytes, _SLACK))
        data += head.tobytes()
        data += bytes(-len(data) % LINE)
    words = [*parts.ravel().tolist(), *image.relocations.ravel().tolist(), *chain(*begins)]
    rest = struct.pack(f"<{len(words)}q", *words).ljust(first - _HEADER.size, b"\0") + bytes(data)
    sizes = _HEADER.size + len(rest), len(parts), len(image.relocations), len(heads)
    return _HEADER.pack(_MAGIC, _VERSION, _hash(rest), *sizes) + rest


def _hash(rest: bytes) -> int:
    """What the runtime computes of an image's bytes behind the header."""
    return int(hash_words(np.frombuffer(rest, np.uint64)))


@njit
def hash_words(words: NDArray[np.uint64]) -> np.uint64:
    """FNV-1a's products over words, mixed downwards."""
    found = np.uint64(0xCBF29CE484222325)
    for word in words:
        found = (found ^ word) * np.uint64(0x100000001B3)
        found ^= found >> np.uint64(29)
    return found


def _escaped(text: str) -> str:
    """A text's UTF-8 in a string of C."""
    return "".join(f"\\{byte:03o}" for byte in text.encode())


def _constants(
    outputs: Sequence[NamedShape], found: Sequence[Compiled], model: Model, *, inside: bool
) -> str:
    """What differs from library to library, in C."""
    numbers = {name: getattr(at, name) for name in _OF_STATE}
    numbers |= {name: getattr(finish, name) for name in _OF_OUTPUT}
    numbers |= {"VERSION": _VERSION, "TO_CODE": TO_CODE, "LEAST_BLOCK": LEAST}
    numbers |= {"MOST_BLOCK": MOST_BLOCK, "MOST_TEXT": MOST_TEXT}
    lines = [f"#define {name} {value}" for name, value in numbers.items()]
    lines.append(f'#define MAGIC "{_MAGIC.decode()}"')
    answers, values = [model.answers.get(name, AS_IT_IS) for name, _ in outputs], []
    for n, ((name, shape), form) in enumerate(zip(outputs, answers, strict=True)):
        rows, columns = (*shape, 1)[:2]
        if form.names:
            names = ", ".join(f'"{_escaped(word)}"' for word in form.names)
            lines.append(f"static const char *const names_{n}[] = {{{names}}};")
        of = f"names_{n}" if form.names else "NULL"
        values.append(
            f'    {{"{name}", 0, {len(shape)}, {{{rows}, {columns}}}, NULL, NULL, NULL, NULL, {of}}},'
        )
    lines += ["static const abw_values outputs[] = {", *values, "};"]
    labelled = ", ".join(str(int(form.form == "label")) for form in answers)
    lines.append(f"static const char labelled[] = {{{labelled}}};")
    for compiled in found:
        name, machine = compiled.target.name, compiled.machine
        if inside:
            lines += [
                f"extern const unsigned char abw_image_{name}[];",
                f'__asm__(".section .rodata\\n.balign {LINE}\\n.hidden abw_image_{name}\\n"',
                f'        ".globl abw_image_{name}\\nabw_image_{name}:\\n"',
                f'        ".incbin \\"{name}.image\\"\\n.previous");',
            ]
        code = [*machine.loops[1:], *machine.kernels]
        lines += [
            f"extern char {', '.join(f'{each}[]' for each in code)};",
            f"static void *const code_{name}[] = {{",
        ]
        lines += [f"    {each}," for each in code]
        lines += ["};", f"extern answer_function {machine.loops[0]};"]
        lines.append(f"static int runs_{name}(void) {{ return {_RUNS[name]}; }}")
    lines.append("static const struct target targets[] = {")
    for compiled in found:
        name, loop = compiled.target.name, compiled.machine.loops[0]
        image = f"abw_image_{name}" if inside else "NULL"
        (hashed,) = struct.unpack_from("<Q", compiled.image, _HASH_AT)
        lines.append(f'    {{"{name}", {hashed}u, {image}, {loop}, code_{name}, runs_{name}}},')
    return "\n".join([*lines, "};", ""])


def _header(model: Model, outputs: Sequence[NamedShape]) -> str:
    """The library's header."""
    told = "\n".join(
        f" * Output {n}: {name}, {' x '.join(map(str, shape))}" for n, (name, shape) in enumerate(outputs)
    )
    text = files(__package__).joinpath("header.h").read_text(encoding="utf-8")
    return text.replace("@MODEL@", f"The model {model.name}").replace("@OUTPUTS@", told)


def _link(compiler: Sequence[str], folder: Path, objects: Sequence[str]) -> None:
    """Compile the runtime, and link it with the objects. Errors: AbwError with what the compiler says."""
    command = [*compiler, "-std=gnu11", "-O2", "-fPIC", "-fvisibility=hidden", "-shared", "-o", "library"]
    done = subprocess.run(
        [*command, "runtime.c", *objects, "-lm"], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise AbwError(f"{compiler[0]} failed:\n{done.stderr.strip()}")
