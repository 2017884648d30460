"""Machine code for errors, which are made and read by C++ alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from lowtide.native import (
    I32,
    Address,
    NativeRecord,
    address_of,
    behind,
    copy_bytes,
    free,
    native,
    new,
    shared,
    the,
)
from lowtide.pjrt.blocks import PluginErrorBlock

INVALID_ARGUMENT: Final = 3
DELETED: Final = b"Array has been deleted or donated."

_Function: TypeAlias = Callable[[Address], None]


class ErrorTable(NativeRecord):
    """The functions by which C++ reads an error, behind the size and the version of the table."""

    nbytes: int
    version: int
    unused: Address
    free: _Function
    text: _Function
    code: _Function
    payloads: _Function


class Words(NativeRecord):
    """Where C++ wants a text: its address, or its bytes."""

    word: int


class ErrorCall(NativeRecord):
    """The arguments of a function about an error."""

    size: int
    extension: Address
    error: PluginErrorBlock
    text: Address
    nbytes: int


class CodeCall(NativeRecord):
    """The arguments of the one that asks for the code of an error."""

    size: int
    extension: Address
    error: PluginErrorBlock
    code: I32


@native
def new_error(code: I32, text: Address, size: int) -> PluginErrorBlock:
    """Return an error with a copy of a text."""
    error = new(PluginErrorBlock, size)
    error.table = address_of(the(table))
    error.nbytes = size
    error.code = code
    copy_bytes(behind(error), text, size)
    return error


@native
def error_free(error: PluginErrorBlock) -> None:
    """Free an error."""
    free(error)


@native
def error_text(error: PluginErrorBlock, to: Words, count: Words) -> None:
    """Tell where the text of an error is, and its bytes."""
    to.word = behind(error)
    count.word = error.nbytes


@native
def error_code(error: PluginErrorBlock) -> I32:
    """Return the code of an error."""
    return error.code


@native
def error_payloads(error: PluginErrorBlock, visit: Address, given: Address) -> None:
    """Visit what else an error has: nothing."""


table: Final = shared(
    ErrorTable,
    nbytes=56,
    version=8,
    free=error_free,
    text=error_text,
    code=error_code,
    payloads=error_payloads,
)


@native
def destroy_error(a: ErrorCall) -> Address:
    """Serve Error_Destroy."""
    free(a.error)
    return 0


@native
def message(a: ErrorCall) -> Address:
    """Serve Error_Message."""
    a.text = behind(a.error)
    a.nbytes = a.error.nbytes
    return 0


@native
def code(a: CodeCall) -> Address:
    """Serve Error_GetCode."""
    a.code = a.error.code
    return 0


@native
def copied(error: PluginErrorBlock | None) -> PluginErrorBlock | None:
    """Return a copy of an error, if there is one."""
    if error is None:
        return None
    return new_error(error.code, behind(error), error.nbytes)


@native
def deleted_error() -> PluginErrorBlock:
    """Return the error for a buffer that is gone."""
    return new_error(INVALID_ARGUMENT, address_of(DELETED), len(DELETED))
