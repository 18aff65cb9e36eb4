"""A library under AddressSanitizer, loops and kernels included: whatever the bytes, a call ends in a code."""

from __future__ import annotations

import os
import platform
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.core.build.library import ROOT, lines_of, loaded
from tests.core.build.sanitized import ENVIRONMENT
from tests.core.exec.cpu.sanitized import CLANG, FOUND

pytestmark = pytest.mark.skipif(not CLANG, reason="not installed: clang 19 or later")

# Calls with texts from standard input, each in memory of its own size: instances, bytes, text.
DRIVER = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    abw_model *model = abw_load(NULL, NULL);
    abw_workspace *space = abw_new_workspace(model);
    unsigned size[2];
    while (fread(size, sizeof size, 1, stdin) == 1) {
        char *text = malloc(size[1] ? size[1] : 1);
        if (fread(text, 1, size[1], stdin) != size[1]) return 2;
        int code = abw_answer(space, text, size[1] + BEYOND, size[0]);
        float sum = 0;
        for (size_t k = 0; !code && k < abw_outputs(model); k++) {
            abw_values found;
            abw_output(space, k, &found);
            for (size_t i = 0; i < found.count * found.shape[0] * found.shape[1]; i++) sum += found.values[i];
            for (size_t i = 0; i < found.count; i++) sum += found.vertices[i];
            for (size_t i = 0; i <= size[0]; i++) sum += found.offsets[i];
        }
        printf("%d %g\\n", code, sum);
        free(text);
    }
    abw_free_workspace(space);
    abw_free(model);
    return 0;
}
"""


def mutated(lines: list[str], rng: np.random.Generator) -> bytes:
    """Lines with bytes changed, cut, doubled."""
    text = bytearray("\n".join(lines).encode())
    for _ in range(rng.integers(0, 4)):
        at = int(rng.integers(len(text)))
        match rng.integers(5):
            case 0:
                text[at] = rng.integers(256)
            case 1:
                del text[at : at + int(rng.integers(1, 9))]
            case 2:
                text[at:at] = text[at : at + int(rng.integers(1, 30))]
            case 3:
                text[at:at] = rng.choice(
                    [
                        b"(",
                        b")",
                        b"\xe2\x82",
                        b"\xc3",
                        b"\n",
                        b" ",
                        b"\t",
                        b"9999999999",
                        b"\xff",
                        b"\0",
                        b"\r",
                    ]
                )
            case 4:
                text = text[:at] or text
    return bytes(text)


SPECS = "treelstm", "lattice", "bilstm", "words"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the libraries are."""
    made = tmp_path_factory.mktemp("sanitized")
    kept = {"NUMBA_CACHE_DIR": str(made / "numba"), "ABW_HOME": str(made / "home")}
    command: list[str | Path] = [sys.executable, "-m", "tests.core.build.sanitized", made, *SPECS]
    subprocess.run(command, cwd=ROOT, env={**os.environ, **ENVIRONMENT, **kept}, check=True)
    (made / "driver.c").write_text(DRIVER)
    return made


@pytest.mark.parametrize("spec", SPECS)
def test_wrong_bytes_end_in_a_code(spec: str, folder: Path) -> None:
    rng, lines, given, count = np.random.default_rng(0), lines_of(loaded(spec), 30), b"", 400
    parting = "\n\x01\n" if spec == "lattice" else "\n"
    for n in range(count):
        some = [lines[i] for i in rng.integers(len(lines), size=rng.integers(1, 5))]
        text = parting.join(some).encode() if n % 10 == 0 else mutated(some, rng)
        told = len(some) if rng.integers(8) else int(rng.integers(1, 99))
        given += struct.pack("<II", told, len(text)) + text
    done = run(folder, spec, given)
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-3000:]
    codes = [int(line.split()[0]) for line in done.stdout.splitlines()]
    assert len(codes) == count
    assert {0, 1} <= {*codes} <= {0, 1, 2}


def test_what_reads_beyond_a_text_is_found(folder: Path) -> None:
    text = b"(2 (2 good) (2 film))"
    done = run(folder, "treelstm", struct.pack("<II", 1, len(text)) + text, beyond=1)
    assert done.returncode == FOUND
    assert b"heap-buffer-overflow" in done.stderr


def run(folder: Path, spec: str, given: bytes, beyond: int = 0) -> subprocess.CompletedProcess[bytes]:
    """Call a library; `beyond`: so many bytes more than each text has."""
    command = f"{CLANG} -g -DBEYOND={beyond} -fsanitize=address -shared-libasan -include {spec}.h driver.c"
    subprocess.run([*command.split(), f"./{spec}.so", "-o", "driver"], cwd=folder, check=True)
    runtime = subprocess.run(
        [CLANG, f"-print-file-name=libclang_rt.asan-{platform.machine()}.so"],
        capture_output=True,
        text=True,
        check=True,
    )
    env = {
        "ASAN_OPTIONS": f"exitcode={FOUND}:detect_leaks=1",
        "LD_LIBRARY_PATH": str(Path(runtime.stdout.strip()).parent),
    }
    return subprocess.run(["./driver"], cwd=folder, input=given, capture_output=True, env=env, check=False)
