"""Attention as one kernel: two dots, and between them a computation along each row of scores.

A row is what the second dot contracts. Scale, mask and softmax in any of its forms need only one
row of the scores at a time. They are done while a block of rows lies in the cache, so that the
scores are never stored (Dao et al., 2022, FlashAttention; Rabe and Staats, 2021, Self-attention
does not need O(n^2) memory). `KernelKind.ATTENTION` says what such a kernel does.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from heapq import heappop, heappush
from math import prod
from typing import Final, final

from lowtide.cost.kernels import compute_seconds, move_seconds
from lowtide.fusion.attention_rows import (
    ScoreRegion,
    SecondDot,
    is_laid_out,
    key_side,
    lengths_alone,
    longest_row,
)
from lowtide.fusion.bodies import Bodies
from lowtide.fusion.cluster import Cluster, KernelKind
from lowtide.fusion.legality import INDEXING, seed
from lowtide.fusion.materialize import materialize
from lowtide.fusion.target_record import CPU_TARGET, TargetRecord
from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ir.traversal import applied_computations, computation_post_order, post_order
from lowtide.ops.dot_roles import dot_roles
from lowtide.ops.table import TABLE
from lowtide.passes.dead_code import remove_dead_code
from lowtide.passes.interface import Pass, example

_SEEN: Final = 2
"""So many times the members of a kernel are searched behind a dot for another one."""

_MOST_EPILOGUE: Final = 16
"""Instructions behind the second dot that may belong to the kernel."""


def fuse_attention(
    module: Module,
    target: TargetRecord = CPU_TARGET,
    *,
    least_bytes: int = CPU_TARGET.machine.cache_bytes,
) -> int:
    """Make one kernel of each attention with more than `least_bytes` of scores; return how many."""
    if KernelKind.ATTENTION not in target.kinds:
        return 0
    applied = applied_computations(module)
    bodies = Bodies(module)
    made = 0
    for computation in computation_post_order(module):
        if computation not in applied:
            made += _Finder(computation, target, least_bytes).run(bodies)
    if made:
        remove_dead_code(module)
    return made


@final
class _Finder:
    """Looks at each dot of a computation as the second one of an attention."""

    def __init__(self, computation: Computation, target: TargetRecord, least_bytes: int) -> None:
        self.computation = computation
        self.target = target
        self.least_bytes = least_bytes
        self.by_position: list[Instruction] = []
        self.order: dict[Instruction, int] = {}
        self.free: set[Instruction] = set()
        self.claimed: set[Instruction] = set()
        self.possible: dict[Instruction, bool] = {}

    def run(self, bodies: Bodies) -> int:
        dots = [x for x in self.computation.instructions.values() if self._may_be_second(x)]
        if not dots:
            return 0
        self.by_position = post_order(self.computation)
        self.order = {x: number for number, x in enumerate(self.by_position)}
        self._find_free_values()
        clusters = []
        for dot in sorted(dots, key=self.order.__getitem__):
            cluster = self._attention(dot)
            if cluster is not None:
                self.claimed.update([x for x in cluster.members if x not in self.free])
                clusters.append(cluster)
        return materialize(self.computation, clusters, self.order, bodies)

    def _may_be_second(self, x: Instruction) -> bool:
        return _is_quick(x) and any(
            y.shape.is_array and y.shape.nbytes > self.least_bytes for y in x.operands
        )

    def _find_free_values(self) -> None:
        """Note iotas, and what simple operations make of them and of scalar constants."""
        machine = self.target.machine
        for x, position in self.order.items():
            if not all(y in self.free for y in x.operands) or not x.shape.is_array:
                continue
            if x.opcode is Opcode.CONSTANT and x.shape.rank:
                continue
            simple = 2 * machine.element_seconds * x.shape.element_count
            if compute_seconds(x, machine) > simple:
                continue
            cluster = seed(x, position, self.target)
            if cluster is not None and cluster.kind is KernelKind.LOOP:
                self.free.add(x)

    # -- what depends on the scores ------------------------------------------------------------

    def _attention(self, dot: Instruction) -> Cluster | None:
        """Return the kernel that ends with a dot, or shortly behind it, None if there is none."""
        if dot in self.claimed or seed(dot, 0, self.target) is None:
            return None
        for side in (1, 0):
            second = SecondDot(dot, side)
            if second.weights.shape.nbytes <= self.least_bytes or second.weights is second.values:
                continue
            for root in dict.fromkeys((self._epilogue(dot), dot)):
                for region in self._regions(root, second):
                    cluster = _Growth(self, region).cluster()
                    if cluster is not None:
                        return cluster
        return None

    def _epilogue(self, dot: Instruction) -> Instruction:
        """Return the last of the elementwise operations behind a dot that only they read."""
        result = x = dot
        for _ in range(_MOST_EPILOGUE):
            if x.is_root or len(x.users) != 1:
                break
            x = next(iter(x.users))
            if x in self.claimed or not self._is_elementwise(x, dot):
                break
            if x.opcode not in (Opcode.RESHAPE, Opcode.BITCAST):
                result = x
        return result

    def _is_elementwise(self, x: Instruction, dot: Instruction) -> bool:
        """Whether an operation reads one element of a dot's result for each that it returns."""
        cluster = seed(x, 0, self.target)
        if cluster is None or cluster.kind is not KernelKind.LOOP:
            return False
        if x.opcode not in _MOVING and not TABLE[x.opcode].elementwise:
            return False
        return x.shape.element_count == dot.shape.element_count

    def _regions(self, root: Instruction, second: SecondDot) -> Iterator[ScoreRegion]:
        """Yield the ways in which the weights are made of dots: of all that there are, of each."""
        seen = self._behind(root, second)
        if not any(x.opcode is Opcode.REDUCE for x in seen):
            return
        among = set(seen)
        elements = second.weights.shape.element_count
        dots = [
            x
            for x in seen
            if _is_quick(x)
            and self.order[x] < self.order[second.dot]
            and x.shape.element_count == elements
            and second.row_length in lengths_alone(x)
        ]
        choices: list[tuple[Instruction, ...]] = [(x,) for x in dots]
        if len(dots) > 1:
            choices.insert(0, tuple(dots))
        for firsts in choices:
            region = ScoreRegion(root, second, firsts)
            dependent = self._dependent(region, among)
            if dependent and is_laid_out(region, dependent):
                yield region

    def _behind(self, root: Instruction, second: SecondDot) -> list[Instruction]:
        """Return what the root is made of, up to dots and what is opaque; operands come first."""
        found = {root: None}
        heap = [-self.order[root]]
        while heap and len(found) < _SEEN * self.target.most_members:
            x = self.by_position[-heappop(heap)]
            if x is not root and x.opcode is Opcode.DOT and x is not second.dot:
                continue
            operands = (second.weights,) if x is second.dot else x.operands
            for operand in operands:
                if operand in found or operand in self.claimed or not self._may_depend(operand):
                    continue
                found[operand] = None
                heappush(heap, -self.order[operand])
        return sorted(found, key=self.order.__getitem__)

    def _may_depend(self, x: Instruction) -> bool:
        """Whether an operation may stand between scores and result, or make the scores."""
        known = self.possible.get(x)
        if known is None:
            cluster = seed(x, 0, self.target)
            known = cluster is not None and (x.opcode is Opcode.DOT or cluster.kind in _BETWEEN)
            self.possible[x] = known
        return known

    def _dependent(self, region: ScoreRegion, among: Set[Instruction]) -> list[Instruction]:
        """Return what depends on the scores, operands first; nothing if anything else reads it."""
        found = dict.fromkeys(region.firsts)
        stack = list(region.firsts)
        while stack:
            x = stack.pop()
            if x is region.root:
                continue
            if x.is_root or not all(user in among for user in x.users):
                return []
            new = [user for user in x.users if user not in found]
            found |= dict.fromkeys(new)
            stack += new
        return sorted(found, key=self.order.__getitem__)


