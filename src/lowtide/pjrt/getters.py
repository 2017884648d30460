"""Functions of the table that read fields of one object: a name, what comes out, where it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import c_bool, c_int, c_int64, c_size_t, c_void_p
from typing import Any, Final, TypeAlias

from lowtide.pjrt.handles import value_of
from lowtide.pjrt.table import serves

Form: TypeAlias = tuple[Any, ...]
"""The types of what comes out, in the order of the arguments' fields behind the object."""

NUMBER: Final[Form] = (c_int,)
WIDE_NUMBER: Final[Form] = (c_int64,)
SIZE: Final[Form] = (c_size_t,)
FLAG: Final[Form] = (c_bool,)
POINTER: Final[Form] = (c_void_p,)
TEXT: Final[Form] = (c_void_p, c_size_t)
"""An address and a length."""
LIST: Final = TEXT
COUNTED: Final[Form] = (c_size_t, c_void_p)
"""A length and an address."""
COUNTED_PAIR: Final[Form] = (c_size_t, c_void_p, c_void_p)
"""A length and the addresses of two lists of it."""
HELD_TEXT: Final[Form] = (c_void_p, c_size_t, c_void_p, c_void_p)
"""An address and a length, the holder of what lies there and the function that frees it."""

Read: TypeAlias = Callable[[Any], Sequence[int | bool | None]]


def reads(names: str, form: Form, read: Read) -> None:
    """Have functions of the table return what `read` finds for the object that they are given.

    `names` are separated by spaces. What `read` raises becomes the error in C.
    """
    fields = {f"output{i}": kind for i, kind in enumerate(form)}

    def answer(arguments: Any) -> None:
        for name, value in zip(fields, read(value_of(arguments.given)), strict=True):
            setattr(arguments, name, value)

    serves(*names.split(), given=c_void_p, **fields)(answer)
