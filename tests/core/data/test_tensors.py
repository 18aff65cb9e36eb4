"""Files of named tensors."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pickle
import sys
import tracemalloc
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from abw.core.base.errors import AbwError
from abw.core.data.tensors import read_tensors

DTYPES = ("float32", "float64", "float16", "int64", "uint8", "bool")
NAMES = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=8)
TENSORS = st.dictionaries(
    NAMES,
    st.sampled_from(DTYPES).flatmap(
        lambda kind: arrays(kind, array_shapes(min_dims=0, min_side=0, max_dims=3, max_side=4))
    ),
    min_size=1,
    max_size=4,
)
ANY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)


def as_safetensors(tensors: dict[str, tuple[str, tuple[int, ...], bytes]]) -> bytes:
    """The format's bytes from (type, shape, data), written after its description alone."""
    header, at = {}, 0
    for name, (kind, shape, data) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps({**header, "__metadata__": {"made": "by hand"}}).encode()
    return len(text).to_bytes(8, "little") + text + b"".join(data for _, _, data in tensors.values())


def same(path: Path, expected: dict[str, np.ndarray]) -> None:
    found = read_tensors(path)
    assert set(found.tensors) == set(expected)
    assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    for name, values in expected.items():
        stored = found.tensors[name]
        assert stored.dtype == values.dtype.name
        assert stored.shape == stored.read().shape == values.shape
        np.testing.assert_array_equal(stored.read(), values)


@ANY
@given(TENSORS)
def test_npz(tmp_path: Path, tensors: dict[str, np.ndarray]) -> None:
    np.savez(tmp_path / "w.npz", **tensors)  # type: ignore[arg-type]
    same(tmp_path / "w.npz", tensors)


@ANY
@given(TENSORS)
def test_safetensors(tmp_path: Path, tensors: dict[str, np.ndarray]) -> None:
    pytest.importorskip("safetensors")
    kinds = dict(zip(DTYPES, ("F32", "F64", "F16", "I64", "U8", "BOOL"), strict=True))
    path = tmp_path / "w.safetensors"
    # as its own writer has it: larger types first, so that all are aligned
    ordered = sorted(tensors.items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))
    path.write_bytes(
        as_safetensors({name: (kinds[v.dtype.name], v.shape, v.tobytes()) for name, v in ordered})
    )
    same(path, tensors)


@given(st.lists(st.integers(0, 2**16 - 1), min_size=1, max_size=5))
@settings(ANY)
def test_bfloat16_is_the_upper_half_of_float32(tmp_path: Path, bits: list[int]) -> None:
    pytest.importorskip("safetensors")
    path = tmp_path / "w.safetensors"
    data = np.array(bits, "<u2")
    path.write_bytes(as_safetensors({"a": ("BF16", (len(bits),), data.tobytes())}))
    stored = read_tensors(path).tensors["a"]
    assert (stored.dtype, stored.read().dtype.name) == ("bfloat16", "float32")
    assert stored.read().tobytes() == b"".join(b"\0\0" + d.tobytes() for d in data)