def _is_quick(x: Instruction) -> bool:
    """Whether the kernel multiplies in tiles what a dot does.

    Others it adds up one by one: kernels of their own have quick ways for integers.
    """
    return x.opcode is Opcode.DOT and x.shape.element_type.is_floating


_BETWEEN: Final = (KernelKind.LOOP, KernelKind.REDUCTION)
_MOVING: Final = (Opcode.RESHAPE, Opcode.BITCAST, Opcode.TRANSPOSE)


# -- the rest of the kernel --------------------------------------------------------------------


@final
class _Growth:
    """Adds to what depends on the scores what is cheap enough to be made where it is read."""

    def __init__(self, finder: _Finder, region: ScoreRegion) -> None:
        self.finder = finder
        self.region = region
        self.members: dict[Instruction, None] = dict.fromkeys(region.maps)
        self.inputs: dict[Instruction, None] = {}
        self.evaluations: dict[Instruction, int] = {}
        self.packed: set[Instruction] = set()
        """What is read while operands of the dots are packed."""
        self.heap: list[int] = []

    def cluster(self) -> Cluster | None:
        """Return the kernel, None where it does not fit the machine or is not worth it."""
        if not self._fits():
            return None
        for x in self.region.maps:
            self._note_operands(x, x.shape.element_count)
        while self.heap:
            x = self.finder.by_position[-heappop(self.heap)]
            if self._is_wanted(x):
                self.members[x] = None
                self._note_operands(x, self.evaluations[x])
            else:
                self.inputs[x] = None
        target = self.finder.target
        if len(self.members) > target.most_members or len(self.inputs) > target.most_arrays:
            return None
        root = self.region.root
        space = root.shape.dimensions
        return Cluster(KernelKind.ATTENTION, root, space, (), None, self.members, hero=root)

    def _fits(self) -> bool:
        """Whether scores are many, a row of them fits the cache, and so do keys and values."""
        region, target = self.region, self.finder.target
        scores = [*region.firsts, region.second.weights]
        if max([x.shape.nbytes for x in scores]) <= self.finder.least_bytes:
            return False
        row = longest_row(region)
        if row > target.most_row_bytes:
            return False
        rows = region.second.weights.shape.element_count // region.second.row_length
        at_once = max(1, min(target.most_rows, target.most_row_bytes // max(1, row)))
        for dot, side in (
            (region.second.dot, 1 - region.second.side),
            *[(x, key_side(region, x) or 0) for x in region.firsts],
        ):
            operand = dot.operands[side]
            batches = prod([operand.shape.dimensions[d] for d in dot_roles(dot)[side].batch])
            blocks = rows // batches / at_once
            if blocks > 1 and operand.shape.nbytes > target.most_key_bytes * batches:
                return False
        return True

    def _note_operands(self, x: Instruction, evaluations: int) -> None:
        """Put what a member reads from outside on the list of what may be drawn in."""
        is_packing = x in self.packed or x.opcode is Opcode.DOT
        for operand in x.operands:
            if operand in self.region.maps:
                continue
            if is_packing:
                self.packed.add(operand)
            if operand not in self.evaluations:
                heappush(self.heap, -self.finder.order[operand])
            self.evaluations[operand] = max(self.evaluations.get(operand, 0), evaluations)

    def _is_wanted(self, x: Instruction) -> bool:
        """Whether a value from outside is better computed where it is read."""
        target = self.finder.target
        cluster = seed(x, 0, target)
        if cluster is None or cluster.kind is not KernelKind.LOOP or x in self.finder.claimed:
            return False
        if len(self.members) + len(x.operands) > target.most_members // 2 and x.shape.rank:
            return False
        if x in self.packed:
            return cluster.packable and self._is_smaller_behind(x)
        if x in self.finder.free:
            return True
        again = max(0.0, self.evaluations[x] / max(1, x.shape.element_count) - 1)
        machine = target.machine
        storing = machine.launch_seconds + 2 * move_seconds(x.shape.nbytes, machine)
        if again * compute_seconds(x, machine) > storing:
            return False
        return self._is_smaller_behind(x)

    def _is_smaller_behind(self, x: Instruction) -> bool:
        """Whether less has to be read for what a value is made of, or no more if only we read it.

        Where others read it too, half as much has to suffice.
        """
        new = [y for y in x.operands if y not in self.evaluations and y not in self.finder.free]
        nbytes = sum([y.shape.nbytes for y in dict.fromkeys(new)])
        if x.is_root or any(user not in self.members for user in x.users):
            return 2 * nbytes <= x.shape.nbytes
        if nbytes != x.shape.nbytes:
            return nbytes < x.shape.nbytes
        if x.opcode in INDEXING:
            return True
        is_epilogue = any(y.opcode in _WITH_EPILOGUE and len(y.users) == 1 for y in new)
        return x not in self.packed and not is_epilogue


_WITH_EPILOGUE: Final = (Opcode.DOT, Opcode.CONVOLUTION, Opcode.REDUCE)


PASSES: Final = (
    Pass(
        "attention-fusion",
        fuse_attention,
        "Makes one kernel of two dots and the softmax between them: scores are not stored.",
        *example(
            """
HloModule m

greater { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT m = f32[] maximum(a, b) }
plus { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }

+fused_computation {
+ q.1 = f32[512,4] parameter(0)
+ k.1 = f32[512,4] parameter(1)
+ v.1 = f32[512,4] parameter(2)
+ scores.1 = f32[512,512] dot(q.1, k.1), lhs_contracting_dims={1}, rhs_contracting_dims={1}
+ low.1 = f32[] constant(-inf)
+ zero.1 = f32[] constant(0)
+ most.1 = f32[512] reduce(scores.1, low.1), dimensions={1}, to_apply=greater
+ wide.1 = f32[512,512] broadcast(most.1), dimensions={0}
+ less.1 = f32[512,512] subtract(scores.1, wide.1)
+ e.1 = f32[512,512] exponential(less.1)
+ sum.1 = f32[512] reduce(e.1, zero.1), dimensions={1}, to_apply=plus
+ sums.1 = f32[512,512] broadcast(sum.1), dimensions={0}
+ p.1 = f32[512,512] divide(e.1, sums.1)
+ ROOT o.1 = f32[512,4] dot(p.1, v.1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
+}
+
ENTRY main {
  q = f32[512,4] parameter(0)
  k = f32[512,4] parameter(1)
  v = f32[512,4] parameter(2)
- scores = f32[512,512] dot(q, k), lhs_contracting_dims={1}, rhs_contracting_dims={1}
- low = f32[] constant(-inf)
- zero = f32[] constant(0)
- most = f32[512] reduce(scores, low), dimensions={1}, to_apply=greater
- wide = f32[512,512] broadcast(most), dimensions={0}
- less = f32[512,512] subtract(scores, wide)
- e = f32[512,512] exponential(less)
- sum = f32[512] reduce(e, zero), dimensions={1}, to_apply=plus
- sums = f32[512,512] broadcast(sum), dimensions={0}
- p = f32[512,512] divide(e, sums)
- ROOT o = f32[512,4] dot(p, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
+ ROOT dot_fusion = f32[512,4] fusion(q, k, v), kind=kCustom, calls=fused_computation,
+   backend_config={"kernel":"attention"}
}
"""
        ),
        meanings=(("least_bytes", "attentions whose scores take no more bytes stay as they are"),),
    ),
)
