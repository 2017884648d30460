"""Data classes whose methods are made when they are first called.

`dataclasses.dataclass` compiles the text of up to six methods for each class, which for the classes
of a compiler takes as long as loading the rest of it. The decorator here makes classes that behave
alike, for `replace`, `fields` and copies too. A method that is called puts the real one into its
place. What differs: `inspect.signature` sees less, and a frozen class that inherits from one made
here is made here, too. So classes that users make are made by the standard library.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from reprlib import recursive_repr
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from lowtide.records.definition import defined

Method: TypeAlias = Callable[..., Any]


def _record(
    cls: type | None = None, /, *, frozen: bool = False, eq: bool = True, slots: bool = False
) -> Any:
    """Return a class as a data class; the arguments are those of `dataclasses.dataclass`.

    Raises TypeError for a field by keyword only, and a frozen class that defines how it is changed.
    """
    if cls is None:
        return lambda given: _record(given, frozen=frozen, eq=eq, slots=slots)
    made: Any = defined(cls, slots=slots)
    if made is None:
        made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
    made.__is_frozen__ = frozen
    if [x for x in dataclasses.fields(made) if x.kw_only]:
        raise TypeError(f"{cls.__name__} has a field by keyword only, which is not for records")
    has_own_hash = made.__dict__.get("__hash__") is not None
    _give(made, "__init__", _first_init(made))
    _give(made, "__repr__", _shown)
    if eq:
        _give(made, "__eq__", _later(made, "__eq__"))
    if eq and not has_own_hash:
        made.__hash__ = _later(made, "__hash__") if frozen else None
    if frozen:
        _freeze(made)
    if frozen and slots:
        _give(made, "__getstate__", _state)
        _give(made, "__setstate__", _restore)
    return made


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    dataclass = _record


def is_frozen(cls: Any) -> bool:
    """Return whether values of a data class, made here or by the standard library, are frozen."""
    return bool(cls.__dict__.get("__is_frozen__", cls.__dataclass_params__.frozen))


def _give(cls: type, name: str, method: Method) -> None:
    """Give a method to a class that does not define it."""
    if name not in cls.__dict__:
        setattr(cls, name, method)


# -- methods from text -----------------------------------------------------------------------------


def _later(cls: type, name: str) -> Method:
    """A method that has the real one made, puts it into its place, and calls it."""

    def method(*values: Any, **named: Any) -> Any:
        return _put(cls, name, method)(*values, **named)

    method.__name__ = name
    return method


def _put(cls: type, name: str, instead_of: Method) -> Method:
    """The real method, which is in its place afterwards."""
    real = _WRITERS[name](cls)
    real.__qualname__ = f"{cls.__qualname__}.{name}"
    if cls.__dict__.get(name) is instead_of:
        setattr(cls, name, real)
    return real


def _first_init(cls: type) -> Method:
    """An `__init__` that sets fields one by one a few times, until it is worth a real one.

    Most classes have few values in a process, and the text of a method takes as long to compile as
    twenty values take to be filled.
    """
    left = _FEW

    def method(self: Any, *values: Any, **named: Any) -> None:
        nonlocal left
        left -= 1
        found = _arguments(cls, values, named) if left >= 0 else None
        if found is None:  # Often enough, or what does not fit, which the real one says.
            _put(cls, "__init__", method)(self, *values, **named)
            return
        for name, value in found.items():
            object.__setattr__(self, name, value)
        if hasattr(cls, "__post_init__"):
            self.__post_init__()

    method.__name__ = "__init__"
    return method


_FEW: Final = 8


def _arguments(cls: Any, values: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any] | None:
    """The value of each field that gets one, None where the arguments do not fit."""
    fields = dataclasses.fields(cls)
    given = dict(zip([x.name for x in fields if x.init], values, strict=False))
    if len(given) < len(values) or not given.keys().isdisjoint(named):
        return None
    given |= named
    found = {}
    taken = 0
    for x in fields:
        if x.init and x.name in given:
            found[x.name] = given[x.name]
            taken += 1
        elif x.default_factory is not dataclasses.MISSING:
            found[x.name] = x.default_factory()
        elif x.default is not dataclasses.MISSING:
            found[x.name] = x.default
        elif x.init:
            return None
    return found if taken == len(given) else None


def _compiled(head: str, lines: list[str], known: dict[str, Any]) -> Method:
    """The function of a text that sees what is known by name, and the builtins."""
    found: dict[str, Method] = {}
    exec("\n ".join([f"def method({head}):", *lines]), known, found)
    return found["method"]


def _init(cls: Any) -> Method:
    """Sets the fields from arguments, in order, and from defaults."""
    known: dict[str, Any] = {"set_": object.__setattr__, "missing_": dataclasses.MISSING}
    head, lines = ["self_"], []
    for x in dataclasses.fields(cls):
        has_default, has_maker = (
            y is not dataclasses.MISSING for y in (x.default, x.default_factory)
        )
        made = f"made_{x.name}"
        known[made] = x.default_factory if has_maker else x.default
        value = x.name
        if x.init:
            otherwise = "missing_" if has_maker else made
            head.append(f"{x.name}={otherwise}" if has_default or has_maker else x.name)
        if has_maker:
            value = f"{made}() if {x.name} is missing_ else {x.name}" if x.init else f"{made}()"
        elif not x.init:
            value = made
        if x.init or has_maker or has_default:
            lines.append(_setting(cls, x.name, value, known))
    if hasattr(cls, "__post_init__"):
        lines.append("self_.__post_init__()")
    return _compiled(", ".join(head), lines or ["pass"], known)


def _setting(cls: Any, name: str, value: str, known: dict[str, Any]) -> str:
    """The line that sets a field; a slot of a frozen class is filled past `__setattr__`."""
    if not cls.__is_frozen__:
        return f"self_.{name} = {value}"
    slot = getattr(cls, name, None)
    if not isinstance(slot, MemberDescriptorType):
        return f"set_(self_, '{name}', {value})"
    known[f"set_{name}_"] = slot.__set__
    return f"set_{name}_(self_, {value})"


def _values(cls: Any, owner: str, *, hashed: bool = False) -> str:
    """The text of a tuple of the values that equality or the hash is about."""
    named = [
        x.name
        for x in dataclasses.fields(cls)
        if (x.compare if x.hash is None or not hashed else x.hash)
    ]
    return f"({''.join([f'{owner}.{x}, ' for x in named])})"


def _equality(cls: Any) -> Method:
    """Whether another value has the same class and equal fields."""
    values = f"{_values(cls, 'self')} == {_values(cls, 'other')}"
    line = f"return {values} if other.__class__ is self.__class__ else NotImplemented"
    return _compiled("self, other", [line], {})


def _hash(cls: Any) -> Method:
    """The hash of the values of fields."""
    return _compiled("self", [f"return hash({_values(cls, 'self', hashed=True)})"], {})


_WRITERS: Final[dict[str, Callable[[Any], Method]]] = {
    "__init__": _init,
    "__eq__": _equality,
    "__hash__": _hash,
}


# -- methods that all classes share ----------------------------------------------------------------


@recursive_repr()
def _shown(self: Any) -> str:
    """The class and its fields, as code."""
    values = [f"{x.name}={getattr(self, x.name)!r}" for x in dataclasses.fields(self) if x.repr]
    return f"{self.__class__.__qualname__}({', '.join(values)})"


def _freeze(cls: Any) -> None:
    """Have values of a class refuse changes, but of attributes that a subclass adds."""
    names = frozenset([x.name for x in dataclasses.fields(cls)])

    def set_attribute(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete_attribute(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    for name, method in (("__setattr__", set_attribute), ("__delattr__", delete_attribute)):
        if name in cls.__dict__:
            raise TypeError(f"{cls.__name__} is frozen and defines {name}")
        setattr(cls, name, method)


def _state(self: Any) -> list[Any]:
    """The values of all fields, for copies."""
    return [getattr(self, x.name) for x in dataclasses.fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    """Give a new value the fields of another one."""
    for x, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, x.name, value)


__all__ = ["dataclass", "is_frozen"]
