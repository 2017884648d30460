"""Rewriting by rules: a worklist of instructions, and for each opcode the rules that may apply."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, TypeAlias, final

from lowtide.builder import Builder
from lowtide.builder.values import Op
from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ir.traversal import post_order
from lowtide.ops.effects import has_side_effect
from lowtide.records import dataclass

Apply: TypeAlias = "Callable[[Instruction, Rewriter], Instruction | Op | None]"
Guard: TypeAlias = Callable[[Instruction], bool]
Choose: TypeAlias = Callable[[Sequence[Instruction]], Collection[Instruction]]
"""From all instructions, operands first, to those to which rules may ever apply."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rewrite of one instruction.

    `apply` gets an instruction of one of `opcodes` and the rewriter that makes new ones. It returns
    what computes the same value, the instruction itself where it changed that in place, or None
    where the rule does not fit. A rule that is not `exact` may change the last bits of numbers.
    `guard` is asked first. It may look at the opcodes and shapes of instruction and operands only:
    one answer serves for all that agree in these.
    """

    name: str
    opcodes: tuple[Opcode, ...]
    apply: Apply
    exact: bool = True
    guard: Guard | None = None


def rule(*opcodes: Opcode, exact: bool = True) -> Callable[[Apply], Rule]:
    """Return a decorator that makes a rule for some opcodes; its name is that of the function."""

    def decorate(apply: Apply) -> Rule:
        return Rule(apply.__name__.replace("_", "-"), opcodes, apply, exact)

    return decorate


def rewrite(
    module: Module,
    rules: Iterable[Rule] | RuleTable,
    computations: Sequence[Computation] | None = None,
    choose: Choose | None = None,
) -> Counter[str]:
    """Apply rules to a module until none fits; return how often each one did, by its name.

    Rules that are used for many modules are given as a table, which remembers what guards said.

    Instructions that nobody reads are removed on the way, under the name `DEAD`. `computations` are
    those to look at, by default all of the module. Each instruction is looked at once and again
    where an operand or a user of it changes, so the work is linear where rules settle; those that
    `choose` leaves out only where they change. Raises RuntimeError naming the rule that fired last
    where rules do not settle.
    """
    table = rules if isinstance(rules, RuleTable) else RuleTable.of(rules)
    fired: Counter[str] = Counter()
    for computation in computations or list(module.computations.values()):
        Rewriter(computation, table, fired).run(choose)
    return fired


DEAD: Final = "dead"
"""In place of the name of a rule: an instruction was removed which nobody read."""

_MOST_PER_INSTRUCTION: Final = 200
"""How many rewrites there may be for each instruction of a computation before we call it a loop."""

_FEW: Final = 8
"""Of how many users the users are looked at again, at most."""


@final
class RuleTable:
    """Rules by what can be told of an instruction at once: opcodes and shapes, also of operands.

    `find` tells the rules of an opcode in their order, and is asked once for each.
    """

    def __init__(self, find: Callable[[Opcode], Sequence[Rule]]) -> None:
        self._find = find
        self._by_opcode: dict[Opcode, Sequence[Rule]] = {}
        self._guarded: set[Opcode] = set()
        self._fitting: dict[tuple[object, ...], Sequence[Rule]] = {}

    @classmethod
    def of(cls, rules: Iterable[Rule]) -> RuleTable:
        """Return the table of some rules."""
        found: dict[Opcode, list[Rule]] = {}
        for each in rules:
            for opcode in each.opcodes:
                found.setdefault(opcode, []).append(each)
        return cls(lambda opcode: found.get(opcode, ()))

    def _of(self, opcode: Opcode) -> Sequence[Rule]:
        found = self._by_opcode.get(opcode)
        if found is None:
            found = self._find(opcode)
            if any(each.guard is not None for each in found):
                self._guarded.add(opcode)
            self._by_opcode[opcode] = found
        return found

    def concerns(self, x: Instruction) -> bool:
        """Return whether there are rules for the opcode of an instruction, or it may be dead."""
        return bool(self._of(x.opcode)) or not x.users

    def rules(self, x: Instruction) -> Sequence[Rule]:
        """Return the rules whose guards let an instruction pass, in order."""
        opcode = x.opcode
        all_rules = self._of(opcode)
        if opcode not in self._guarded:
            return all_rules
        key = _signature(x)
        found = self._fitting.get(key)
        if found is None:
            if len(self._fitting) >= _MOST_KNOWN:
                self._fitting.clear()
            found = self._fitting[key] = _passing(all_rules, x)
        return found


_MOST_KNOWN: Final = 1 << 14
"""Of so many kinds of instructions a table remembers what fits; then it begins anew."""


def _signature(x: Instruction) -> tuple[object, ...]:
    """The opcodes and shapes of an instruction and its operands."""
    operands = x.operands
    if len(operands) == 2:
        left, right = operands
        return (x.opcode, x.shape, left.opcode, left.shape, right.opcode, right.shape)
    if len(operands) == 1:
        return (x.opcode, x.shape, operands[0].opcode, operands[0].shape)
    return (x.opcode, x.shape, *[y.opcode for y in operands], *[y.shape for y in operands])


def _passing(rules: Sequence[Rule], x: Instruction) -> list[Rule]:
    answers: dict[Guard, bool] = {}
    passing = []
    for each in rules:
        guard = each.guard
        if guard is not None and guard not in answers:
            answers[guard] = guard(x)
        if guard is None or answers[guard]:
            passing.append(each)
    return passing


@final
class Rewriter:
    """The worklist of one computation, and the making of instructions in it."""

    def __init__(self, computation: Computation, table: RuleTable, fired: Counter[str]) -> None:
        self.computation = computation
        self._table = table
        self._fired = fired
        self._waiting: deque[Instruction] = deque()
        self._is_waiting: set[Instruction] = set()
        self._current: Instruction | None = None
        self._made: list[Instruction] = []
        self.build = Builder.inside(computation, self._added)
        """Makes new instructions in the computation, with the metadata of the one at hand."""

    # -- for rules -----------------------------------------------------------------------------

    def __call__(self, instruction: Instruction) -> Op:
        """Return an instruction as an operand of `build`, with the operators of Python."""
        return self.build.value(instruction)

    def _added(self, instruction: Instruction) -> None:
        if self._current is not None:
            instruction.set_metadata(self._current.raw_metadata)
        self._made.append(instruction)
        self.enqueue(instruction)

    def enqueue(self, instruction: Instruction) -> None:
        """Look at an instruction again."""
        if instruction not in self._is_waiting:
            self._is_waiting.add(instruction)
            self._waiting.append(instruction)

    # -- the driver ----------------------------------------------------------------------------

    def run(self, choose: Choose | None = None) -> None:
        """Apply rules until none fits."""
        order = post_order(self.computation)
        begin = order
        if choose is not None:
            chosen = choose(order)
            begin = [x for x in order if not x.users or x in chosen]
        self._waiting.extend([x for x in begin if self._table.concerns(x)])
        self._is_waiting.update(self._waiting)
        present = self.computation.instructions
        left = _MOST_PER_INSTRUCTION * max(100, len(order))
        while self._waiting:
            instruction = self._waiting.popleft()
            self._is_waiting.discard(instruction)
            if present.get(instruction.name) is not instruction:
                continue
            if not instruction.users and self._remove_dead(instruction):
                continue
            left -= self._apply(instruction)
            if left < 0:
                raise RuntimeError(
                    f"rules do not settle in {self.computation.name}; the commonest: "
                    f"{self._fired.most_common(3)}"
                )

    def _apply(self, instruction: Instruction) -> bool:
        """Apply the first rule that fits; return whether one did."""
        if instruction.control_predecessors or instruction.control_successors:
            return False
        self._current = instruction
        self._made = []
        for candidate in self._table.rules(instruction):
            made = candidate.apply(instruction, self)
            if made is None:
                if self._made:
                    self._discard()
                continue
            replacement = made.instruction if isinstance(made, Op) else made
            if replacement.shape is not instruction.shape and replacement.shape.compatible(
                instruction.shape
            ):
                self._discard()  # It lies elsewhere, or in another order.
                continue
            self._fired[candidate.name] += 1
            self._replace(instruction, replacement, candidate)
            return True
        return False

    def _discard(self) -> None:
        """Remove what a rule made in vain, which is no change."""
        for instruction in reversed(self._made):
            if not instruction.users:
                self.computation.remove(instruction)
        self._made = []

    def _replace(self, old: Instruction, new: Instruction, by: Rule) -> None:
        if new.shape is not old.shape:
            raise RuntimeError(
                f"rule {by.name} made {new.shape} of {old.shape} for {old.name} in "
                f"{self.computation.name}"
            )
        self._enqueue_users(old)
        self.enqueue(new)
        if new is old:
            return
        if old.annotations.sharding is not None and new.annotations.sharding is None:
            new.set_annotations(old.annotations)
        old.replace_all_uses_with(new)
        if not old.users:
            self._remove_dead(old)

    def _enqueue_users(self, x: Instruction) -> None:
        """Look again at the users, and at theirs: most rules look at operands of operands."""
        for user in x.users:
            self.enqueue(user)
            if len(user.users) <= _FEW:
                for further in user.users:
                    self.enqueue(further)

    def _remove_dead(self, instruction: Instruction) -> bool:
        """Remove an instruction that nobody needs; look at its operands again."""
        if not is_dead(instruction):
            return False
        operands = instruction.operands
        self.computation.remove(instruction)
        self._fired[DEAD] += 1
        for operand in operands:
            self.enqueue(operand)
            if len(operand.users) == 1:  # Rules may take apart what has one reader.
                self._enqueue_users(operand)
        return True


def is_dead(instruction: Instruction) -> bool:
    """Whether nobody needs an instruction: neither a user, nor the result, nor the world."""
    return not (
        instruction.users
        or instruction.is_root
        or instruction.opcode is Opcode.PARAMETER
        or instruction.has_control_edges
        or has_side_effect(instruction)
    )
