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
_SPECIAL: Final = ("ClassVar", "InitVar", "KW_ONLY")


def defined(cls: type, *, slots: bool) -> Any:
    """Return a class with its fields, as the standard library defines it in half as long again.

    None where an annotation or a default needs what only that knows.
    """
    annotations = vars(cls).get("__annotations__")
    if annotations is None or "__slots__" in cls.__dict__ or "__abstractmethods__" in cls.__dict__:
        return None
    found: dict[str, dataclasses.Field[Any]] = {}
    for base in cls.__mro__[-1:0:-1]:
        found |= getattr(base, "__dataclass_fields__", {})
    values = {
        name: x
        for name, x in cls.__dict__.items()
        if name in annotations or isinstance(x, dataclasses.Field)
    }
    if not annotations.keys() >= values.keys():
        return None
    for name, kind in annotations.items():
        if not isinstance(kind, str) or any(x in kind for x in _SPECIAL):
            return None
        default = values.get(name, getattr(cls, name, dataclasses.MISSING))
        if not isinstance(default, dataclasses.Field):
            if default.__class__.__hash__ is None or isinstance(default, MemberDescriptorType):
                return None
            default = dataclasses.field(default=default)
        elif default.kw_only is not dataclasses.MISSING:
            return None
        default.name, default.type, default.kw_only = name, kind, False
        default._field_type = _KIND
        found[name] = default
    marks = {
        "__dataclass_params__": vars(_Model)["__dataclass_params__"],
        "__dataclass_fields__": found,
        "__match_args__": tuple([x.name for x in found.values() if x.init]),
        "__doc__": cls.__doc__ or cls.__name__,
    }
    return _with_slots(cls, marks) if slots else _marked(cls, marks)


def _marked(cls: Any, marks: dict[str, Any]) -> Any:
    """The class with marks; a default that is a field is what that says, if it says one."""
    for name, x in marks["__dataclass_fields__"].items():
        if isinstance(cls.__dict__.get(name), dataclasses.Field):
            if x.default is dataclasses.MISSING:
                delattr(cls, name)
            else:
                setattr(cls, name, x.default)
    for name, value in marks.items():
        if name != "__match_args__" or name not in cls.__dict__:
            setattr(cls, name, value)
    return cls


def _with_slots(cls: Any, marks: dict[str, Any]) -> Any:
    """The same class made again, with a slot for each field that no base has one for."""
    names = marks["__dataclass_fields__"]
    taken = {x for base in cls.__mro__[1:-1] for x in base.__dict__.get("__slots__", ())}
    inside = {k: x for k, x in cls.__dict__.items() if k not in names and k not in _OWN}
    inside = {**marks, **inside, "__doc__": marks["__doc__"]}
    inside["__slots__"] = tuple([x for x in names if x not in taken])
    made = type(cls)(cls.__name__, cls.__bases__, inside)
    made.__qualname__ = cls.__qualname__
    return made


_OWN: Final = frozenset({"__dict__", "__weakref__"})
