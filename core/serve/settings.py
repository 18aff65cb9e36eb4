"""The settings of a server: the model it loads, and its limits."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from abw.core.base.errors import AbwError
from abw.core.exec.precision import Precision
from abw.core.graph.equal.consing import DedupMode


@dataclass(frozen=True, slots=True)
class Loading:
    """What an engine loads: a spec, or a program as `program.py:function` with the `format` of its data.

    The options are those of `abw run`; None where the spec, the program's file or `abw.load` decides. `data`:
    instead of the spec's; instances that a program is run on before it is ready.
    """

    target: str
    format: str | None = None
    weights: str | None = None
    data: str | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    policy: str | None = None
    executor: str | None = None
    precision: Precision | None = None
    dedup: DedupMode | None = None
    threads: int | None = None
    seed: int | None = None
    allow_outside: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """The settings of a spec, as arguments of `abw.load`."""
        found = asdict(self)
        return {name: found[name] for name in found.keys() - {"target", "format"} if found[name] is not None}

    def files(self) -> list[tuple[int, int, int]]:
        """What changes when the spec, the program or the weights are written again: inodes, times, sizes."""
        found = []
        for name in (self.target, self.target.rpartition(":")[0], self.weights or ""):
            with suppress(OSError):
                at = Path(name).stat()
                if stat.S_ISREG(at.st_mode):
                    found.append((at.st_ino, at.st_mtime_ns, at.st_size))
        return found

    @property
    def module(self) -> str:
        """The module that the engine's process runs."""
        return f"abw.core.serve.{'engine' if self.format is None else 'program'}"


@dataclass(frozen=True, slots=True)
class Serving:
    """What a server serves, and where it listens: on `host` and `port`, or on the Unix socket `uds`.

    Each model has `engines` processes, and another one in reserve if `spare`. `names`: the models' in
    addresses, if not as their specs have them; `module`: what engines run instead of the loading's.
    """

    models: tuple[Loading, ...]
    host: str = "127.0.0.1"
    port: int = 0
    uds: Path | None = None
    names: tuple[str, ...] = ()
    engines: int = 1
    spare: bool = False
    module: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on sizes and times.

    `batch` instances with `nodes` vertices are in a mini-batch at most, or one instance with more; `queue`
    instances wait. Seconds: `wait` for more instances while the engine is idle; `timeout` from a request's
    last byte to its answer, and from its first byte to its last; `drain` until all are answered at the end.
    `body`: bytes of a request.
    """

    batch: int = 64
    nodes: int = 16384
    queue: int = 1024
    wait: float = 0.0
    timeout: float = 1.0
    body: int = 1 << 20
    drain: float = 30.0

    def __post_init__(self) -> None:
        """Errors: AbwError for what is less than it can be."""
        for f in fields(self):
            value = getattr(self, f.name)
            least = 0 if f.name in ("wait", "drain") else 1 if f.type == "int" else 1e-3
            if not least <= value < 1 << 40:
                raise AbwError(f"{f.name} cannot be {value:g}", hint=f"from {least:g}", exit_code=2)
