"""Static arguments of a function: compiled into the program, and part of its key."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, final

Numbers: TypeAlias = "int | Sequence[int] | None"
Names: TypeAlias = "str | Iterable[str] | None"


@final
class StaticArguments:
    """Which arguments are static: names and positions, from the end of a call's where negative."""

    __slots__ = ("names", "positions")

    def __init__(self, positions: frozenset[int], names: frozenset[str]) -> None:
        self.positions = positions
        self.names = names

    def __bool__(self) -> bool:
        return bool(self.positions or self.names)

    @classmethod
    def of(cls, function: Callable[..., Any], numbers: Numbers, names: Names) -> StaticArguments:
        """Read what the caller named.

        Where only positions or only names are given, the signature tells the others, as in JAX.
        """
        order = _positional(function)
        places = [numbers] if isinstance(numbers, int) else list(numbers or ())
        known = [names] if isinstance(names, str) else list(names or ())
        if names is None:
            known = [order[i] for i in places if -len(order) <= i < len(order)]
        if numbers is None:
            places = [i for i, name in enumerate(order) if name in known]
        return cls(frozenset(places), frozenset(known))

    def split(
        self, arguments: Sequence[Any], keywords: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any], tuple[Any, ...]]:
        """Return the dynamic arguments, the dynamic keywords, and the static ones for a key."""
        names, count = self.names, len(arguments)
        places = {i + count if i < 0 else i for i in self.positions}
        dynamic = tuple([x for i, x in enumerate(arguments) if i not in places])
        named = {name: x for name, x in keywords.items() if name not in names}
        fixed = [(i, type(x), x) for i, x in enumerate(arguments) if i in places]
        given = sorted(names & {*keywords})
        known = [(name, type(keywords[name]), keywords[name]) for name in given]
        return dynamic, named, (*fixed, *known)


def _positional(function: Callable[..., Any]) -> list[str]:
    """Return the names of the parameters that may be given by position; none where unknown."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [x.name for x in parameters if x.kind in kinds]
