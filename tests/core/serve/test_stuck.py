"""An engine that is busy for nobody is replaced."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from abw.core.serve.answers import Reply
from abw.core.serve.process import main
from abw.core.serve.requests import LINES, Request

pytest.importorskip("prometheus_client", reason='needs the extra serve: pip install ".[serve]"')


class Stuck:
    """Answers all but `stuck`, which signals do not end either."""

    def about(self) -> dict[str, Any]:
        return {"name": "stuck", "format": "words", "outputs": []}

    def run(self, requests: Mapping[int, Request]) -> Iterator[tuple[int, Reply, int] | None]:
        for number, request in requests.items():
            if "stuck" in request.texts:
                time.sleep(100)
            yield number, Reply(200, b"well"), 0


def test_an_engine_that_is_busy_for_nobody_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    from abw.core.serve import dispatch
    from abw.core.serve.queue import Waiting
    from abw.core.serve.settings import Limits, Loading

    monkeypatch.setattr(dispatch, "STUCK", 0.3)

    async def serve() -> list[int]:
        dispatcher = dispatch.Dispatcher(Loading("stuck"), Limits(), __name__)
        task = asyncio.create_task(dispatcher.run())
        loop = asyncio.get_running_loop()
        found = []
        for text, wanted in (("a", True), ("stuck", False), ("b", True)):
            asked = dispatch.Asked(Request(LINES, False, [text], [1]), loop.create_future())
            dispatcher.put(Waiting(asked, 1, loop.time() + 60, loop.time()))
            if wanted:
                found.append((await asked.reply).status)
                continue
            while dispatcher.queue:  # until the engine has it
                await asyncio.sleep(0.01)
            asked.reply.cancel()  # it is not waited for any more
        found.append(int(dispatcher.metrics.restarts._value.get()))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return found

    assert asyncio.run(serve()) == [200, 200, 1]


if __name__ == "__main__":
    main(lambda loading, limits: Stuck())
