"""An engine that is busy for nobody is replaced."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from abw.core.serve import dispatch
from abw.core.serve.answers import Reply
from abw.core.serve.fleet import Plan
from abw.core.serve.link import Asked
from abw.core.serve.process import main
from abw.core.serve.queue import Waiting
from abw.core.serve.requests import LINES, BodyError, Request
from abw.core.serve.settings import Limits, Loading


class Stuck:
    """Answers all but `stuck`, which signals do not end either."""

    def about(self) -> dict[str, Any]:
        return {"name": "stuck", "format": "words", "outputs": []}

    def run(self, requests: Mapping[int, Request]) -> Iterator[tuple[int, Reply, int] | None]:
        for number, request in requests.items():
            if "stuck" in request.texts:
                time.sleep(100)
            yield number, Reply(200, b"well"), 0


class Waits:
    """Whoever asks."""

    def __init__(self, text: str) -> None:
        self.request = Request(LINES, False, [text], [1])
        self.reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

    def answer(self, reply: Reply) -> None:
        self.reply.set_result(reply)

    def refuse(self, error: BodyError) -> None:
        self.reply.set_exception(error)


def test_an_engine_that_is_busy_for_nobody_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "STUCK", 0.3)

    async def serve() -> list[int]:
        dispatcher = dispatch.Dispatcher(Plan(Loading("stuck"), Limits(), __name__))
        task = asyncio.create_task(dispatcher.run())
        found = []
        for text, wanted in (("a", True), ("stuck", False), ("b", True)):
            asked = Waits(text)
            waiting: Waiting[Asked] = Waiting(asked, 1, time.monotonic() + 60, time.monotonic())
            dispatcher.put(waiting)
            if wanted:
                found.append((await asked.reply).status)
                continue
            while dispatcher.queue:  # until the engine has it
                await asyncio.sleep(0.01)
            dispatcher.queue.leave(waiting)  # it is not waited for any more
            while not dispatcher.metrics.restarts:
                dispatcher.tick()
                await asyncio.sleep(0.01)
        found.append(dispatcher.metrics.restarts)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return found

    assert asyncio.run(serve()) == [200, 200, 1]


if __name__ == "__main__":
    main(lambda loading, limits: Stuck())
