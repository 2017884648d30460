"""A checkpoint as it is written: the program as given, in which a function runs again.

`jax.checkpoint` has the gradient of each call compute anew, from what the call was given, all that
it reads of what the call made. What was given goes through an optimization barrier together with
what the gradient is given, so that nothing of it runs again before the gradient does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, final

from lowtide import compiler
from lowtide.budgeting.once import Memo, runs_once
from lowtide.compiler import ModulePlan
from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.attributes import GetTupleElement
from lowtide.ir.metadata import FileLocation
from lowtide.ir.shape import tuple_shape
from lowtide.report.blame import is_backward
from lowtide.whatif.baseline import Baseline
from lowtide.whatif.call_places import CallPlaces
from lowtide.whatif.change import ImpossibleChangeError
from lowtide.whatif.makers import RUNS_AGAIN, SHAPING, Maker, lines_in, runs_again
from lowtide.whatif.programs import loops_compute_again

_OF_LOOPS: Final = SHAPING | {
    Opcode.CALL,
    Opcode.DYNAMIC_SLICE,
    Opcode.DYNAMIC_UPDATE_SLICE,
    Opcode.GET_TUPLE_ELEMENT,
    Opcode.PARAMETER,
}
"""What loops have to go through stacks; what they call is there by itself."""


def plan_as_written(base: Baseline, maker: Maker) -> ModulePlan:
    """Return the plan of a program whose source has a checkpoint around a function.

    Raises ImpossibleChangeError for a maker that is no function, where nothing of it is read in the
    backward pass, where it runs again already, and where its calls cannot be told from one another.
    """
    if maker.kind != "function" or not base.backward:
        raise ImpossibleChangeError("no function of the program makes it")
    if runs_again(base, maker):
        raise ImpossibleChangeError(RUNS_AGAIN)
    module = base.as_given()
    calls = _Calls(module, CallPlaces(base, maker))
    if calls.come_again():
        raise ImpossibleChangeError("its calls cannot be told from one another")
    changed = calls.compute_again()
    in_loops = loops_compute_again(base, module) if _fills_loops(base, maker) else None
    if not changed and in_loops is None:
        raise ImpossibleChangeError("nothing that it makes is read in the backward pass")
    return compiler.plan(in_loops or module, base.options)


def _fills_loops(base: Baseline, maker: Maker) -> bool:
    """Whether all that loops of the program as given compute ahead of gradients is a function's.

    What else they have takes slices of stacks and puts them there. Loops within others are not: if
    the outer one computed again, nothing of what the inner one is given would be saved.
    """
    ahead = [
        x
        for computation in base.given.computations.values()
        if computation is not base.given.entry
        for x in computation.instructions.values()
        if not is_backward(x.metadata.op_name)
    ]
    if any(x.opcode is Opcode.WHILE for x in ahead):
        return False
    inner = [x for x in ahead if x.opcode not in _OF_LOOPS and x.shape.is_array and x.shape.rank]
    return bool(inner) and all(lines_in(x, maker) for x in inner)


def has_calls_by_lines(base: Baseline, maker: Maker) -> bool:
    """Whether no more than lines that begin anew tell calls of a function from one another.

    They may be those of a loop in it, too.
    """
    if maker.kind != "function" or not base.backward:
        return False
    return _Calls(base.given, CallPlaces(base, maker)).are_by_lines


@final
class _Calls:
    """The calls of a function in the entry of a module, with the gradients of each."""

    def __init__(self, module: Module, places: CallPlaces) -> None:
        self.entry = module.entry
        self.places = places
        memo: Memo = {}
        order = list(module.entry.instructions.values())
        self.fixed = _fixed(order)
        """What is the same in each run of the program: nobody has to hold it."""
        self.early: dict[Instruction, int] = {}
        """What the function makes, with its line there, in order."""
        self.late: dict[Instruction, int] = {}
        """What its gradient makes."""
        for x in order:
            if places.take(x):
                if is_backward(x.metadata.op_name):
                    self.late[x] = places.line[x]
                elif x.opcode is Opcode.CALL or not runs_once(x, memo):
                    self.early[x] = places.line[x]
        self.are_by_lines = False
        """Whether calls end where lines begin anew."""
        self.call = self._calls_of_early(order)
        self.handed_on = {x for x in self.early if self._is_handed_on(x)}
        self.call_of_late = self._calls_of_late()

    def compute_again(self) -> bool:
        """Have the gradient of each call read what runs again; whether any reads it."""
        numbers = sorted(set(self.call.values()), reverse=True)
        changed = [self._compute_again(number) for number in numbers]
        return any(changed)

    def come_again(self) -> bool:
        """Whether the place where a call begins comes again in it: it may be several, or a loop."""
        places: dict[int, list[int]] = {}
        for x in self.early:
            if self.places.site[x] in self.places.once:
                continue
            own = places.setdefault(self.call[x], [])
            place = x.metadata.stack_frame_id
            if x.opcode not in SHAPING and (not own or own[-1] != place):
                own.append(place)
        return any(own[0] in own[1:] for own in places.values() if own)

    def _calls_of_early(self, order: Iterable[Instruction]) -> dict[Instruction, int]:
        """To which call each instruction belongs, in the order of the calls.

        A call ends where the site is another one, where lines begin anew, and where what it makes
        comes back from outside. Of several with one turn, none of which reads another, each is the
        parts that are linked.
        """
        turn: dict[Instruction, int] = {}
        parts = _Parts()
        for x in order:
            line = self.early.get(x)
            turn[x] = 0
            for y in x.operands:
                begins = y in self.early and (line is None or self.places.begins(x, y))
                self.are_by_lines |= begins and line is not None and not self.places.are_apart(x, y)
                turn[x] = max(turn[x], turn.get(y, 0) + begins)
            if line is not None:
                for y in x.operands:
                    if y in self.early and turn[y] == turn[x]:
                        parts.link(x, y)
        of_site: dict[FileLocation | None, Instruction] = {}
        for x in self.early:
            site = self.places.site[x]
            if site in self.places.once:
                parts.link(x, of_site.setdefault(site, x))
        firsts = sorted({parts.first(x) for x in self.early}, key=lambda x: (turn[x], x.id))
        number = {first: i for i, first in enumerate(firsts)}
        return {x: number[parts.first(x)] for x in self.early}

    def _calls_of_late(self) -> dict[Instruction, int]:
        """Of which call each instruction computes the gradient, where that is known.

        It is the call whose values it reads, else that of what it reads of the gradient, else that
        of what reads it; the gradient of a call has its lines in the opposite order.
        """
        found: dict[Instruction, int] = {}
        for x, line in self.late.items():
            read = [self.call[y] for y in x.operands if y in self.call and y not in self.handed_on]
            before = [found[y] for y in x.operands if y in found and line <= self.late[y]]
            if read or before:
                found[x] = max(read) if read else min(before)
        for x, line in reversed(self.late.items()):
            after = [found[y] for y in x.users if y in found and line >= self.late[y]]
            if x not in found and after:
                found[x] = max(after)
        return found

    def _is_handed_on(self, x: Instruction) -> bool:
        """Whether what runs forward reads a value outside of the call that makes it."""
        if x is self.entry.root:
            return True
        early = [y for y in x.users if not is_backward(y.metadata.op_name)]
        return any(self.call.get(y) != self.call[x] for y in early)

    def _compute_again(self, number: int) -> bool:
        """Have the gradient of one call read what runs again; whether it reads anything of it."""
        made = {x for x, call in self.call.items() if call == number}
        own = {x for x, call in self.call_of_late.items() if call == number}
        readers = self._readers(made, own)
        again = self._needed([x for x, y in readers], made)
        if not again:
            return False
        if any(x.opcode is Opcode.WHILE for x in again):
            raise ImpossibleChangeError("it has a loop, which saves more once it runs again")
        given = dict.fromkeys([y for x in again for y in x.operands if y not in again])
        passed = [x for x in given if x not in self.fixed]
        after = _descendants([*own, *[reader for _, reader in readers]])
        gradients = dict.fromkeys([y for x in own for y in x.operands])
        held = made | after | self.fixed | set(passed)
        cotangents = [x for x in gradients if x not in held and x.shape.is_array]
        if not after.isdisjoint(passed) or not all(x.shape.is_array for x in passed):
            raise ImpossibleChangeError("its calls cannot be told from one another")
        behind = self._barrier([*passed, *cotangents])
        for x in again:
            operands = tuple([behind.get(y, y) for y in x.operands])
            behind[x] = self.entry.add_like(x, operands)
            behind[x].set_metadata(x.raw_metadata)
        for reader in dict.fromkeys([*[y for _, y in readers], *own]):
            for i, y in enumerate(reader.operands):
                if y in behind and (y in again or reader in own):
                    reader.replace_operand(i, behind[y])
        return True

    def _readers(
        self, made: set[Instruction], own: set[Instruction]
    ) -> list[tuple[Instruction, Instruction]]:
        """What a call makes and its gradient reads, with the reader."""
        pairs = [(x, y) for x in self.call if x in made for y in x.users]
        late = [(x, y) for x, y in pairs if is_backward(y.metadata.op_name)]
        return [(x, y) for x, y in late if x not in self.handed_on or y in own]

    def _needed(self, wanted: Iterable[Instruction], made: set[Instruction]) -> list[Instruction]:
        """What has to run again for some values, in order: back to what the call was given."""
        found: set[Instruction] = set()
        stack = list(wanted)
        while stack:
            x = stack.pop()
            if x not in found:
                found.add(x)
                stack += [y for y in x.operands if y in made]
        return [x for x in self.call if x in found]

    def _barrier(self, values: list[Instruction]) -> dict[Instruction, Instruction]:
        """Return what values are behind a barrier that they pass together."""
        shape = tuple_shape([x.shape for x in values])
        bound = self.entry.add(Opcode.TUPLE, shape, tuple(values))
        barrier = self.entry.add(Opcode.OPTIMIZATION_BARRIER, shape, (bound,))
        return {
            x: self.entry.add(
                Opcode.GET_TUPLE_ELEMENT, x.shape, (barrier,), attributes=GetTupleElement(i)
            )
            for i, x in enumerate(values)
        }


@final
class _Parts:
    """Instructions that are linked, directly or by others, each part known by its first one."""

    def __init__(self) -> None:
        self.next: dict[Instruction, Instruction] = {}

    def first(self, x: Instruction) -> Instruction:
        """Return the instruction that stands for the part of another one; halves the way to it."""
        while x in self.next:
            above = self.next[x]
            self.next[x] = self.next.get(above, above)
            x = above
        return x

    def link(self, x: Instruction, y: Instruction) -> None:
        """Make one part of those of two instructions."""
        x, y = self.first(x), self.first(y)
        if x is not y:
            late, early = (x, y) if x.id > y.id else (y, x)
            self.next[late] = early


def _fixed(order: Iterable[Instruction]) -> set[Instruction]:
    """What is made of constants alone."""
    found: set[Instruction] = set()
    for x in order:
        if x.opcode is not Opcode.PARAMETER and all(y in found for y in x.operands):
            found.add(x)
    return found


def _descendants(roots: Iterable[Instruction]) -> set[Instruction]:
    """All that depends on some instructions, these included."""
    found: set[Instruction] = set()
    stack = list(roots)
    while stack:
        x = stack.pop()
        if x not in found:
            found.add(x)
            stack += x.users
    return found
