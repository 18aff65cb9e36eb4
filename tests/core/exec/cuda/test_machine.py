"""Kernels as machine code for sm_90, made without a GPU: no spills, no stack, no float64."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from numba import cuda as typed_cuda
from numba import float32, types, uint32, void

from abw.core.base.errors import AbwError
from abw.core.exec.cuda.driver import compiled
from abw.core.exec.cuda.driver import toolkit as toolkit_module
from abw.core.exec.cuda.driver.compiled import (
    KernelImage,
    Resources,
    assemble,
    compile_image,
    compile_ptx,
)
from abw.core.exec.cuda.driver.toolkit import Toolkit, find_toolkit, need_toolkit
from abw.core.exec.cuda.ondevice.intrinsics import ex2, grid_barrier, ld4, rcp, st4
from tests.core.exec.cuda.conftest import float64_lines

cuda: Any = typed_cuda
F, U = types.float32[::1], types.uint32[::1]


def all_intrinsics(a, b, counter):
    held = cuda.shared.array(1024, float32)
    i = uint32(cuda.threadIdx.x) * uint32(4)
    x, y, z, w = ld4(a, i)
    st4(held, i, ex2(x), rcp(y), z, w)
    grid_barrier(counter, uint32(cuda.gridDim.x))
    p, q, r, s = ld4(a, i)
    x, y, z, w = ld4(held, (i + uint32(4)) % uint32(1024))
    st4(b, i, x * p, y * q, z * r, w * s)


def half(a):
    a[cuda.threadIdx.x] *= 0.1  # a number in Python is a float64


def indexed_locals(a, n):
    mine = cuda.local.array(64, float32)
    for k in range(64):
        mine[k] = a[k]
    for k in range(n):
        mine[(k * 7) % 64] += mine[k % 64]
    a[cuda.threadIdx.x] = mine[n % 64]


def many_registers(a):
    x0 = a[0]
    x1, x2, x3, x4 = a[1], a[2], a[3], a[4]
    for k in range(100):
        x0, x1, x2, x3, x4 = x1 * x0, x2 + x1, x3 * x2, x4 + x3, x0 * a[k]
    a[cuda.threadIdx.x] = x0 + x1 + x2 + x3 + x4


def test_intrinsics_are_the_instructions_they_should_be(toolkit: Toolkit) -> None:
    ptx = compile_ptx(all_intrinsics, void(F, F, U), 256)
    for instruction in (
        "ld.global.v4.f32",
        "ld.shared.v4.f32",
        "st.shared.v4.f32",
        "st.global.v4.f32",
        "ex2.approx.ftz.f32",
        "rcp.approx.ftz.f32",
        "red.release.gpu.global.add.u32",
        "ld.acquire.gpu.global.u32",
    ):
        assert instruction in ptx
    assert ".shared .align 16 " in ptx
    assert ptx.index("bar.sync") < ptx.index("red.release") < ptx.index("ld.acquire")
    assert ptx.rindex("ld.acquire") < ptx.rindex("bar.sync") < ptx.rindex("ld.global.v4.f32")
    resources = assemble(ptx).resources
    assert resources is not None
    assert (resources.stack, resources.spills, resources.shared) == (0, 0, 4096)
    assert not float64_lines(ptx)


def test_a_barrier_of_the_grid_cannot_be_moved_over(toolkit: Toolkit) -> None:
    def kernel(a, b, counter):
        b[0] = a[1]
        grid_barrier(counter, uint32(1))
        b[1] = a[1]  # another block may have changed it: read again
        b[0] = float32(2)

    ptx = compile_ptx(kernel, void(F, F, U), 32)
    before, after = ptx[: ptx.index("red.release")], ptx[ptx.rindex("ld.acquire") :]
    for part in (before, after):
        assert "ld.global.f32" in part
        assert "st.global" in part


def test_what_the_checks_are_there_for_is_found(toolkit: Toolkit) -> None:
    assert float64_lines(compile_ptx(half, void(F), 32))
    image = assemble(compile_ptx(indexed_locals, void(F, uint32), 32))
    assert image.resources is not None
    assert image.resources.stack >= 256


def test_registers_are_limited_for_the_block(toolkit: Toolkit) -> None:
    assert ".maxntid 1024, 1, 1" in compile_ptx(many_registers, void(F), 1024)
    image = assemble(compile_ptx(many_registers, void(F), 1024))
    assert image.resources is not None
    assert image.resources.registers <= 64
    assert image.code[:4] == b"\x7fELF"


def test_images_are_kept(toolkit: Toolkit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ABW_HOME", str(tmp_path))
    made = compile_image(many_registers, void(F), 256, "text")
    with patch.object(compiled, "compile_ptx", side_effect=AssertionError("compiled again")):
        assert compile_image(many_registers, void(F), 256, "text") == made
        for threads, text in ((128, "text"), (256, "another")):
            with pytest.raises(AssertionError, match="compiled again"):
                compile_image(many_registers, void(F), threads, text)


def using(found: Toolkit | None) -> Any:
    """As if this were the compiler of the machine."""
    return patch.multiple(compiled, find_toolkit=lambda: found, need_toolkit=lambda: found or need_toolkit())


def test_a_kept_image_is_found_wherever_the_compiler_lies(
    toolkit: Toolkit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ABW_HOME", str(tmp_path))

    def at(folder: str, nvvm: bytes, ptxas: bytes = b"13.0") -> Toolkit:
        (tmp_path / folder).mkdir()
        for name, release in (("nvvm", nvvm), ("ptxas", ptxas)):
            text = b"\0Cuda compilation tools, release %d.%d\0Cuda compilation tools, release " + release
            (tmp_path / folder / name).write_bytes(text + b", V" + release + b".88\0")
        return Toolkit(tmp_path / folder / "nvvm", toolkit.libdevice, tmp_path / folder / "ptxas")

    made = KernelImage("k", b"code", Resources(1, 0, 0, 0))
    with (
        patch.multiple(compiled, compile_ptx=lambda *_: "", assemble=lambda *_: made),
        using(at("made", b"13.0")),
    ):
        assert compile_image(half, void(F), 32, "text") == made
    with patch.object(compiled, "compile_ptx", side_effect=AssertionError("compiled again")):
        with using(at("there", b"13.0")):
            assert compile_image(half, void(F), 32, "text") == made
        for other in (at("newer", b"13.1"), at("older", b"13.0", b"12.9")):
            with (
                using(other),
                pytest.raises(AssertionError, match="compiled again"),
            ):
                compile_image(half, void(F), 32, "text")
    with using(None), patch.object(toolkit_module, "find_toolkit", return_value=None):
        assert (
            compile_image(half, void(F), 32, "text") == made
        )  # what the pinned release made needs no compiler
        with pytest.raises(AbwError, match="NVVM"):
            compile_image(half, void(F), 32, "another")
    silent = at("silent", b"unknown")
    assert silent.releases == (f"{silent.nvvm.stat().st_size} bytes", "13.0")


@pytest.mark.parametrize(
    ("arch", "target"), [((7, 5), "sm_75"), ((8, 7), "sm_86"), ((8, 9), "sm_89"), ((12, 0), "sm_90")]
)
def test_other_gpus_get_code_of_their_own(toolkit: Toolkit, arch: tuple[int, int], target: str) -> None:
    with patch("numba.cuda.cudadrv.runtime.Runtime.get_version", side_effect=OSError("no libcudart")):
        ptx = compile_ptx(all_intrinsics, void(F, F, U), 256, arch)
    assert f".target {target}\n" in ptx
    image = assemble(ptx, arch)
    assert image.resources is not None
    assert (image.resources.stack, image.resources.spills) == (0, 0)
    assert image.code[:4] == b"\x7fELF"
    assert image.code[49] == 10 * arch[0] + arch[1]  # the architecture, in the flags of the ELF header


def test_a_gpu_that_the_assembler_does_not_know_gets_the_text(toolkit: Toolkit) -> None:
    ptx = compile_ptx(half, void(F), 32, (99, 0))
    image = assemble(ptx, (99, 0))
    assert image.resources is None
    assert image.code == ptx.encode() + b"\0"


def test_a_gpu_that_is_too_old_for_the_compiler_is_told(toolkit: Toolkit) -> None:
    with (
        patch("numba.cuda.cudadrv.nvvm.get_arch_option", return_value="compute_10"),
        pytest.raises(AbwError, match=r"compute capability 7\.0(.|\n)*CUDA 12"),
    ):
        compile_ptx(half, void(F), 32, (7, 0))


def test_without_an_assembler_the_driver_gets_the_text(
    toolkit: Toolkit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ABW_HOME", str(tmp_path))
    bare = Toolkit(toolkit.nvvm, toolkit.libdevice, None)
    with using(bare):
        image = compile_image(half, void(F), 32, "half")
        assert image.resources is None
        assert image.entry.encode() in image.code
        assert image.code.endswith(b"}\n\0") or image.code.rstrip(b"\n\0").endswith(b"}")
        assert compile_image(half, void(F), 32, "half") == image
        with pytest.raises(AbwError, match="ptxas"):
            assemble(image.code.decode())


def test_the_toolkit_is_looked_for_where_it_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_PATH", raising=False)
    wheel, home = tmp_path / "site" / "nvidia" / "cu13", tmp_path / "home"
    for root, library in ((wheel, "lib/libnvvm.so.4"), (home, "nvvm/lib64/libnvvm.so")):
        for name in (library, "nvvm/libdevice/libdevice.10.bc"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).touch()
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    found = find_toolkit()
    assert found == Toolkit(wheel / "lib/libnvvm.so.4", wheel / "nvvm/libdevice/libdevice.10.bc", None)
    monkeypatch.setenv("CUDA_HOME", str(home))
    assert find_toolkit() == Toolkit(
        home / "nvvm/lib64/libnvvm.so", home / "nvvm/libdevice/libdevice.10.bc", None
    )


def test_the_pinned_releases_are_those_of_the_extra(root: Path) -> None:
    pins = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]["cuda"]
    versions = dict(pin.split("==") for pin in pins)
    wheels = ("nvidia-nvvm", "nvidia-cuda-nvcc")
    assert tuple(versions[wheel].rpartition(".")[0] for wheel in wheels) == toolkit_module.PINNED


def test_no_toolkit_says_what_is_missing_and_how_to_get_it() -> None:
    with (
        patch.object(toolkit_module, "find_toolkit", return_value=None),
        pytest.raises(AbwError, match=r"NVVM(.|\n)*pip install \"\.\[cuda\]\""),
    ):
        need_toolkit()


def test_what_ptxas_says_is_read() -> None:
    said = """ptxas info    : Function properties for k
    16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 4096 bytes smem"""
    assert compiled._resources(said) == Resources(40, 16, 12, 4096)
    with pytest.raises(AbwError, match="registers"):
        compiled._resources("nothing")
