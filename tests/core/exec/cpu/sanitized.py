"""The walker and kernels under LLVM's sanitizers: clang compiles the same IR for them to watch."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from abw.core.exec.cpu.target import get_target
from tests.core.exec.cpu.outside import Program

Sanitizer = Literal["thread", "address"]

# Earlier ones do not know the IR's words.
CLANG = next(filter(shutil.which, ("clang-21", "clang-20", "clang-19")), "")
# The exit code after a report.
FOUND = 66


class Sanitized(Program):
    """A program that is watched for races, or for memory used that is not its own."""

    def __init__(self, folder: Path, sanitizer: Sanitizer, change: Callable[[str], str] = str) -> None:
        """`change` makes of the module's IR what is to be watched."""
        # ThreadSanitizer looks at no more than 16 bytes of a vector
        super().__init__(get_target("plain" if sanitizer == "thread" else None), folder)
        self._sanitizer, self._change = sanitizer, change

    def link(self, text: str) -> None:
        """Compile with the sanitizer."""
        watched = re.sub(r"(?m)^(attributes #0 = \{)", rf"\1 sanitize_{self._sanitizer}", self._change(text))
        (self.folder / "kernels.ll").write_text(watched)
        command = f"{CLANG} -O1 -g -pthread -fsanitize={self._sanitizer} -o work driver.c kernels.ll"
        # it says which features of processors it does not know
        subprocess.run(command.split(), cwd=self.folder, check=True, capture_output=True)

    def start(self) -> list[str]:
        """With reports on standard error."""
        options = f"exitcode={FOUND}:halt_on_error=1"
        return ["env", f"TSAN_OPTIONS={options}", f"ASAN_OPTIONS={options}:detect_leaks=0", *super().start()]
