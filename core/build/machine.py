"""Machine code for a library: compiled loops of numba's and kernels as IR, linked into one object file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
import numba
from numba import types
from numba.core import compiler
from numba.core.registry import cpu_target

from abw.core.exec.codecache import cache_path, read_cache, write_cache
from abw.core.exec.cpu.llvm.compiled import LEVEL
from abw.core.exec.cpu.target import Target
from abw.core.jit.decorators import made_of
from abw.core.jit.loops import OPTIONS, Loops, no_garbage_looked_for

# A function that numba compiles, whose arguments are all 64-bit integers, and how many these are.
Loop = tuple[Callable[..., Any], int]


@dataclass(frozen=True, slots=True)
class Machine:
    """An object file's bytes, and the names that loops and kernels have in it, in the order given.

    A loop takes the addresses of its result and of an error, which none of these raises, and its arguments,
    and returns 0; a kernel is what its IR says.
    """

    code: bytes
    loops: list[str]
    kernels: list[str]


def machine_code(loops: Sequence[Loop], ir: str, kernels: Sequence[str], target: Target) -> Machine:
    """Compile loops, and a module of IR with these kernels, to what calls libc and libm alone.

    Cost: some 8 s, from loops on disk 2 s.
    """
    whole = llvm.parse_assembly(ir)
    names = []
    for loop in loops:
        name, text = _loop(*loop)
        module = llvm.parse_assembly(text)
        module.triple, module.data_layout = whole.triple, whole.data_layout
        whole.link_in(module)
        names.append(name)
    called = dict(zip(names, (f"abw_{target.name}_loop{n}" for n in range(len(names))), strict=True))
    called |= {name: f"abw_{target.name}_{name}" for name in kernels}
    for symbol in [*whole.functions, *whole.global_variables]:
        if not symbol.is_declaration and symbol.name not in called:
            symbol.linkage = "internal"
    for name, new in called.items():
        function = whole.get_function(name)
        function.linkage, function.visibility, function.name = "external", "hidden", new
    return Machine(
        emitted(whole, target), [called[name] for name in names], [called[name] for name in kernels]
    )


def emitted(module: llvm.ModuleRef, target: Target) -> bytes:
    """A module's object file, for shared libraries."""
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=target.cpu, features=target.features, opt=LEVEL, reloc="pic", codemodel="default"
    )
    return bytes(machine.emit_object(module))


def _loop(function: Any, arguments: int) -> tuple[str, str]:  # noqa: ANN401 (numba's)
    """A loop's name, and the optimised LLVM IR of it and of all that it calls, which is kept on disk."""
    named = f"{function.py_func.__module__}.{function.py_func.__qualname__}"
    made_by = numba.__version__, llvm.llvm_version_info, llvm.get_host_cpu_name()
    path = cache_path(repr((named, arguments, made_by, made_of(function))), ".ll")
    if kept := read_cache(path):
        name, _, text = kept.decode().partition("\n")
        return name, text
    flags: Any = compiler.Flags()  # type: ignore[no-untyped-call]
    flags.nrt, flags.no_cpython_wrapper, flags.no_cfunc_wrapper = False, True, True
    flags.error_model = OPTIONS["error_model"]
    contexts, given = (cpu_target.typing_context, cpu_target.target_context), (types.int64,) * arguments
    with no_garbage_looked_for():
        made = compiler.compile_extra(  # type: ignore[no-untyped-call]
            *contexts, function.py_func, given, None, flags, {}, pipeline_class=Loops
        )
    name, text = made.fndesc.llvm_func_name, str(made.library._final_module)
    write_cache(path, f"{name}\n{text}".encode())
    return name, text
