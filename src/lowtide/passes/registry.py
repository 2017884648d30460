"""Passes by name, and lists of passes as one writes them on a command line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from math import isfinite
from pkgutil import walk_packages
from typing import TYPE_CHECKING, Final, NoReturn

from lowtide.ir import Module
from lowtide.ir.suggestions import nearest
from lowtide.passes.interface import OptionValue, Pass, PassError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_PACKAGES: Final = ("lowtide.transforms", "lowtide.fusion")
"""Where passes are looked for: each module with a tuple `PASSES` adds those in it."""

_GROUP: Final = "lowtide.passes"
"""The group of entry points by which other packages add passes."""


@cache
def passes() -> Mapping[str, Pass]:
    """Return all passes by name, in alphabetical order.

    One that another package adds and that cannot be loaded, or has a name that is taken, says why
    in its sentence, and raises PassError where it is to run. Raises PassError where two of our own
    have one name.
    """
    from importlib.metadata import entry_points  # It is slow to load; compiling rarely needs it.

    found = dict(_own_passes())
    for point in sorted(entry_points(group=_GROUP)):
        step = _loaded(point)
        if step.name in found:
            package = point.dist.name if point.dist is not None else point.value
            taken = f"there is a pass {step.name} already"
            step = _refused(point, f"{step.name} of {package}", taken)
        found[step.name] = step
    return dict(sorted(found.items()))


@cache
def _own_passes() -> Mapping[str, Pass]:
    """The passes of lowtide itself by name."""
    found: dict[str, Pass] = {}
    for step in _own():
        if step.name in found:
            raise PassError(f"two passes have the name {step.name}")
        found[step.name] = step
    return found


def _own() -> Iterator[Pass]:
    for package in _PACKAGES:
        root = import_module(package)
        for info in walk_packages(root.__path__, f"{package}."):
            yield from getattr(import_module(info.name), "PASSES", ())


def _loaded(point: EntryPoint) -> Pass:
    """The pass of another package, or one that says why there is none as soon as it runs."""
    try:
        step = point.load()
        if isinstance(step, Pass):
            step.check_options()
            return step
        reason = f"{point.value} is no Pass"
    except Exception as error:  # whatever importing a package may raise
        reason = f"{type(error).__name__}: {error}"
    return _refused(point, point.name, reason)


def _refused(point: EntryPoint, name: str, reason: str) -> Pass:
    sentence = f"entry point {point.name} of {point.group} cannot be used: {reason}"

    def refuse(module: Module) -> NoReturn:
        raise PassError(sentence)

    return Pass(name, refuse, sentence, before="", after="")


def parse_passes(text: str) -> tuple[Pass, ...]:
    """Return the passes of a list like `a,b{k=v,l=w}`; raises PassError for what is not known."""
    found = []
    position = 0
    while position < len(text):
        match = _ITEM.match(text, position)
        if match is None:
            raise PassError(
                f"expected `name` or `name{{option=value,...}}` at column {position + 1} of "
                f"{text!r}"
            )
        found.append(_configured(match["name"], match["options"]))
        position = match.end()
    return tuple(found)


_ITEM: Final = re.compile(r"\s*(?P<name>[\w.-]+)\s*(?:\{(?P<options>[^{}]*)\})?\s*(?:,|$)")


def _configured(name: str, options: str | None) -> Pass:
    known = _own_passes()
    if name not in known:
        known = passes()
    if name not in known:
        hint = nearest(name, known) or ";"
        raise PassError(f"unknown pass {name!r}{hint} `lowtide passes` lists all")
    step = known[name]
    values = {}
    for item in (options or "").split(","):
        if not item.strip():
            continue
        key, equals, value = item.partition("=")
        if not equals:
            raise PassError(f"option {item.strip()!r} of pass {name}: expected option=value")
        values[key.strip()] = _value(step, key.strip(), value.strip())
    return step.with_options(**values)


def _value(step: Pass, key: str, text: str) -> OptionValue:
    """The value of an option, read as its default is written."""
    default = step.defaults.get(key)
    if isinstance(default, bool):
        return {"true": True, "false": False}.get(text.lower(), text)
    if isinstance(default, int | float):
        try:
            value = type(default)(text)
        except ValueError:
            return text
        return value if isfinite(value) else text
    return text
