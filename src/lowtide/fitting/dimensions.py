"""Names of dimensions: what `B=images:0,labels:0` says of arguments; errors of other sizes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lowtide.ir import Instruction, LowtideError, Module
from lowtide.records import dataclass
from lowtide.suggestions import nearest


class SpecializedError(LowtideError):
    """A program that cannot be had at a size; `x` is the instruction that stands in the way."""

    def __init__(self, reason: str, x: Instruction | None) -> None:
        where = ""
        if x is not None:
            source = x.source
            line = f" ({source.file}:{source.line})" if source is not None and source.file else ""
            where = f"{x.opcode.value} %{x.name}{line}: "
        super().__init__(f"{where}{reason}")
        self.instruction = x


class DimensionError(LowtideError):
    """A dimension that a program does not have, or that cannot be told from others."""


@dataclass(frozen=True, slots=True)
class NamedLeaf:
    """An array among the arguments of a program: what it is called, where it stands, its sizes.

    `key` is what finds it again, such as the number of a parameter and of its leaf.
    """

    name: str
    key: tuple[int, ...]
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NamedDimension:
    """A dimension of a program: its name, and the axes of arguments that have it."""

    name: str
    axes: tuple[tuple[str, int], ...]

    @classmethod
    def parse(cls, text: str) -> NamedDimension:
        """Return what `NAME=ARGUMENT:AXIS,...` says; the axis of an argument alone is 0.

        Raises DimensionError for any other text.
        """
        name, equals, rest = text.partition("=")
        if not equals or not name.strip().isidentifier():
            raise DimensionError(f"expected NAME=ARGUMENT:AXIS,..., found {text!r}")
        return cls.of(name.strip(), rest)

    @classmethod
    def of(cls, name: str, axes: str | Iterable[str]) -> NamedDimension:
        """Return a dimension by its axes, such as `images:0`; raises as `parse` does."""
        parts = _parts(axes) if isinstance(axes, str) else list(axes)
        found = [_axis(name, part.strip()) for part in parts if part.strip()]
        if not found:
            raise DimensionError(f"{name} names no argument; expected {name}=ARGUMENT:AXIS,...")
        return cls(name, tuple(found))

    def leaves(self, given: Sequence[NamedLeaf]) -> list[tuple[NamedLeaf, int]]:
        """Return the arrays among the arguments that have the dimension, each with its axis.

        The name of an argument stands for all arrays in it that have the axis. Raises
        DimensionError for an argument or an axis that there is not, and for axes of several sizes.
        """
        found = [pair for name, axis in self.axes for pair in _named(name, axis, given)]
        sizes = sorted({leaf.sizes[axis] for leaf, axis in found})
        if len(sizes) > 1:
            listed = ", ".join(
                [f"{leaf.name}:{axis} has {leaf.sizes[axis]}" for leaf, axis in found]
            )
            raise DimensionError(f"{self.name} would be of several sizes: {listed}")
        if sizes[0] < 2:
            raise DimensionError(
                f"{self.name} is {sizes[0]} in the program: what grows with it cannot be told from "
                "what does not; give the program at a size of 2 or more"
            )
        return found


def _parts(text: str) -> list[str]:
    """The parts between commas that stand in no brackets."""
    parts, depth, start = [], 0, 0
    for i, character in enumerate(text):
        depth += (character in "[(") - (character in "])")
        if character == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [*parts, text[start:]]


def _axis(name: str, text: str) -> tuple[str, int]:
    argument, colon, axis = text.rpartition(":")
    if not colon:
        return text, 0
    if not axis.isdecimal():
        raise DimensionError(f"{name}: expected ARGUMENT:AXIS with a number, found {text!r}")
    return argument, int(axis)


def _named(name: str, axis: int, given: Sequence[NamedLeaf]) -> list[tuple[NamedLeaf, int]]:
    leaves = [x for x in given if x.name == name]
    leaves = leaves or [x for x in given if x.name.startswith((f"{name}[", f"{name}."))]
    if not leaves and name.isdecimal() and int(name) < len(given):
        leaves = [given[int(name)]]
    if not leaves:
        known = dict.fromkeys([x.name for x in given])
        raise DimensionError(f"no argument {name!r}{nearest(name, known)}; {_listed(list(known))}")
    fitting = [(x, axis) for x in leaves if axis < len(x.sizes)]
    if not fitting:
        shape = ", ".join(map(str, leaves[0].sizes))
        raise DimensionError(f"{leaves[0].name} has no axis {axis}: its sizes are ({shape})")
    return fitting


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[-6:])
    return f"there are: {shown}" + (f", and {len(names) - 6} more" if len(names) > 6 else "")


def module_leaves(module: Module) -> list[NamedLeaf]:
    """Return the arrays among the parameters of a module, by the names that the program has."""
    found = []
    for number, parameter in enumerate(module.entry.parameters):
        name = parameter.metadata.op_name or parameter.name
        for leaf, (index, shape) in enumerate(parameter.shape.leaves()):
            part = "".join([f"[{i}]" for i in index])
            found.append(NamedLeaf(name + part, (number, leaf), shape.dimensions))
    return found
