"""Values that live at the peak, computed once more where they are read later, if that is cheap.

A value that was normalized, activated, cast or masked is often kept for a far reader, though what
it was made of is kept too.
"""

from __future__ import annotations

from math import inf
from typing import Final, NamedTuple, TypeAlias, final

from lowtide.cost.kernels import move_seconds
from lowtide.fusion.cluster import Cluster, KernelKind
from lowtide.fusion.cluster_graph import ClusterGraph, copied, evaluations, join
from lowtide.fusion.legality import Joint, joined, joined_by_all
from lowtide.fusion.peak import Estimate, PeakView
from lowtide.fusion.peak_cut import chosen_by_cut
from lowtide.fusion.refusal import FusionRefusal
from lowtide.ir import Instruction

SECONDS_PER_BYTE: Final = 1e-9
"""What a byte less at the peak may cost: ten times what it takes to move it."""

_JUST_BELOW: Final = 1 - 1e-9
"""What keeps rounding from taking a price for too low that is just enough."""

Joints: TypeAlias = tuple[tuple[Cluster, Joint], ...]
"""Kernels that compute what they read, and how."""

_LEVELS: Final = 4
"""How many kernels one after the other may be computed once more."""


class Recomputed(NamedTuple):
    """Of how many values the lives were shortened, and at which price others would be chosen.

    At any price for a byte from the one given to below `next_price`, all is the same. Of `spread`
    values early readers could have gone on to read what is stored, and compute it, too.
    """

    shortened: int
    next_price: float
    spread: int = 0


def recompute_behind(
    graph: ClusterGraph,
    estimate: Estimate,
    seconds_per_byte: float = SECONDS_PER_BYTE,
    most_seconds: float = inf,
    may_spread: bool = True,
) -> Recomputed:
    """Shorten the lives of values that span a peak, one by one.

    A byte less at the peak may cost `seconds_per_byte`, and all of them together `most_seconds`.
    Where it takes no longer and `may_spread`, early readers compute values, too.
    """
    work = _Recomputing(graph, estimate, seconds_per_byte, most_seconds, may_spread)
    count = sum([work.run(at) for at in estimate.peaks])
    return Recomputed(count, work.next_price, work.spread)


def recompute_at(
    graph: ClusterGraph,
    estimate: Estimate,
    seconds_per_byte: float,
    most_seconds: float,
    may_spread: bool,
) -> Recomputed:
    """As `recompute_behind`, also of values of which nothing is read behind a peak, but there."""
    work = _Recomputing(graph, estimate, seconds_per_byte, most_seconds, may_spread, at_peak=True)
    count = sum([work.run(at) for at in estimate.peaks])
    return Recomputed(count, work.next_price, work.spread)


def recompute_by_cut(
    graph: ClusterGraph,
    estimate: Estimate,
    seconds_per_byte: float,
    most_seconds: float,
    may_spread: bool,
) -> Recomputed:
    """Shorten the lives of values that span a peak, chosen together."""
    work = _Recomputing(graph, estimate, seconds_per_byte, most_seconds, may_spread)
    count = sum([work.run(at, by_cut=True) for at in estimate.peaks])
    return Recomputed(count, seconds_per_byte, work.spread)


