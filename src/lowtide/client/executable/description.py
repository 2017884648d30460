"""Descriptions of programs: the scheduled HLO that runs, and the memory that it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, final


@final
class Description:
    """Text and memory report of a program, each made when it is first asked for.

    `base` is the text of the module within whose budget the program is, "" without a bound for
    that. `arena_bytes`, what a call needs beyond its arguments, are known from the start.
    """

    def __init__(
        self,
        text: Callable[[], str],
        memory: Callable[[], Mapping[str, Any]],
        arena_bytes: int,
        base: str = "",
    ) -> None:
        self._text: Callable[[], str] | None = text
        self._memory: Callable[[], Mapping[str, Any]] | None = memory
        self.arena_bytes = arena_bytes
        self.base = base

    @cached_property
    def text(self) -> str:
        """The scheduled HLO that runs; what it was made of is given up."""
        assert self._text is not None
        made, self._text = self._text(), None
        return made

    @cached_property
    def memory(self) -> Mapping[str, Any]:
        """What a call needs, in the schema "lowtide.memory/1"; what it was made of is given up."""
        assert self._memory is not None
        made, self._memory = self._memory(), None
        return made

    def complete(self) -> None:
        """Make all that is not made yet."""
        _ = self.text, self.memory


def described(text: str, memory: Mapping[str, Any], base: str = "") -> Description:
    """Return a description that is known in full."""
    return Description(lambda: text, lambda: memory, int(memory["ladder"]["arena_bytes"]), base)
