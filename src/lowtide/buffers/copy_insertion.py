"""Copies, where two values want one place at one time; and orders that save copies.

Operations that write in place, loops, conditionals and aliased outputs each ask that two values
lie in one buffer. Copies that such a wish would need stay virtual until the values are seen to be
in each other's way, as in the out-of-SSA translation of Boissinot, Darte, Rastello, Dupont de
Dinechin and Guillon ("Revisiting Out-of-SSA Translation for Correctness, Code Quality, and
Efficiency", 2009). Without a schedule, readers of a value are first made to run before what
overwrites it, wherever that closes no cycle; control edges then keep what was relied on.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from itertools import pairwise
from typing import Final

from lowtide.analysis.colocation import Refusal, StorageClasses, Wish, WishKind, wishes
from lowtide.analysis.dataflow import Dataflow, dataflow
from lowtide.analysis.donation import aliases
from lowtide.analysis.flat_schedule import CarriedState, FlatSchedule, flatten
from lowtide.analysis.topological_order import Edge, TopologicalOrder
from lowtide.analysis.write_constraints import WriteConstraints
from lowtide.buffers.copy_reason import CopyReason, reader_reason, reason_for
from lowtide.buffers.editor import Editor, is_of_constants
from lowtide.buffers.reader_copies import Reads
from lowtide.buffers.rotation import copy_rotated_state
from lowtide.buffers.write_order import arrange_writes
from lowtide.ir import Computation, Instruction, Module, Schedule
from lowtide.ir.shape import index_text
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class InsertedCopy:
    """A copy that was put into the module, and why."""

    copy: Instruction
    reason: CopyReason


@dataclass(frozen=True, slots=True)
class CopyInsertion:
    """What was put into a module: copies, and pairs of which the first now runs before the second.

    There are no such pairs in a module that had a schedule.
    """

    copies: tuple[InsertedCopy, ...]
    control_edges: tuple[Edge, ...]

    def without(self, removed: Container[Instruction]) -> CopyInsertion:
        """Return what is left after some copies were removed."""
        kept = [inserted for inserted in self.copies if inserted.copy not in removed]
        return CopyInsertion(tuple(kept), self.control_edges)


def insert_copies(module: Module) -> CopyInsertion:
    """Put into a module the copies that its operations in place, loops and outputs need.

    Afterwards all that has to share a buffer can, in the order of the schedule, or where there is
    none in every order that the control edges allow.
    """
    return _Insertion(module).run()


class _Insertion:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.copies: list[InsertedCopy] = []
        self.copied: set[Instruction] = set()
        self.served: set[tuple[Instruction, int]] = set()
        """Operands whose later readers have a copy."""
        self.sequences: Mapping[Computation, Sequence[Instruction]] = {}

    def run(self) -> CopyInsertion:
        flows = dataflow(self.module.entry, with_host=True)
        schedule = self.module.schedule
        editor = Editor(self.module)
        sequences = None if schedule is None else schedule.sequences
        for copy, reason in copy_rotated_state(flows, sequences, editor):
            self.copies.append(InsertedCopy(copy, reason))
            self.copied.add(copy)
        editor.finish()
        orders, flat, sharing = self._settled()
        if self._make_again():
            flat = self._flatten(dataflow(self.module.entry, with_host=True), self.sequences)
            sharing = self._share(flat)
            if sharing.refusals:
                orders, flat, sharing = self._settled()
        return CopyInsertion(tuple(self.copies), self._pin(orders, flat, sharing))

    def _settled(
        self,
    ) -> tuple[dict[Computation, TopologicalOrder] | None, FlatSchedule, StorageClasses]:
        """Copy until all that has to share a buffer can; return the order, and what shares."""
        for _ in range(_MOST_ROUNDS):
            flows = dataflow(self.module.entry, with_host=True)
            orders, flat = self._ordered(flows)
            sharing = self._share(flat)
            if not sharing.refusals:
                return orders, flat, sharing
            self._copy(flows, flat, sharing)
        raise AssertionError(
            f"{self.module.name}: copies do not settle after {_MOST_ROUNDS} rounds"
        )

    def _flatten(
        self, flows: Dataflow, sequences: Mapping[Computation, Sequence[Instruction]]
    ) -> FlatSchedule:
        writable = frozenset([alias.parameter for alias in aliases(self.module)])
        self.sequences = sequences
        return flatten(self.module.entry, sequences, flows, writable)

    def _share(self, flat: FlatSchedule) -> StorageClasses:
        pairs = self._aliases()
        sharing = StorageClasses(flat)
        sharing.claim(pairs, owns_results=True)
        sharing.grant(self._wishes(flat))
        return sharing

    def _wishes(self, flat: FlatSchedule) -> list[Wish]:
        """What has to share a buffer; first what copies were made for, so that these settle it."""
        maker = flat.values.maker
        return sorted(
            wishes(flat, self._aliases()),
            key=lambda wish: self.copied.isdisjoint((maker[wish.before], maker[wish.after])),
        )

    def _aliases(self) -> list[tuple[int, int]]:
        return [(alias.output, alias.parameter) for alias in aliases(self.module)]

    # -- orders --------------------------------------------------------------------------------

    def _ordered(
        self, flows: Dataflow
    ) -> tuple[dict[Computation, TopologicalOrder] | None, FlatSchedule]:
        """The program in the order of its schedule, or in one made for writing in place."""
        if self.module.schedule is not None:
            return None, self._flatten(flows, self.module.schedule.sequences)
        orders = {computation: TopologicalOrder(computation) for computation in flows}
        first = {x: tuple(order.sequence()) for x, order in orders.items()}
        flat = self._flatten(flows, first)
        arrange_writes(flat, self._wishes(flat), orders)
        last = {x: tuple(order.sequence()) for x, order in orders.items()}
        return orders, flat if last == first else self._flatten(flows, last)

    def _pin(
        self,
        orders: dict[Computation, TopologicalOrder] | None,
        flat: FlatSchedule,
        sharing: StorageClasses,
    ) -> tuple[Edge, ...]:
        """Keep by control edges what the shared buffers rely on."""
        if orders is None:
            return ()
        constraints = WriteConstraints(flat)
        edges: dict[Edge, None] = {}
        for before, after in _successions(flat, sharing):
            for _, edge in constraints.between(before, after) or ():
                edges[edge] = None
        fresh = {x: TopologicalOrder(x) for x in orders}
        pinned = []
        for first, second in edges:
            if not fresh[first.parent].reaches(first, second, _SEARCHED):
                second.add_control_predecessor(first)
                pinned.append((first, second))
        return tuple(pinned)

    # -- copies --------------------------------------------------------------------------------

    def _copy(self, flows: Dataflow, flat: FlatSchedule, sharing: StorageClasses) -> None:
        """Make copies for all that is refused; those for later readers first, by themselves."""
        editor = Editor(self.module)
        if not self._serve_late_readers(flows, flat, sharing, editor):
            self._copy_refused(flat, sharing.refusals, editor)
        editor.finish()

    def _serve_late_readers(
        self, flows: Dataflow, flat: FlatSchedule, sharing: StorageClasses, editor: Editor
    ) -> bool:
        late = _LateReaders(flows, flat, sharing, self.sequences)
        found = False
        for refusal in sharing.refusals:
            place, leaf = self._place(flat, refusal)
            if isinstance(place, Computation) or place in self.served:
                continue
            made = late.serve(refusal, *place, leaf, editor)
            if made is not None:
                found = True
                self.served.add(place)
                self._note({0: made.copy}, {0: made.reason})
        return found

    def _copy_refused(
        self, flat: FlatSchedule, refusals: Sequence[Refusal], editor: Editor
    ) -> None:
        names = [index_text(x) for x, _ in self.module.entry.root.shape.leaves()]
        roots: dict[Computation, dict[int, CopyReason]] = {}
        operands: dict[tuple[Instruction, int], dict[int, CopyReason]] = {}
        for refusal in refusals:
            place, leaf = self._place(flat, refusal)
            reason = reason_for(flat, refusal, names)
            if isinstance(place, Computation):
                roots.setdefault(place, {}).setdefault(leaf, reason)
            else:
                operands.setdefault(place, {}).setdefault(leaf, reason)
        for (user, operand), wanted in operands.items():
            self._note(editor.copy_operand_leaves(user, operand, wanted), wanted)
        for computation, wanted in roots.items():
            self._note(editor.copy_root_leaves(computation, wanted), wanted)

    def _make_again(self) -> bool:
        """Put arrays that are made of constants in place of their copies; whether there are any.

        This comes once, when all has settled. Each new array is made where its copy was, out of
        what nothing overwrites, and is read where the copy was; what was copied is read no later
        than before. Little is in the way that was not: what then stands first in the body of a
        loop, where the state that comes in is still there. That is copied, and stays a copy.
        """
        copies = [x.copy for x in self.copies]
        if not any(is_of_constants(x.operands[0]) for x in copies):
            return False
        schedule = self.module.schedule
        self.module.schedule = Schedule({x: tuple(order) for x, order in self.sequences.items()})
        editor = Editor(self.module)
        again = {x: editor.make_again(x) for x in copies if is_of_constants(x.operands[0])}
        editor.finish()
        self.sequences = self.module.schedule.sequences
        if schedule is None:
            self.module.schedule = None
        self.copies = [x for x in self.copies if x.copy not in again]
        self.copied = {again.get(x, x) for x in self.copied}
        return True

    def _note(self, made: Mapping[int, Instruction], reasons: Mapping[int, CopyReason]) -> None:
        for leaf, copy in made.items():
            self.copies.append(InsertedCopy(copy, reasons[leaf]))
            self.copied.add(copy)

    def _place(
        self, flat: FlatSchedule, refusal: Refusal
    ) -> tuple[Computation | tuple[Instruction, int], int]:
        """What to copy: a leaf of what a computation returns, or of an operand."""
        wish = refusal.wish
        if wish.kind in (WishKind.ALIAS, WishKind.OUTPUT):
            return self.module.entry, wish.number
        if wish.kind is WishKind.IN_PLACE:
            overwrite = flat.overwrites[wish.number]
            return (flat.instructions[overwrite.position], overwrite.operand), overwrite.leaf
        join = flat.joins[wish.number]
        leaf = join.leaves[wish.part]
        if not isinstance(join, CarriedState):
            return flat.sites[join.sites[wish.branch]].computation, leaf
        body = flat.sites[join.site]
        if wish.kind is WishKind.STATE:
            return body.computation, leaf
        assert body.caller is not None
        return (body.caller, 0), leaf


class _LateReaders:
    """Copies what is overwritten for those who read it later, where the successor must not move."""

    def __init__(
        self,
        flows: Dataflow,
        flat: FlatSchedule,
        sharing: StorageClasses,
        sequences: Mapping[Computation, Sequence[Instruction]],
    ) -> None:
        self.flows = flows
        self.flat = flat
        self.sharing = sharing
        self.sequences = sequences
        self.fixed = sharing.fixed_classes()
        self.reads: dict[Computation, Reads] = {}

    def serve(
        self, refusal: Refusal, writer: Instruction, operand: int, leaf: int, editor: Editor
    ) -> InsertedCopy | None:
        """Copy a leaf of an operand of `writer` for its later readers, where that can be."""
        before = refusal.wish.before
        if refusal.held != before or self.sharing.find(before) not in self.fixed:
            return None
        computation = writer.parent
        flow = self.flows[computation]
        if writer.operands[operand] not in flow.number:
            return None
        if computation not in self.reads:
            self.reads[computation] = Reads(flow, self.sequences[computation])
        value = flow.leaves_of(writer.operands[operand])[leaf]
        made = self.reads[computation].copy_for_readers(value, writer, editor)
        if made is None:
            return None
        copy, reader = made
        return InsertedCopy(copy, reader_reason(self.flat, refusal, writer, reader))


_MOST_ROUNDS: Final = 20
"""Each round copies all that is refused. What was copied is granted first in the next one, and its
place may then be refused to others."""

_SEARCHED: Final = 200
"""How many instructions are looked at to see that a control edge would say nothing new."""


def _successions(flat: FlatSchedule, sharing: StorageClasses) -> list[tuple[int, int]]:
    """Pairs of values of which the second takes the place of the first.

    A value that only some branches need gives way to one value in each of the others.
    """
    stretches: dict[int, list[tuple[int, int, int]]] = {}
    values = flat.values
    for value, nbytes in enumerate(values.nbytes):
        if nbytes and not values.read_only[value]:
            rows = [(first, last, value) for first, last in flat.stretches_of(value)]
            stretches.setdefault(sharing.find(value), []).extend(rows)
    pairs: dict[tuple[int, int], None] = {}
    for found in stretches.values():
        found.sort()
        made = [row for row in found if row[0] == values.first[row[2]]]
        for rows in (found, made):
            for (_, _, before), (first, _, after) in pairwise(rows):
                if before != after and first == values.first[after]:
                    pairs[before, after] = None
    return list(pairs)
