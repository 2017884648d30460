"""TensorFlow's messages from bytes; errors with the path to a bad field, and with the file."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from lowtide.frontend.hlo_proto.messages import MessageField, classes_of, declared_fields
from lowtide.frontend.hlo_proto.wire import find_fault, has_word
from lowtide.frontend.tensorflow.schema import MESSAGES
from lowtide.ir.errors import InputError, LowtideError, UnsupportedOpError

_PACKAGE: Final = "lowtide.tensorflow"
_OP: Final = re.compile(rb"_?[A-Z][A-Za-z0-9_>]*")
"""What names of ops look like; opcodes of HLO start with a small letter."""


@functools.cache
def _fields_of(message: str) -> Mapping[int, MessageField]:
    return declared_fields(message, MESSAGES[message])


@functools.cache
def _classes() -> Mapping[str, Any]:
    return classes_of(_PACKAGE, {name: _fields_of(name) for name in MESSAGES})


def new_message(name: str) -> Any:
    """Return an empty message."""
    return _classes()[name]()


def parse(name: str, data: bytes, file: str) -> Any:
    """Return the message that `data` encodes; raises InputError with the path to the bad field."""
    from google.protobuf.message import DecodeError

    try:
        return _classes()[name].FromString(data)
    except DecodeError:
        fault = find_fault(name, data, _fields_of)
        raise InputError(fault.message, file=file, position=fault.path) from None


def looks_like_graph(data: bytes) -> bool:
    """Whether bytes are a GraphDef: a node in field 1 has an op in field 2."""
    return has_word(data, 0, len(data), (1, 2), _OP)


@contextmanager
def told_with(file: str) -> Iterator[None]:
    """Raise InputError or UnsupportedOpError with the name of a file for what is raised within."""
    try:
        yield
    except UnsupportedOpError as error:
        raise UnsupportedOpError(f"{file}: {error}") from error
    except InputError as error:
        if error.file:
            raise
        raise InputError(error.message, file=file, position=error.position) from error
    except LowtideError as error:
        raise InputError(str(error), file=file) from error
