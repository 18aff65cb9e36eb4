"""Answers each line of standard input by a library: `python answer.py ./libsst.so < trees.txt`."""

import ctypes
import sys
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_int32, c_int64, c_size_t, c_void_p
from itertools import pairwise


class Values(ctypes.Structure):
    """`abw_values` of the header."""

    _fields_ = [
        ("name", c_char_p),
        ("count", c_size_t),
        ("rank", c_size_t),
        ("shape", c_size_t * 2),
        ("values", POINTER(c_float)),
        ("offsets", POINTER(c_int64)),
        ("vertices", POINTER(c_int32)),
        ("labels", POINTER(c_int32)),
        ("names", POINTER(c_char_p)),
    ]


class Library:
    """A model in a library; a workspace of it is for one thread at a time."""

    def __init__(self, path: str, weights: str | None = None) -> None:
        self._c = ctypes.CDLL(path)
        for name, given, result in (
            ("load", [c_char_p, POINTER(c_int)], c_void_p),
            ("new_workspace", [c_void_p], c_void_p),
            ("answer", [c_void_p, c_char_p, c_size_t, c_size_t], c_int),
            ("outputs", [c_void_p], c_size_t),
            ("output", [c_void_p, c_size_t, POINTER(Values)], c_int),
            ("error", [c_int], c_char_p),
        ):
            function = getattr(self._c, f"abw_{name}")
            function.argtypes, function.restype = given, result
        code = c_int()
        self._model = self._c.abw_load(weights and weights.encode(), byref(code))
        self._check(code.value)
        self._space = self._c.abw_new_workspace(self._model)

    def __call__(self, lines: list[str]) -> dict[str, list[list[list[float | str]]]]:
        """By output, for each line the values, each as its numbers in a row, or as its label."""
        text = "\n".join(lines).encode()
        self._check(self._c.abw_answer(self._space, text, len(text), len(lines)))
        found = {}
        for k in range(self._c.abw_outputs(self._model)):
            output = Values()
            self._check(self._c.abw_output(self._space, k, byref(output)))
            size, ends = output.shape[0] * output.shape[1], output.offsets[: len(lines) + 1]
            if output.labels:  # -1: a value is not a number
                labels = output.labels[: output.count]
                rows = [[output.names[n].decode() if output.names and n >= 0 else n] for n in labels]
                found[output.name.decode()] = [rows[a:b] for a, b in pairwise(ends)]
                continue
            rows = [output.values[v * size : (v + 1) * size] for v in range(output.count)]
            found[output.name.decode()] = [rows[a:b] for a, b in pairwise(ends)]
        return found

    def _check(self, code: int) -> None:
        if code:
            raise ValueError(self._c.abw_error(code).decode())


if __name__ == "__main__":
    library = Library(*sys.argv[1:])
    for line in sys.stdin:
        for name, (values,) in library([line.rstrip("\n")]).items():
            for value in values:
                print(name, *(n if isinstance(n, str) else f"{n:.9g}" for n in value))
