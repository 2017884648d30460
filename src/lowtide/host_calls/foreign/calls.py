"""Calls of foreign functions: of typed ones by a frame, of others by pointers."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_char_p, c_int, c_int64, c_size_t, c_void_p
from typing import Any, Final

import numpy as np

from lowtide.host_calls.foreign.attributes import AttributeValue, read_attributes
from lowtide.host_calls.foreign.services import (
    awaited,
    close_context,
    new_context,
    services,
    taken_error,
)
from lowtide.host_calls.foreign.structures import (
    ARRAY,
    BUFFER,
    DATA_TYPES,
    DICTIONARY,
    EXECUTE_STAGE,
    FRAME_BYTES,
    SCALAR,
    STRING,
    FfiArray,
    FfiAttributes,
    FfiBuffer,
    FfiBytes,
    FfiFrame,
    FfiList,
    FfiScalar,
    sized,
)
from lowtide.host_calls.foreign.targets import EXECUTE, ForeignTarget
from lowtide.ir.errors import LowtideError, UnsupportedOpError
from lowtide.ir.literal import ELEMENT_TYPES
from lowtide.ir.shape import Shape
from lowtide.ir.thunk import HostCall


class TypedCall:
    """A call of a function that takes a frame; several threads may make it at once."""

    def __init__(self, call: HostCall, target: ForeignTarget) -> None:
        others = [x for x in target.stages if x != EXECUTE]
        if others or EXECUTE not in target.stages:
            raise UnsupportedOpError(
                f'the target "{call.target}" has the stages {", ".join(sorted(target.stages))}; '
                f'lowtide runs functions that have the stage "{EXECUTE}" only'
            )
        self._target = target
        self._name = call.target
        self._function = ctypes.CFUNCTYPE(c_void_p, c_void_p)(target.stages[EXECUTE])
        self._kept: list[Any] = []
        self._attributes = self._dictionary(read_attributes(call.config))
        self._operands = [self._buffer(x) for x in call.operands]
        self._results = [self._buffer(x) for x in call.results]

    def run(self, place: int) -> None:
        """Call the function once; raises LowtideError with the message of its error."""
        count = len(self._operands) + len(self._results)
        addresses = list((c_size_t * count).from_address(place))
        given = addresses[: len(self._operands)]
        operands, operands_kept = _list(self._operands, given)
        results, results_kept = _list(self._results, addresses[len(given) :])
        context = new_context()
        frame = FfiFrame(FRAME_BYTES, None, services(), context, EXECUTE_STAGE, operands, results)
        frame.attributes = self._attributes
        try:
            error = self._function(ctypes.addressof(frame))
            message = taken_error(error) if error else ""
            if frame.future:
                message = awaited(frame.future) or message
        finally:
            close_context(context)
        del operands_kept, results_kept
        if error or message:
            raise LowtideError(f"the foreign function {self._name} failed: {message}")

    def _keep(self, value: Any) -> int:
        """Keep something in C for as long as this; return its address."""
        self._kept.append(value)
        return ctypes.addressof(value)

    def _buffer(self, shape: Shape) -> tuple[int, int, int]:
        """The type of an array, its rank, and the address of its sizes."""
        sizes = (c_int64 * max(shape.rank, 1))(*shape.dimensions) if shape.is_array else c_int64()
        rank = shape.rank if shape.is_array else 0
        return DATA_TYPES[shape.element_type], rank, self._keep(sizes)

    def _dictionary(self, values: dict[str, AttributeValue]) -> Any:
        names = sorted(values)
        found = [self._attribute(values[x]) for x in names]
        count = len(names)
        return sized(
            FfiAttributes,
            count=count,
            kinds=self._keep((c_int * max(count, 1))(*[kind for kind, _ in found])),
            names=self._keep((c_void_p * max(count, 1))(*[self._text(x.encode()) for x in names])),
            items=self._keep((c_void_p * max(count, 1))(*[item for _, item in found])),
        )

    def _attribute(self, value: AttributeValue) -> tuple[int, int]:
        """The kind of an attribute, and the address of its value."""
        if isinstance(value, bytes):
            return STRING, self._text(value)
        if isinstance(value, dict):
            return DICTIONARY, self._keep(self._dictionary(value))
        array = np.ascontiguousarray(value)
        self._kept.append(array)
        number = DATA_TYPES[ELEMENT_TYPES[value.dtype]]
        if not value.ndim:
            return SCALAR, self._keep(FfiScalar(number, array.ctypes.data))
        return ARRAY, self._keep(FfiArray(number, array.size, array.ctypes.data))

    def _text(self, value: bytes) -> int:
        return self._keep(FfiBytes(value, len(value)))


def _list(buffers: Sequence[tuple[int, int, int]], addresses: Sequence[int]) -> tuple[Any, Any]:
    """Return arguments or results of a call, and what has to be kept until it returns."""
    count = len(buffers)
    items = (FfiBuffer * max(count, 1))()
    size = ctypes.sizeof(FfiBuffer)
    for item, (kind, rank, sizes), address in zip(items, buffers, addresses, strict=False):
        item.struct_size, item.type, item.data = size, kind, address
        item.rank, item.sizes = rank, sizes
    start = ctypes.addressof(items)
    pointers = (c_void_p * max(count, 1))(*[start + size * i for i in range(count)])
    kinds = (c_int * max(count, 1))(*[BUFFER] * count)
    at = ctypes.addressof(kinds), ctypes.addressof(pointers)
    return sized(FfiList, count=count, kinds=at[0], items=at[1]), (items, pointers, kinds)


ORIGINAL: Final = "API_VERSION_ORIGINAL"
"""The version of functions that cannot fail; those of later ones are given a status."""

_STATUS_WORDS: Final = 16
"""Room for a status, in 64-bit words: more than it takes. It begins as zeros, for success."""


class PlainCall:
    """A call of a function that takes a pointer to results and a list of pointers to operands."""

    def __init__(self, call: HostCall, target: ForeignTarget) -> None:
        self._target = target
        self._name = call.target
        self._config = call.config.encode("utf-8", "surrogateescape")
        self._operands, self._results = len(call.operands), len(call.results)
        self._is_tuple = call.is_tuple
        self._has_status = call.api_version != ORIGINAL
        more = (c_char_p, c_size_t, c_void_p) if self._has_status else ()
        kind = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, *more)
        self._function = kind(target.stages[EXECUTE])

    def run(self, place: int) -> None:
        """Call the function once; raises LowtideError where its status says that it failed."""
        results: int | None = place + 8 * self._operands
        if not self._is_tuple:
            results = c_void_p.from_address(place + 8 * self._operands).value
        if not self._has_status:
            self._function(results, place)
            return
        status = np.zeros(_STATUS_WORDS, np.uint64)
        self._function(results, place, self._config, len(self._config), status.ctypes.data)
        if status.any():
            raise LowtideError(f"the foreign function {self._name} failed{_reason(status)}")


def _reason(status: Any) -> str:
    """The message in a status, which has the address of its text and its length; or ""."""
    data, length = int(status[0]), int(status[1])
    if not data or not 0 < length <= _LONGEST:
        return ""
    return f": {ctypes.string_at(data, length).decode(errors='replace')}"


_LONGEST: Final = 1 << 16
"""Bytes of the longest message that is read."""
