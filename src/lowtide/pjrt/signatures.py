"""Signatures of programs: their arguments and results, and how they are tied.

It is made of a module once, and kept with the program: the next process needs no module for it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import numpy as np

from lowtide.ir.element_type import ElementType
from lowtide.ir.literal import Array
from lowtide.ir.shape import array_shape
from lowtide.pjrt.element_types import NUMBERS, dtype_of
from lowtide.pjrt.layouts import Order, row_major
from lowtide.records import dataclass
from lowtide.records.rows import RowForm, RowForms

if TYPE_CHECKING:
    from lowtide.ir.module import Module
    from lowtide.ir.shape import Shape


T = TypeVar("T")

TOKEN_SHAPE: Final = array_shape(ElementType.PRED, (0,))


def without_tokens(arrays: Sequence[T], tokens: Sequence[int]) -> list[T]:
    """Return the arguments of a program but for those that are tokens, by their numbers."""
    return [x for i, x in enumerate(arrays) if i not in tokens]


def with_tokens(results: Sequence[Array | None]) -> list[Array]:
    """Return the results of a program with an array for each token, which is None there."""
    return [np.zeros(TOKEN_SHAPE.dimensions, np.bool_) if x is None else x for x in results]


Shardings: TypeAlias = tuple[list[bytes], list[bytes]]
"""Those of arguments and of results, each in protobuf."""


@dataclass(frozen=True, slots=True)
class ArrayType:
    """The type of an argument or result: its sizes, its element type by PJRT's number, and where.

    `order` is that in which its dimensions lie, `memory` the kind of memory.
    """

    sizes: tuple[int, ...]
    number: int
    order: Order
    memory: str

    @property
    def nbytes(self) -> int:
        """The bytes of all elements, each of which has whole ones."""
        return prod(self.sizes) * dtype_of(self.number).itemsize


def _array_types(shapes: Sequence[Shape], memories: Sequence[str]) -> tuple[ArrayType, ...]:
    found = []
    for shape, memory in zip(shapes, memories, strict=True):
        if shape.is_token:
            shape = TOKEN_SHAPE
        order = shape.layout.minor_to_major if shape.layout else row_major(shape.rank)
        found.append(ArrayType(shape.dimensions, NUMBERS[shape.element_type], order, memory))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class ProgramSignature:
    """Arguments and results of a program that runs.

    `donated` are the arguments that it may overwrite, `tokens` those that are no arrays;
    `shardings` is None where nothing is divided.
    """

    name: str
    arguments: tuple[ArrayType, ...]
    results: tuple[ArrayType, ...]
    is_tuple: bool
    tokens: tuple[int, ...]
    donated: tuple[int, ...]
    shardings: Shardings | None = None


def signature_of(module: Module) -> ProgramSignature:
    """Return the signature of the program of each device."""
    from lowtide.pjrt.entry_attributes import memories_of
    from lowtide.pjrt.partitioning import shardings_of

    program = module.entry_layout or module.entry.program_shape
    result = program.result
    leaves = result.tuple_shapes if result.is_tuple else (result,)
    memories = memories_of(module, len(program.parameters), len(leaves))
    aliased = [x.parameter for x in module.input_output_aliases]
    donors = [x.parameter for x in module.buffer_donors]
    return ProgramSignature(
        module.name,
        _array_types(program.parameters, memories[0]),
        _array_types(leaves, memories[1]),
        result.is_tuple,
        tuple([i for i, x in enumerate(program.parameters) if x.is_token]),
        tuple(dict.fromkeys([*aliased, *donors])),
        shardings_of(module),
    )


def written(signature: ProgramSignature) -> str:
    """Return a signature without shardings as text, for `read`."""
    assert signature.shardings is None
    return json.dumps(_FORM.write(signature))


def read(text: str) -> ProgramSignature:
    """Return the signature that a text says; raises ValueError or TypeError for another text."""
    found: ProgramSignature = _FORM.read(json.loads(text))
    return found


def _no_shardings(_: object) -> Shardings:
    raise TypeError("programs with shardings are not kept by their signature")


_FORM: Final = RowForms({Shardings: RowForm(_no_shardings, _no_shardings)}).of(ProgramSignature)
