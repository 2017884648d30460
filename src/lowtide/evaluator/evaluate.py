"""Evaluation of a module: arguments are checked, the entry is run, results are owned arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowtide.evaluator.interpreter import Interpreter
from lowtide.evaluator.values import TOKEN, Token, Value, from_leaves, value_leaves
from lowtide.ir.element_type import ElementType
from lowtide.ir.errors import InputError
from lowtide.ir.literal import DTYPES, Array
from lowtide.ir.module import Module
from lowtide.ir.shape import UNBOUNDED, Shape, ShapeIndex


def evaluate(module: Module, arguments: Sequence[Any], *, seed: int = 0) -> Value:
    """Return the value of the entry's root: an array, or tuples of values.

    `arguments` are the leaves of the parameters, depth first, tokens left out: arrays, or
    anything that `numpy.asarray` takes. An unsigned array of equal width is read as the
    parameter's type, and a Python number is converted to it. Along a bounded dynamic dimension an
    argument may be smaller than the bound. `seed` starts the random numbers of `rng`.

    Raises InputError where the arguments do not fit the parameters, and UnsupportedOpError at an
    operation that cannot be evaluated.
    """
    values = arguments_of(module, arguments)
    result = Interpreter(module, seed=seed).run(module.entry, values)
    owned = [_owned(leaf) for leaf in value_leaves(result)]
    return from_leaves(module.entry.root.shape, owned)


def _owned(leaf: Array | Token) -> Array | Token:
    if isinstance(leaf, Token):
        return leaf
    return np.array(leaf, order="C")


# -- arguments ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Leaf:
    """One array that the entry takes: parameter number and name, index in it, and shape."""

    number: int
    name: str
    index: ShapeIndex
    shape: Shape

    def __str__(self) -> str:
        index = f" at index {{{','.join(map(str, self.index))}}}" if self.index else ""
        return f"parameter {self.number} (%{self.name}){index}"


def parameter_leaves(module: Module) -> Iterator[Leaf]:
    """Yield the leaves of the entry's parameters in order of their arguments."""
    for number, parameter in enumerate(module.entry.parameters):
        for index, shape in parameter.shape.leaves():
            if not shape.is_token:
                yield Leaf(number, parameter.name, index, shape)


def arguments_of(module: Module, arguments: Sequence[Any]) -> list[Value]:
    """Return the values of the entry's parameters; raises InputError where one does not fit."""
    leaves = list(parameter_leaves(module))
    if len(arguments) != len(leaves):
        raise InputError(_wrong_count(leaves, len(arguments)))
    checked = iter([_checked(leaf, x) for leaf, x in zip(leaves, arguments, strict=True)])
    values = []
    for parameter in module.entry.parameters:
        shapes = [shape for _, shape in parameter.shape.leaves()]
        parts = [TOKEN if shape.is_token else next(checked) for shape in shapes]
        values.append(from_leaves(parameter.shape, parts))
    return values


def _wrong_count(leaves: list[Leaf], given: int) -> str:
    message = f"the module takes {len(leaves)} arguments, found {given}"
    if given < len(leaves):
        missing = leaves[given]
        return f"{message}; the first one missing is {missing}, {missing.shape.text(layout=False)}"
    return message


def _checked(leaf: Leaf, argument: Any) -> Array:
    shape = leaf.shape
    if not shape.is_array:
        raise InputError(f"{leaf} is {shape.element_type.value}[], which no argument can be")
    array = np.asarray(argument)
    if not _fits(array.shape, shape):
        raise InputError(_wrong(leaf, array))
    dtype = DTYPES[shape.element_type]
    if array.dtype == dtype:
        return array
    if isinstance(argument, (bool, int, float, complex)):
        return _converted(leaf, argument, dtype)
    if array.dtype.kind != "u" or array.dtype.itemsize != dtype.itemsize:
        raise InputError(_wrong(leaf, array))
    if shape.element_type is ElementType.PRED or shape.element_type.bits % 8:
        return array.astype(dtype)
    return np.ascontiguousarray(array).view(dtype).reshape(array.shape)


def _converted(leaf: Leaf, number: complex, dtype: np.dtype[Any]) -> Array:
    try:
        return np.asarray(number).astype(np.result_type(type(number), np.int8)).astype(dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{leaf} cannot be {number!r}: {error}") from error


def _fits(sizes: tuple[int, ...], shape: Shape) -> bool:
    if len(sizes) != shape.rank:
        return False
    dynamic = shape.dynamic or (False,) * shape.rank
    return all(
        size == bound or (flag and (bound == UNBOUNDED or size < bound))
        for size, bound, flag in zip(sizes, shape.dimensions, dynamic, strict=True)
    )


def _wrong(leaf: Leaf, array: Array) -> str:
    dtype = DTYPES[leaf.shape.element_type]
    needed = f"{leaf.shape.text(layout=False)} (dtype {dtype.name})"
    return f"{leaf} needs {needed}, found {array.dtype.name}{list(array.shape)}"
