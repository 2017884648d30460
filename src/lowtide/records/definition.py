"""Fields of data classes, where nothing special is said of them."""

from __future__ import annotations

import dataclasses
from types import MemberDescriptorType
from typing import Any, Final


@dataclasses.dataclass(init=False, repr=False, eq=False)
class _Model:
    """A class of the standard library, of which those made here have the marks."""

    field: int


_KIND: Final[Any] = dataclasses.fields(_Model)[0]._field_type  # type: ignore[attr-defined]
_PARAMS: Final = vars(_Model)["__dataclass_params__"]
_FIELDS: Final = "__dataclass_fields__"


def defined(cls: type, inside: dict[str, Any], *, slots: bool) -> Any:
    """Return a class with its fields, as the standard library defines it in twice as long.

    `inside` is what the class has besides, where it does not define it itself. None where an
    annotation or a default needs what only the standard library knows.
    """
    own = cls.__dict__
    annotations = own.get("__annotations__")
    if annotations is None or "__slots__" in own or "__abstractmethods__" in own:
        return None
    if [k for k, x in own.items() if x.__class__ is dataclasses.Field and k not in annotations]:
        return None
    shown: dict[str, bool] = {}
    for base in cls.__mro__[-2:0:-1]:
        shown |= {name: x.init for name, x in getattr(base, _FIELDS, {}).items()}
    defaults = {}
    for name, kind in annotations.items():
        default = own.get(name, dataclasses.MISSING)
        if default is dataclasses.MISSING and len(cls.__mro__) > 2:
            default = getattr(cls, name, default)
        if not _is_plain(kind, default):
            return None
        defaults[name] = default
        shown[name] = default.__class__ is not dataclasses.Field or default.init
    inside = {
        "__dataclass_params__": _PARAMS,
        _FIELDS: _LateFields(annotations, defaults),
        "__match_args__": tuple([name for name, is_shown in shown.items() if is_shown]),
        **inside,
        "__doc__": cls.__doc__ or cls.__name__,
    }
    return _with_slots(cls, inside, shown) if slots else _marked(cls, inside, defaults)


def _is_plain(kind: object, default: Any) -> bool:
    """Whether an annotation and a default, or what a field says, need nothing special."""
    if not isinstance(kind, str) or "Var" in kind or "KW_ONLY" in kind:  # InitVar, ClassVar.
        return False
    if default.__class__ is dataclasses.Field:
        return default.kw_only is dataclasses.MISSING
    return default.__class__.__hash__ is not None and default.__class__ is not MemberDescriptorType


class _LateFields:
    """The fields of a class, made when somebody first asks: of most classes nobody does."""

    __slots__ = ("_annotations", "_defaults", "_owner")

    def __init__(self, annotations: dict[str, str], defaults: dict[str, Any]) -> None:
        self._annotations = annotations
        self._defaults = defaults

    def __set_name__(self, owner: type, _: str) -> None:
        self._owner = owner

    def __get__(self, _: object, __: type) -> dict[str, dataclasses.Field[Any]]:
        found: dict[str, dataclasses.Field[Any]] = {}
        for base in self._owner.__mro__[-2:0:-1]:
            found |= getattr(base, _FIELDS, {})
        for name, kind in self._annotations.items():
            made: Any = self._defaults[name]
            if made.__class__ is not dataclasses.Field:
                made = dataclasses.field(default=made)
            made.name, made.type, made.kw_only, made._field_type = name, kind, False, _KIND
            found[name] = made
        setattr(self._owner, _FIELDS, found)
        return found


def _marked(cls: Any, inside: dict[str, Any], defaults: dict[str, Any]) -> Any:
    """The class with what it does not have; a default that is a field is what that says, if any."""
    for name, x in defaults.items():
        if x.__class__ is dataclasses.Field:
            if x.default is dataclasses.MISSING:
                delattr(cls, name)
            else:
                setattr(cls, name, x.default)
    for name, value in inside.items():
        if name not in cls.__dict__ or name == "__doc__":
            setattr(cls, name, value)
    inside[_FIELDS].__set_name__(cls, _FIELDS)
    return cls


def _with_slots(cls: Any, inside: dict[str, Any], names: dict[str, bool]) -> Any:
    """The same class made again, with a slot for each field that no base has one for."""
    taken = {x for base in cls.__mro__[1:-1] for x in base.__dict__.get("__slots__", ())}
    kept = {k: x for k, x in cls.__dict__.items() if k not in names and k not in _MADE_AGAIN}
    inside |= kept
    inside["__slots__"] = tuple([x for x in names if x not in taken])
    made = type(cls)(cls.__name__, cls.__bases__, inside)
    made.__qualname__ = cls.__qualname__
    return made


_MADE_AGAIN: Final = frozenset({"__dict__", "__weakref__", "__doc__"})
