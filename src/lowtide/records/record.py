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
from operator import attrgetter
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
    owner: list[type] = []
    inside = _methods(cls, owner, frozen=frozen, eq=eq)
    if frozen and slots:
        inside |= {"__getstate__": _state, "__setstate__": _restore}
    made: Any = defined(cls, inside, slots=slots)
    if made is None:
        made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
        if [x for x in dataclasses.fields(made) if x.kw_only]:
            raise TypeError(f"{cls.__name__} has a field by keyword only, which is not for records")
        for name, x in inside.items():
            if name not in made.__dict__:
                setattr(made, name, x)
    if "__hash__" in inside and made.__dict__["__hash__"] is not inside["__hash__"]:
        made.__hash__ = inside["__hash__"]
    owner.append(made)
    return made


def _methods(cls: type, owner: list[type], *, frozen: bool, eq: bool) -> dict[str, Any]:
    """What a class has where it does not define it itself; `owner` will have the class."""
    made: dict[str, Any] = {
        "__is_frozen__": frozen,
        "__init__": _later(owner, "__init__"),
        "__repr__": _shown,
    }
    if eq:
        made["__eq__"] = _later(owner, "__eq__")
        if cls.__dict__.get("__hash__") is None:
            made["__hash__"] = _later(owner, "__hash__") if frozen else None
    if frozen:
        for name, verb in (("__setattr__", "assign to"), ("__delattr__", "delete")):
            if name in cls.__dict__:
                raise TypeError(f"{cls.__name__} is frozen and defines {name}")
            made[name] = _refusing(owner, name, verb)
    return made


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    dataclass = _record


def is_frozen(cls: Any) -> bool:
    """Return whether values of a data class, made here or by the standard library, are frozen."""
    return bool(cls.__dict__.get("__is_frozen__", cls.__dataclass_params__.frozen))


# -- methods that are made late --------------------------------------------------------------------


def _later(owner: list[type], name: str) -> Method:
    """A method that works field by field until it is worth a real one, which takes its place.

    Most classes have few values in a process, and the text of a method takes as long to compile as
    many values take to be filled.
    """
    left = _FEW
    plain: Method | None = None

    def method(*values: Any, **named: Any) -> Any:
        nonlocal left, plain
        left -= 1
        cls = owner[0]
        if left < 0:
            plain = _real(cls, name)
            if cls.__dict__.get(name) is method:
                setattr(cls, name, plain)
        elif plain is None:
            plain = _PLAIN[name](cls)
        return plain(*values, **named)

    method.__name__ = name
    return method


_FEW: Final = 40


# -- methods that work field by field --------------------------------------------------------------


def _filling(cls: Any) -> Method:
    """Fills the fields from arguments and defaults; what does not fit the real method refuses."""
    fields = dataclasses.fields(cls)
    puts = [_putting(cls, x.name) for x in fields if x.init]
    others = [(_putting(cls, x.name), _maker(x)) for x in fields if not x.init]
    makers = {x.name: _maker(x) for x in fields if x.init}
    names, checks = tuple(makers), hasattr(cls, "__post_init__")

    def arranged(values: tuple[Any, ...], named: dict[str, Any]) -> list[Any] | None:
        """The values in the order of the fields."""
        found = [*values]
        left = len(named)
        for name in names[len(values) :]:
            make = makers[name]
            if name in named:
                left -= 1
                found.append(named[name])
            elif make is not None:
                found.append(make())
        return None if left or len(found) != len(names) else found

    def method(self: Any, *values: Any, **named: Any) -> None:
        found: Any = values
        if named or len(values) != len(names):
            found = arranged(values, named)
            if found is None:
                _real(cls, "__init__")(self, *values, **named)
        for put, value in zip(puts, found, strict=True):
            put(self, value)
        for put, make in others:
            if make is not None:
                put(self, make())
        if checks:
            self.__post_init__()

    return method


def _maker(x: dataclasses.Field[Any]) -> Method | None:
    """A function that makes the default of a field, None where there is none."""
    if x.default_factory is not dataclasses.MISSING:
        return x.default_factory
    return None if x.default is dataclasses.MISSING else lambda: x.default


def _putting(cls: Any, name: str) -> Method:
    """A function that sets a field of a value."""
    slot = getattr(cls, name, None)
    if isinstance(slot, MemberDescriptorType):
        return slot.__set__
    set_ = object.__setattr__ if cls.__is_frozen__ else setattr
    return lambda self, value: set_(self, name, value)


def _reading(names: list[str]) -> Method:
    """A function that reads a tuple of the values of fields."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda self: tuple([getattr(self, x) for x in names])


def _comparing(cls: Any) -> Method:
    """Whether another value has the same class and equal fields."""
    values = _reading(_names(cls))

    def method(self: Any, other: object) -> Any:
        return (
            values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented
        )

    return method


def _hashing(cls: Any) -> Method:
    """The hash of the values of fields."""
    values = _reading(_names(cls, hashed=True))
    return lambda self: hash(values(self))


_PLAIN: Final[dict[str, Callable[[Any], Method]]] = {
    "__init__": _filling,
    "__eq__": _comparing,
    "__hash__": _hashing,
}


# -- methods from text -----------------------------------------------------------------------------


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


def _real(cls: type, name: str) -> Method:
    """The method of a text."""
    real = _WRITERS[name](cls)
    real.__qualname__ = f"{cls.__qualname__}.{name}"
    return real


def _names(cls: Any, *, hashed: bool = False) -> list[str]:
    """The names of the fields that equality or the hash is about."""
    return [
        x.name
        for x in dataclasses.fields(cls)
        if (x.compare if x.hash is None or not hashed else x.hash)
    ]


def _values(names: list[str], owner: str) -> str:
    """The text of a tuple of the values of fields."""
    return f"({''.join([f'{owner}.{x}, ' for x in names])})"


def _equality(cls: Any) -> Method:
    """Whether another value has the same class and equal fields."""
    names = _names(cls)
    values = f"{_values(names, 'self')} == {_values(names, 'other')}"
    line = f"return {values} if other.__class__ is self.__class__ else NotImplemented"
    return _compiled("self, other", [line], {})


def _hash(cls: Any) -> Method:
    """The hash of the values of fields."""
    return _compiled("self", [f"return hash({_values(_names(cls, hashed=True), 'self')})"], {})


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


def _refusing(owner: list[type], name: str, verb: str) -> Method:
    """A method that refuses changes, but of attributes that a subclass adds."""

    def method(self: Any, changed: str, *values: Any) -> None:
        cls: Any = owner[0]
        if type(self) is cls or changed in [x.name for x in dataclasses.fields(cls)]:
            raise dataclasses.FrozenInstanceError(f"cannot {verb} field {changed!r}")
        getattr(super(cls, self), name)(changed, *values)

    return method


def _state(self: Any) -> list[Any]:
    """The values of all fields, for copies."""
    return [getattr(self, x.name) for x in dataclasses.fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    """Give a new value the fields of another one."""
    for x, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, x.name, value)


__all__ = ["dataclass", "is_frozen"]
