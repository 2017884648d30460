"""Evaluation of a module: arguments are checked, the entry is run, results are owned arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from lowtide.evaluator.interpreter import Interpreter
from lowtide.evaluator.values import TOKEN, Token, Value, from_leaves, value_leaves
from lowtide.ir.errors import InputError, check_class
from lowtide.ir.given_arrays import check_count, misfit, read_as, sizes_fit
from lowtide.ir.literal import Array
from lowtide.ir.module import Module
from lowtide.ir.partitioning import check_one_device
from lowtide.ir.shape import Shape, ShapeIndex
from lowtide.records import dataclass


def evaluate(module: Module, arguments: Sequence[Any], *, seed: int = 0) -> Value:
    """Return the value of the entry's root: an array, or tuples of values.

    `arguments` are the leaves of the parameters, depth first, tokens left out: arrays, or
    anything that `numpy.asarray` takes. An unsigned array of equal width is read as the
    parameter's type, and a Python number is converted to it. Along a bounded dynamic dimension an
    argument may be smaller than the bound. `seed` starts the random numbers of `rng`.

    Raises InputError where the arguments do not fit the parameters, and UnsupportedOpError at an
    operation that cannot be evaluated, or for a module that is not for one device; TypeError for
    anything but a module.
    """
    check_class(module, Module)
    check_one_device(module)
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
    check_count(leaves, len(arguments))
    checked = iter([_checked(leaf, x) for leaf, x in zip(leaves, arguments, strict=True)])
    values = []
    for parameter in module.entry.parameters:
        shapes = [shape for _, shape in parameter.shape.leaves()]
        parts = [TOKEN if shape.is_token else next(checked) for shape in shapes]
        values.append(from_leaves(parameter.shape, parts))
    return values


def _checked(leaf: Leaf, argument: Any) -> Array:
    shape = leaf.shape
    if not shape.is_array:
        raise InputError(f"{leaf} is {shape.element_type.value}[], which no argument can be")
    array = np.asarray(argument)
    if not sizes_fit(array.shape, shape):
        raise misfit(leaf, array)
    return read_as(leaf, array, argument)
