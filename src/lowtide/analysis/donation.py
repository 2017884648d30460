"""Which arguments outputs overwrite, and which more they could."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from lowtide.ir import Instruction, Module, Shape, ShapeIndex


@dataclass(frozen=True, slots=True)
class Alias:
    """Output leaf `output` is written over parameter leaf `parameter`; both count depth first."""

    output: int
    parameter: int


@dataclass(frozen=True, slots=True)
class Donation:
    """An argument which nothing overwrites although an output of its shape has room of its own.

    `parameter` is the instruction and `index` the element of it.
    """

    output: int
    parameter: Instruction
    index: ShapeIndex
    nbytes: int


@dataclass(frozen=True, eq=False, slots=True)
class _Leaf:
    number: int
    instruction: Instruction
    index: ShapeIndex
    shape: Shape


def aliases(module: Module) -> tuple[Alias, ...]:
    """Return which output leaves of the entry overwrite parameter leaves.

    First the pairs of the module's alias table; then its donated buffers that no pair names, each
    for an output of equal bytes, largest first. Pairs of unequal bytes have no effect.
    """
    parameters, outputs = _parameter_leaves(module), _output_leaves(module)
    by_parameter = {(x.instruction, x.index): x for x in parameters}
    by_output = {x.index: x for x in outputs}
    entry = module.entry.parameters
    pairs: dict[int, int] = {}
    taken: set[int] = set()
    for alias in module.input_output_aliases:
        source = by_parameter.get((entry[alias.parameter], alias.parameter_index))
        target = by_output.get(alias.output_index)
        if source is None or target is None or source.number in taken:
            continue
        if source.shape.nbytes == target.shape.nbytes:
            pairs[target.number] = source.number
            taken.add(source.number)
    donors = [(entry[x.parameter], x.parameter_index) for x in module.buffer_donors]
    donated = [by_parameter[key] for key in donors if key in by_parameter]
    free = [x for x in donated if x.number not in taken]
    _pair_by_size(free, [x for x in outputs if x.number not in pairs], pairs)
    return tuple([Alias(output, parameter) for output, parameter in sorted(pairs.items())])


def _pair_by_size(donors: list[_Leaf], outputs: list[_Leaf], pairs: dict[int, int]) -> None:
    donors = sorted(donors, key=lambda x: -x.shape.nbytes)
    outputs = sorted(outputs, key=lambda x: -x.shape.nbytes)
    i = 0
    for output in outputs:
        while i < len(donors) and donors[i].shape.nbytes > output.shape.nbytes:
            i += 1
        if i < len(donors) and donors[i].shape.nbytes == output.shape.nbytes > 0:
            pairs[output.number] = donors[i].number
            i += 1


def possible_donations(module: Module, present: tuple[Alias, ...]) -> tuple[Donation, ...]:
    """Return for outputs without an argument to overwrite one of equal shape, in order.

    What donating saves is at most the sum of their bytes.
    """
    taken = {alias.parameter for alias in present}
    filled = {alias.output for alias in present}
    free: dict[Shape, deque[_Leaf]] = {}
    for leaf in _parameter_leaves(module):
        if leaf.number not in taken:
            free.setdefault(leaf.shape.static(), deque()).append(leaf)
    found = []
    for output in _output_leaves(module):
        queue = free.get(output.shape.static())
        if output.number not in filled and queue and output.shape.nbytes:
            source = queue.popleft()
            donation = Donation(
                output.number, source.instruction, source.index, output.shape.nbytes
            )
            found.append(donation)
    return tuple(found)


def _parameter_leaves(module: Module) -> list[_Leaf]:
    leaves: list[_Leaf] = []
    for parameter in module.entry.parameters:
        for index, shape in parameter.shape.leaves():
            leaves.append(_Leaf(len(leaves), parameter, index, shape))
    return leaves


def _output_leaves(module: Module) -> list[_Leaf]:
    root = module.entry.root
    return [_Leaf(i, root, index, shape) for i, (index, shape) in enumerate(root.shape.leaves())]
