"""Neural module networks (Andreas et al., 2016): each question says which modules answer it, and how."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import abw

net = abw.cells(Path(__file__).with_suffix(".yaml"), allow_outside=True)

# `("find", word)`, `("relate", word, question)` or `("both", question, question)`.
Question = tuple[Any, ...]


def answer(asked: tuple[int, Question]) -> int:
    """The number of the answer to a question about an image (a row)."""
    number, question = asked
    image = net.images[number]

    def there(part: Question) -> abw.Value:
        match part:
            case ("find", word):
                return net.find(image, net.words[word])
            case ("relate", word, other):
                return net.relate(there(other), net.words[word])
            case ("both", one, other):
                return net.both(there(one), there(other))
        raise ValueError(f"no module is called {part[0]!r}")

    found: int = net.describe(image, there(question)).argmax()
    return found
