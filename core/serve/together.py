"""Requests whose instances are run together: whose each is, and what has come of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from abw.core.serve.requests import Request

T = TypeVar("T")


class Together(Generic[T]):
    """The instances of requests, numbered through, and what comes of them.

    `owner`: of each its request and its number in that; `line`: on which it begins there.
    """

    def __init__(self, requests: Mapping[int, Request]) -> None:
        """Nothing has come of any yet."""
        self.owner = [(r, i) for r, request in requests.items() for i in range(len(request))]
        self.line = [requests[r].lines[i] for r, i in self.owner]
        self._found: dict[int, dict[int, T]] = {r: {} for r in requests}
        self._sizes = {r: len(request) for r, request in requests.items()}

    def settle(self, at: int, found: T) -> Iterator[tuple[int, list[T]]]:
        """Note what came of an instance; its request with that of all its own, if it was the last of them."""
        r, i = self.owner[at]
        own = self._found[r]
        own[i] = found
        if len(own) == self._sizes[r]:
            yield r, [own[i] for i in range(len(own))]
