"""Passes by name, and lists of passes as one writes them on a command line."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from importlib import import_module
from math import isfinite
from typing import TYPE_CHECKING, Final, NoReturn

from lowtide.ir import Module
from lowtide.passes.interface import LatePass, OptionValue, Pass, PassError
from lowtide.passes.table import TABLE
from lowtide.records.late import late_pattern
from lowtide.suggestions import nearest

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_GROUP: Final = "lowtide.passes"
"""The group of entry points by which other packages add passes."""


@cache
def passes() -> Mapping[str, Pass]:
    """Return all passes by name, in alphabetical order.

    One that another package adds and that cannot be loaded, or has a name that is taken, says why
    in its sentence, and raises PassError where it is to run.
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
    return {name: own_pass(name) for name in TABLE}


@cache
def own_pass(name: str) -> Pass:
    """Return a pass of the table, whose module has it in a tuple `PASSES`."""
    module = import_module(f"lowtide.{TABLE[name].module}")
    (found,) = [x for x in module.PASSES if x.name == name]
    step: Pass = found
    return step


def late_passes(names: str) -> tuple[Pass, ...]:
    """Return our own passes of a list `a,b`: they are loaded when they run, if they have to.

    They say nothing of themselves but their names and what they need.
    """
    return tuple([_late(name) for name in names.split(",")])


@cache
def _late(name: str) -> Pass:
    row = TABLE[name]
    return Pass(name, LatePass(partial(own_pass, name), row.takes), "", "", "", needs=row.needs)


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

    return Pass(name, refuse, sentence, before="")


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


_ITEM: Final = late_pattern(r"\s*(?P<name>[\w.-]+)\s*(?:\{(?P<options>[^{}]*)\})?\s*(?:,|$)")


def _configured(name: str, options: str | None) -> Pass:
    known = TABLE if name in TABLE else passes()
    if name not in known:
        hint = nearest(name, known) or ";"
        raise PassError(f"unknown pass {name!r}{hint} `lowtide passes` lists all")
    step = own_pass(name) if name in TABLE else passes()[name]
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