@final
class _Recomputing:
    def __init__(
        self,
        graph: ClusterGraph,
        estimate: Estimate,
        seconds_per_byte: float,
        most_seconds: float,
        may_spread: bool,
        *,
        at_peak: bool = False,
    ) -> None:
        self.graph, self.seconds_per_byte = graph, seconds_per_byte
        self.may_spread, self.at_peak = may_spread, at_peak
        self.spread = 0
        self.seconds_left = most_seconds
        self.next_price = inf
        """The least price of a byte that one of those left alone would have come to."""
        self.chosen: dict[Instruction, None] | None = None
        """The values that may be computed once more, whatever each gains by itself; None for all
        that gain something."""
        self.view = view = PeakView(graph, estimate)
        live_out = view.memory.graph.live_out
        self.large = [
            (root, buffer)
            for root, buffer in sorted(view.memory.buffers.stored.items(), key=self._readers_first)
            if view.bytes[buffer] >= view.least and not live_out[buffer]
        ]
        """The large values that may be computed once more, readers first, with their buffers."""

    def run(self, at: int, *, by_cut: bool = False) -> int:
        """Go from readers to what they read, so that chains of values are computed once more."""
        view = self.view
        view.at = at
        self.chosen = chosen_by_cut(self.graph, view, self.seconds_per_byte) if by_cut else None
        shortened = 0
        for root, buffer in self.large:
            if root not in self.graph.owner:
                continue
            if self.chosen is not None and root not in self.chosen:
                continue
            if view.is_before(root) and view.is_read_late(buffer, at_peak=self.at_peak):
                shortened += self._shorten(root, buffer)
        return shortened

    def _readers_first(self, item: tuple[Instruction, int]) -> int:
        return -self.graph.order[item[0]]

    def _shorten(self, root: Instruction, buffer: int) -> bool:
        """Have a value computed once more by all that read it after the peak."""
        view = self.view
        if view.is_read_late_and_alone(buffer):
            return False
        producer = self.graph.owner[root]
        if self.chosen is None:
            producer = self._from_what_is_live(producer)
        readers = view.late_readers(root, at_peak=self.at_peak)
        if producer.kind is not KernelKind.LOOP or not readers:
            return False
        joints = joined_by_all(producer, readers, self.graph.target)
        if isinstance(joints, FusionRefusal):
            return False
        late = joints
        joints, seconds = self._quickest(producer, late)
        if seconds > self.seconds_left or not self._is_worth_it(producer, buffer, seconds):
            return False
        self.seconds_left -= seconds
        self.spread += joints is not late
        end, view.last[buffer] = view.last[buffer], view.at
        for operand in producer.inputs:
            read = view.memory.buffers.of(operand)
            if read is not None:
                view.last[read] = max(view.last[read], end)
        self.graph.absorb(producer, joints)
        return True

    def _quickest(self, producer: Cluster, late: Joints) -> tuple[Joints, float]:
        """Late readers, or all where they take no longer, and how much longer it takes than now.

        Where all compute the value it is not stored at all; what it is made of lives at the peak.
        Early contractions read it as it is: a value takes longer to make while it is packed.
        """
        root, seconds = producer.root, self._seconds(producer, [x for x, _ in late])
        everyone = self.graph.reading(root) if self.may_spread else []
        early = [x for x in everyone if all(x is not reader for reader, _ in late)]
        if early and root not in self.graph.opaque and not any(x.inputs[root].inner for x in early):
            joints = joined_by_all(producer, everyone, self.graph.target)
            if not isinstance(joints, FusionRefusal):
                whole = self._seconds(producer, everyone)
                if whole <= seconds:
                    return joints, whole
        return late, seconds

    def _from_what_is_live(self, producer: Cluster) -> Cluster:
        """The same value, computed from values that live at the peak anyway, as far as possible."""
        for _ in range(_LEVELS):
            dead = [x for x in producer.inputs if self.view.longer([x])]
            owners = [self.graph.owner[x] for x in dead if x in self.graph.owner]
            loops = [x for x in owners if x.kind is KernelKind.LOOP]
            joints = [(x, joined(x, producer, self.graph.target)) for x in loops]
            found = next(((x, joint) for x, joint in joints if isinstance(joint, Joint)), None)
            if found is None:
                break
            producer, made = copied(producer), found[0].root
            times = evaluations(producer, producer.inputs[made], found[0])
            join(found[0], producer, found[1], times)
        return producer

    def _seconds(self, producer: Cluster, readers: list[Cluster]) -> float:
        """Return how much longer it takes if readers compute what they read.

        What no other cluster reads is no longer computed and stored by itself.
        """
        root, machine = producer.root, self.graph.target.machine
        times = sum([evaluations(x, x.inputs[root], producer) for x in readers])
        seconds = times * producer.seconds
        if len(readers) < len(self.graph.readers[root]) or root in self.graph.opaque:
            return seconds
        moved = machine.launch_seconds + 2 * move_seconds(root.shape.nbytes, machine)
        return max(0.0, seconds - self.graph.owner[root].seconds - moved)

    def _is_worth_it(self, producer: Cluster, buffer: int, seconds: float) -> bool:
        if self.chosen is not None:
            return True
        gained = self.view.bytes[buffer] - self.view.longer(producer.inputs)
        if gained < self.view.least:
            return False
        if seconds > gained * self.seconds_per_byte:
            self.next_price = min(self.next_price, _JUST_BELOW * seconds / gained)
            return False
        return True
