"""An engine that repeats instances, and takes as long as it is told; a server of such engines.

Its answers have the text of the instance and that of its file of weights. `die` ends the process.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from abw.core.base.errors import AbwError
from abw.core.serve.answers import Reply
from abw.core.serve.process import main
from abw.core.serve.requests import Request
from abw.core.serve.settings import Limits, Loading, Serving

SECONDS = "STUB_SECONDS"
# Seconds until an engine is ready.
START = "STUB_START"


class Stub:
    def __init__(self, loading: Loading) -> None:
        self.name = loading.target
        self.weights = Path(loading.weights).read_text() if loading.weights else ""
        self.seconds = float(os.environ.get(SECONDS, "0"))
        time.sleep(float(os.environ.get(START, "0")))
        if self.weights == "bad":
            raise AbwError("the weights are bad", hint="take good ones")

    def about(self) -> dict[str, Any]:
        return {"name": self.name, "format": "words", "outputs": []}

    def run(self, requests: Mapping[int, Request]) -> Iterator[tuple[int, Reply, int] | None]:
        for number, request in requests.items():
            time.sleep(self.seconds * len(request))
            if "die" in request.texts:
                os.abort()
            answers = [
                json.dumps(
                    {"id": request.first + i, "said": text, "weights": self.weights, "model": self.name}
                )
                for i, text in enumerate(request.texts)
            ]
            yield number, Reply(200, ("\n".join(answers) + "\n").encode()), 0


def serve(options: Mapping[str, Any]) -> None:
    from abw.core.serve.server import serve as run

    weights = options.get("weights")
    models = tuple(Loading(name, weights=weights) for name in options.get("models", ["stub"]))
    uds = Path(options["uds"]) if "uds" in options else None
    engines, spare = options.get("engines", 1), options.get("spare", False)
    names = tuple(options.get("names", ()))
    try:
        run(
            Serving(models, uds=uds, names=names, engines=engines, spare=spare, module=__spec__.name),
            Limits(**options.get("limits", {})),
        )
    except AbwError as error:
        sys.exit(f"error: {error} {error.hint}")


if __name__ == "__main__":
    if sys.argv[1].isdigit():
        main(lambda loading, limits: Stub(loading))
    else:
        serve(json.loads(sys.argv[1]))
