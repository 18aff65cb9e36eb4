"""What runs in a process of its own harms nothing else, whatever becomes of it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from abw.bench.process import Apart
from abw.core.base.errors import AbwError


class Fragile:
    """Counts its calls, and comes to harm in several ways."""

    def __init__(self, start: int) -> None:
        if start < 0:
            raise AbwError("no such start", hint="another one")
        self.count = start

    def counted(self) -> tuple[int, int]:
        self.count += 1
        return os.getpid(), self.count

    def failed(self) -> None:
        raise AbwError("it failed", hint="do this")

    def defect(self) -> None:
        raise ValueError("a defect")

    def dies(self) -> None:
        os._exit(7)

    def hangs(self) -> None:
        time.sleep(1000)


@pytest.fixture
def apart() -> Iterator[Apart]:
    made = Apart(Fragile, 10, seconds=60)
    yield made
    made.close()


def test_calls_find_the_same_object_until_one_fails(apart: Apart) -> None:
    process, count = apart.call("counted")
    assert process != os.getpid()
    assert (count, apart.call("counted")) == (11, (process, 12))
    with pytest.raises(AbwError, match="it failed") as caught:
        apart.call("failed")
    assert caught.value.hint == "do this"
    other, count = apart.call("counted")
    assert (other != process, count) == (True, 11)
    with pytest.raises(AbwError, match="ValueError: a defect"):
        apart.call("defect")
    with pytest.raises(AbwError, match="exit code 7"):
        apart.call("dies")
    assert apart.call("counted")[1] == 11
    apart._seconds = 0.5
    with pytest.raises(AbwError, match=r"no answer within 0|no answer within 1"):
        apart.call("hangs")
    apart._seconds = 60
    assert apart.call("counted")[1] == 11


def test_what_cannot_be_made_is_told() -> None:
    apart = Apart(Fragile, -1, seconds=60)
    with pytest.raises(AbwError, match="no such start"):
        apart.call("counted")
    apart.close()
