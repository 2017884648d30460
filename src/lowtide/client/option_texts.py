"""Options as texts: from `compiler_options` of JAX and from the environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Final

from lowtide.ir.errors import LowtideError
from lowtide.options import EFFORTS, OPTIONS_VARIABLE, Options, options_text
from lowtide.suggestions import nearest


class OptionError(LowtideError, ValueError):
    """An option that there is not, or that cannot have its value."""


def options_from_texts(given: Mapping[str, Any], source: str) -> Options:
    """Return options with values of some fields, each of which may be a text.

    Numbers, true and false are also taken as texts, "none" for no value, and a `check` that is true
    means the first call. `source` is what the values came by, for messages. Raises OptionError for
    a name that no option has and for what an option cannot be.
    """
    values: dict[str, Any] = {}
    for name, value in given.items():
        kind = _KINDS.get(name)
        if kind is None:
            raise OptionError(
                f"No such compile option: {name!r}{nearest(name, _KINDS)} ({source}; there are "
                f"{', '.join(_KINDS)})"
            )
        values[name] = _converted(name, value, kind, source)
    try:
        return Options(**values)
    except ValueError as error:
        raise OptionError(f"{error} ({source})") from error


_OWN_KINDS: Final = {"memory": "size", "effort": "effort", "check": "check"}
"""Options whose values have a form of their own."""

_KIND_OF_TYPE: Final = {
    "bool": "bool",
    "float": "number",
    "float | None": "number",
    "int": "whole number",
    "str": "text",
}
_KINDS: Final = {
    x.name: _OWN_KINDS.get(x.name) or _KIND_OF_TYPE[str(x.type)] for x in fields(Options)
}
"""What values the options have, which may all be given for a program of JAX."""

_BOOLS: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def _converted(name: str, value: Any, kind: str, source: str) -> Any:
    """A value of the type that an option has; raises OptionError."""
    text = str(value).strip()
    lower = text.lower()
    if kind == "check" and lower in _BOOLS:
        return "first" if _BOOLS[lower] else "never"
    if kind == "bool" and lower in _BOOLS:
        return _BOOLS[lower]
    if kind == "size":
        return None if lower == "none" else text
    if kind == "effort" and text in EFFORTS:
        return text
    if kind in ("text", "check"):
        return text
    if kind == "number" and lower == "none":
        return None
    if kind in _NUMBERS and not isinstance(value, bool):
        try:
            return _NUMBERS[kind](text)
        except ValueError:
            pass
    if kind == "effort":
        raise OptionError(f"effort is one of {', '.join(EFFORTS)}; found {value!r} ({source})")
    raise OptionError(f"option {name}: {value!r} is not a valid {kind} value. ({source})")


_NUMBERS: Final[dict[str, Callable[[str], float]]] = {"whole number": int, "number": float}


def environment_options() -> dict[str, str]:
    """Return what LOWTIDE_OPTIONS says, "name=value,name=value", by name; raises OptionError."""
    given = options_text()
    found: dict[str, str] = {}
    for part in [x for x in given.split(",") if x.strip()]:
        name, equals, value = part.partition("=")
        if not equals or name.strip() in found:
            raise OptionError(
                f"{OPTIONS_VARIABLE} is name=value,name=value with each name once; found {given!r}"
            )
        found[name.strip()] = value.strip()
    return found
