"""The arguments that outputs overwrite, and those that more outputs could overwrite."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence, Set

from lowtide.analysis.dataflow import ComputationDataflow
from lowtide.ir import Instruction, Module, Shape, ShapeIndex
from lowtide.ir.module import BufferDonor, InputOutputAlias
from lowtide.ir.shape import index_text
from lowtide.records import dataclass


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


@dataclass(frozen=True, slots=True)
class AskedDonation:
    """An argument leaf that the module offers to be overwritten, and what comes of that.

    `index` is the element of the parameter of number `parameter`. `output` is the element of the
    result that overwrites it or, where `reason` says why none does, the one that it was to be; None
    for an offer to any output. `pair` numbers the leaves where the offer has an effect. `is_tied`
    says that the module names the output, `must` that the caller may not keep the argument.
    `nearest` is an output that has the argument's dimensions but not its type, where there is no
    other that could overwrite it.
    """

    parameter: int
    instruction: Instruction
    index: ShapeIndex
    nbytes: int
    output: ShapeIndex | None
    pair: Alias | None
    reason: str
    is_tied: bool
    must: bool = False
    nearest: ShapeIndex | None = None


def asked_donations(module: Module) -> tuple[AskedDonation, ...]:
    """Return what becomes of each entry of the alias table, and then of each donated buffer.

    An entry of the table has an effect where it names arrays of equal bytes in one memory space,
    neither of which an entry before it took. Donated buffers that the table leaves go to outputs of
    equal bytes in their memory space, largest first.
    """
    return _Asked(module).run()


class _Asked:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.parameters = {(x.instruction, x.index): x for x in _parameter_leaves(module)}
        self.outputs = {x.index: x for x in _output_leaves(module)}
        self.named = {(x.parameter, x.parameter_index) for x in module.input_output_aliases}
        self.output_of: dict[_Leaf, _Leaf] = {}
        self.parameter_of: dict[_Leaf, _Leaf] = {}

    def run(self) -> tuple[AskedDonation, ...]:
        tied = [self._tied(alias) for alias in self.module.input_output_aliases]
        donors = self._donors()
        self._pair_by_size([leaf for leaf in donors.values() if leaf is not None])
        return (*tied, *[self._donated(donor, leaf) for donor, leaf in donors.items()])

    def _pair(self, parameter: _Leaf, output: _Leaf) -> None:
        self.output_of[parameter] = output
        self.parameter_of[output] = parameter

    def _tied(self, alias: InputOutputAlias) -> AskedDonation:
        instruction = self.module.entry.parameters[alias.parameter]
        parameter = self.parameters.get((instruction, alias.parameter_index))
        output = self.outputs.get(alias.output_index)
        reason = self._obstacle(parameter, output)
        pair = None
        if parameter is not None and output is not None and not reason:
            self._pair(parameter, output)
            pair = Alias(output.number, parameter.number)
        return AskedDonation(
            alias.parameter,
            instruction,
            alias.parameter_index,
            0 if parameter is None else parameter.shape.nbytes,
            alias.output_index,
            pair,
            reason,
            is_tied=True,
            must=alias.must,
        )

    def _obstacle(self, parameter: _Leaf | None, output: _Leaf | None) -> str:
        """Why an output cannot overwrite a parameter; empty where it can."""
        if parameter is None:
            return "the argument is a tuple; only its elements can be overwritten"
        if output is None:
            return "the output is a tuple; only its elements can overwrite arguments"
        if parameter in self.output_of:
            return f"output {index_text(self.output_of[parameter].index)} overwrites the argument"
        if output in self.parameter_of:
            other = self.parameter_of[output].instruction
            return f"the output overwrites argument {other.name} already"
        sizes = parameter.shape.nbytes, output.shape.nbytes
        if sizes[0] != sizes[1]:
            return f"the argument has {sizes[0]:,} bytes, the output {sizes[1]:,}"
        spaces = parameter.shape.memory_space, output.shape.memory_space
        if spaces[0] != spaces[1]:
            return f"the argument is in memory space {spaces[0]}, the output in {spaces[1]}"
        return ""

    # -- donors without an output --------------------------------------------------------------

    def _donors(self) -> dict[BufferDonor, _Leaf | None]:
        """The offers, each once, with the leaves that may take part."""
        entry = self.module.entry.parameters
        found: dict[BufferDonor, _Leaf | None] = {}
        for donor in self.module.buffer_donors:
            leaf = self.parameters.get((entry[donor.parameter], donor.parameter_index))
            found[donor] = None if leaf is None or _unfit(leaf) else leaf
        return found

    def _pair_by_size(self, donors: Sequence[_Leaf]) -> None:
        free: dict[tuple[int, int], deque[_Leaf]] = {}
        for leaf in donors:
            if leaf not in self.output_of:
                free.setdefault(_class(leaf.shape), deque()).append(leaf)
        for output in self.outputs.values():
            queue = free.get(_class(output.shape))
            if queue and output not in self.parameter_of:
                self._pair(queue.popleft(), output)

    def _donated(self, donor: BufferDonor, leaf: _Leaf | None) -> AskedDonation:
        instruction = self.module.entry.parameters[donor.parameter]
        shape = instruction.shape.at(donor.parameter_index)
        output = None if leaf is None else self.output_of.get(leaf)
        reason = self._no_output(donor, leaf, shape)
        pair, nearest = None, None
        if leaf is not None and output is not None and not reason:
            pair = Alias(output.number, leaf.number)
        elif leaf is not None and output is None:
            nearest = self._nearest(shape)
        if nearest is not None:
            other = nearest.shape.text(layout=False)
            reason += f"; output {index_text(nearest.index)} has its dimensions, but is {other}"
        return AskedDonation(
            donor.parameter,
            instruction,
            donor.parameter_index,
            0 if shape.is_tuple else shape.nbytes,
            output.index if output is not None and not reason else None,
            pair,
            reason,
            is_tied=False,
            nearest=None if nearest is None else nearest.index,
        )

    def _nearest(self, shape: Shape) -> _Leaf | None:
        """The first output that overwrites nothing, of the dimensions of a shape but its type."""
        for output in self.outputs.values():
            other = output.shape
            same = other.is_array and other.dimensions == shape.dimensions != ()
            if same and output not in self.parameter_of and other.nbytes != shape.nbytes:
                return output
        return None

    def _no_output(self, donor: BufferDonor, leaf: _Leaf | None, shape: Shape) -> str:
        """Why no output overwrites a donor; empty where one does."""
        if leaf is None:
            return _unfitness(shape)
        output = self.output_of.get(leaf)
        if output is None:
            return f"no output of {shape.nbytes:,} bytes in its memory space is left"
        if (donor.parameter, donor.parameter_index) in self.named:
            return f"output {index_text(output.index)} overwrites the argument"
        return ""


def body_aliases(flow: ComputationDataflow) -> tuple[Alias, ...]:
    """Return the aliases of a loop body: it returns the state in the storage of the state."""
    return tuple([Alias(leaf, leaf) for leaf in range(len(flow.parameters))])


def aliases(module: Module) -> tuple[Alias, ...]:
    """Return which output leaves of the entry overwrite parameter leaves, by output.

    They are those of `asked_donations` that have an effect.
    """
    pairs = [x.pair for x in asked_donations(module) if x.pair is not None]
    return tuple(sorted(pairs, key=lambda pair: pair.output))


def _unfit(leaf: _Leaf) -> bool:
    return bool(_unfitness(leaf.shape))


def _unfitness(shape: Shape) -> str:
    """Why no output can be found for an array; empty where one might be."""
    if shape.is_tuple:
        return "the argument is a tuple; only its elements can be overwritten"
    if not shape.nbytes:
        return "the argument has no bytes"
    return "the shape of the argument is dynamic" if shape.is_dynamic else ""


def _class(shape: Shape) -> tuple[int, int]:
    return shape.memory_space, shape.nbytes


def possible_donations(
    module: Module, present: tuple[Alias, ...], among: Set[Instruction] | None = None
) -> tuple[Donation, ...]:
    """Return for outputs without an argument to overwrite one of equal shape, in order.

    With `among` only those parameters are donated: each output gets the first that is left, as in
    JAX. What donating saves is at most the sum of their bytes.
    """
    taken = {alias.parameter for alias in present}
    filled = {alias.output for alias in present}
    free: dict[Shape, deque[_Leaf]] = {}
    for leaf in _parameter_leaves(module):
        if leaf.number not in taken and (among is None or leaf.instruction in among):
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
