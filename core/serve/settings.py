"""What a server is told: the model it loads, and its limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from abw.core.base.errors import AbwError
from abw.core.exec.precision import Precision

# The modules that an engine runs: of a spec's model, and of a program.
ENGINE, PROGRAM_ENGINE = "abw.core.serve.engine", "abw.core.serve.program"


@dataclass(frozen=True, slots=True)
class Loading:
    """What the engine gives `abw.load`, as the options of `abw run` have it."""

    spec: str
    weights: str | None = None
    data: str | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    policy: str = "auto"
    executor: str = "cpu"
    precision: Precision = "float32"
    threads: int | None = None
    seed: int | None = None
    allow_outside: bool = False

    def document(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class LoadingProgram:
    """A program as `program.py:function`, and what its instances are; None where its file says it.

    `data`: instances that are run before it is ready.
    """

    target: str
    format: str
    weights: str | None = None
    data: str | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    policy: str | None = None
    executor: str | None = None
    precision: Precision | None = None
    threads: int | None = None
    seed: int | None = None
    allow_outside: bool = False

    def document(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much at once, and how long.

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