class Mark:
    """A pickle of this writes a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str, int]]:
        return os.open, (str(self.path), os.O_CREAT)


def test_npz_with_objects_is_refused_and_runs_nothing(tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz", a=np.array([Mark(tmp_path / "ran")], object))
    with pytest.raises(AbwError, match="cannot read"):
        read_tensors(tmp_path / "w.npz")
    assert not (tmp_path / "ran").exists()


def test_a_pickle_is_refused_and_runs_nothing(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps({"a": Mark(tmp_path / "ran")}))
    torch.save({"a": Mark(tmp_path / "ran")}, tmp_path / "saved.pt")
    for name in ("plain.pt", "saved.pt"):
        with pytest.raises(
            AbwError, match=r"holds (a Python object \(\w+\.open\)|nothing that PyTorch reads)"
        ) as caught:
            read_tensors(tmp_path / name)
        assert caught.value.hint == "save only its weights: torch.save(model.state_dict(), FILE)"
    assert not (tmp_path / "ran").exists()


def test_a_state_dict_of_pytorch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    layer = torch.nn.LSTM(3, 2)
    half = torch.tensor([1.5, -2.25], dtype=torch.bfloat16)
    torch.save({**layer.state_dict(), "b": half, "n": torch.tensor(7)}, tmp_path / "w.pt")
    found = read_tensors(tmp_path / "w.pt").tensors
    assert list(found) == [*layer.state_dict(), "b", "n"]
    for name, values in layer.state_dict().items():
        np.testing.assert_array_equal(found[name].read(), values.numpy())
    assert (found["b"].dtype, found["b"].read().tolist()) == ("bfloat16", [1.5, -2.25])
    assert (found["n"].dtype, found["n"].shape) == ("int64", ())


@pytest.mark.parametrize(
    ("kept", "said"),
    [([1], "no state_dict but a list"), ({"a": 1}, "'a' is of type int"), ({}, "no state_dict")],
)
def test_what_is_no_state_dict(tmp_path: Path, kept: object, said: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    torch.save(kept, tmp_path / "w.pth")
    with pytest.raises(AbwError, match=said):
        read_tensors(tmp_path / "w.pth")


def test_a_module_is_refused_in_words_of_our_own(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    torch.save(torch.nn.Linear(2, 2), tmp_path / "w.pt")
    with pytest.raises(AbwError) as caught:
        read_tensors(tmp_path / "w.pt")
    what = "a Python object (torch.nn.modules.linear.Linear), not only tensors"
    assert caught.value.message == f"{tmp_path / 'w.pt'} holds {what}"


@pytest.mark.parametrize("names", [["model"], ["model", "ema"]])
def test_a_checkpoint_says_where_its_state_dict_is(tmp_path: Path, names: list[str]) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    state = torch.nn.Linear(2, 2).state_dict()
    optimizer = torch.optim.Adam([torch.nn.Parameter(torch.zeros(2))]).state_dict()
    torch.save(
        {"epoch": 3, **dict.fromkeys(names, state), "optimizer": optimizer}, tmp_path / "checkpoint.pt"
    )
    with pytest.raises(AbwError) as caught:
        read_tensors(tmp_path / "checkpoint.pt")
    assert " and ".join(f"['{name}']" for name in names) in caught.value.message
    # what the hint says does it
    with contextlib.chdir(tmp_path):
        exec(caught.value.hint.removeprefix("save only that: "), {"torch": torch})
    assert set(read_tensors(tmp_path / "checkpoint-weights.pt").tensors) == {"weight", "bias"}


def test_without_pytorch_it_says_how_to_convert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net.pt").write_bytes(b"anything")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(AbwError, match="PyTorch") as caught:
        read_tensors(tmp_path / "net.pt")
    lines = caught.value.hint.splitlines()[1:]
    assert len(lines) == 3 and "'net.pt'" in lines[1] and "'net.safetensors'" in lines[2]
    compile("\n".join(line.strip() for line in lines), "hint", "exec")


@pytest.mark.parametrize(
    ("name", "said", "hint"),
    [
        ("w.h5", "weights of no format known here", ".safetensors"),
        ("ww.npz", "no such file", "did you mean 'w.npz'?"),
        ("no/w.npz", "no such file", "there is no folder"),
        ("\0/w.npz", "no such file", "there is no folder"),
        ("trained-parameters.npz", "no such file", "holds w.npz"),
        ("trained-parameters.pt", "no such file", "holds no file *.pt"),
        ("folder.npz", "a folder, not a file", ""),
        ("w.npz", "cannot read .* as npz", "is it whole"),
        ("w.safetensors", "cannot read .* as safetensors", "is it whole"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, name: str, said: str, hint: str) -> None:
    if name.endswith("safetensors"):
        pytest.importorskip("safetensors")
    (tmp_path / "folder.npz").mkdir()
    for damaged in ("w.npz", "w.safetensors", "w.h5"):
        (tmp_path / damaged).write_bytes(b"PK\x03\x04 not really")
    with pytest.raises(AbwError, match=said) as caught:
        read_tensors(tmp_path / name)
    assert hint in caught.value.hint


@given(st.integers(0, 10_000), st.integers(0, 255))
@settings(ANY, max_examples=60)
def test_damaged_files_never_end_in_a_traceback(tmp_path: Path, root: Path, place: int, byte: int) -> None:
    for name in ("torch-lstm.safetensors", "torch-gru.npz"):
        if name.endswith("safetensors"):
            pytest.importorskip("safetensors")
        data = bytearray((root / "tests/golden/torch" / name).read_bytes())
        data[place % len(data)] = byte
        path = tmp_path / name
        path.write_bytes(data[: place if byte % 2 else None])
        try:
            read_tensors(path)
        except AbwError as error:
            assert name in error.message


def test_what_an_archive_unpacks_to_costs_nothing_until_it_is_read(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "w.npz", a=np.zeros(1 << 24, np.float32))
    tracemalloc.start()
    found = read_tensors(tmp_path / "w.npz").tensors["a"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.shape == (1 << 24,) and peak < 4 << 20
    assert not found.read().any()


@pytest.mark.parametrize(
    ("shape", "message"),
    [("(1000000000000, 1000)", "the size that its header says"), ("(3,)", "the size"), ("(-2,)", "the size")],
)
def test_an_array_that_says_a_wrong_size_is_refused(tmp_path: Path, shape: str, message: str) -> None:
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    array = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(8)
    with ZipFile(tmp_path / "w.npz", "w") as archive:
        archive.writestr("a.npy", array)
    with pytest.raises(AbwError, match=message):
        read_tensors(tmp_path / "w.npz")
