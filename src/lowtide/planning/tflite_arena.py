"""The arena planner of TFLite's CPU runtime: a graph of tensors to offsets in one arena."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from lowtide.planning.placed import Placed, aligned
from lowtide.records import dataclass

OPTIONAL: Final = -1
"""In place of a tensor: the operation does without it."""

NEVER: Final = 2**31 - 1
"""In place of a node: that at which a tensor begins or ends is not known."""

DEFAULT_ALIGNMENT: Final = 64

SHARABLE_INPUTS: Final = 3
"""An operation can write over one of its first inputs only."""

SCALAR_BYTES: Final = 4
"""What is not larger is not written over: it may be a tensor that is to be resized."""

NEVER_FITS: Final = 2**62


class SimpleMemoryArena:
    """Buffers that come with their lifetimes, one after another."""

    def __init__(self) -> None:
        self.nbytes = 0
        """The end of the buffer that reaches highest."""
        self._placed = Placed()

    def allocate(self, nbytes: int, first: int, last: int, alignment: int) -> int:
        """Return the offset of a buffer that is live from node `first` to `last`, included.

        It goes to the best gap between what lives at the same time, or on top. A gap is better if
        it is smaller, measured from the aligned offset in it, than the best one before, measured
        from where that begins. A buffer without bytes lies at 0 and takes no place.
        """
        if not nbytes:
            return 0
        begin, end = self._placed.gaps([(first, last)])
        starts = aligned(begin, alignment)
        fits = (starts[:-1] + nbytes <= end[:-1]).nonzero()[0]
        best, best_fit = int(starts[-1]), NEVER_FITS
        for gap in fits.tolist():
            if end[gap] - starts[gap] < best_fit:
                best, best_fit = int(starts[gap]), int(end[gap] - begin[gap])
            if not best_fit:
                break
        self._placed.put(first, last, best, best + nbytes)
        self.nbytes = max(self.nbytes, best + nbytes)
        return best


class TfliteNode(NamedTuple):
    """An operation: tensors by number; `inplace` are positions of inputs it may write over.

    One that is `unmodified` returns the bytes of the input as they are: a view.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    temporaries: tuple[int, ...]
    inplace: frozenset[int]
    unmodified: bool


@dataclass(frozen=True, slots=True)
class TfliteArenaPlan:
    """Offsets by tensor, None where it is never allocated, and the size of the arena in bytes.

    `first` and `last` are the nodes from which and to which the memory of a tensor is its own,
    `NEVER` where it stays to the end. `shares_with` is the tensor in whose memory a tensor lies,
    itself where it has its own. Persistent tensors lie in a second arena.
    """

    offsets: tuple[int | None, ...]
    arena_size: int
    first: tuple[int, ...]
    last: tuple[int, ...]
    shares_with: tuple[int, ...]
    persistent: frozenset[int]
    persistent_size: int


def plan(
    graph: Mapping[str, Any], alignment: int | None = None, preserve_all: bool | None = None
) -> TfliteArenaPlan:
    """Return where the tensors of a graph lie.

    `graph` has `inputs`, `outputs`, `bytes` of each tensor, and `nodes` in order of execution with
    `inputs`, `outputs`, `temporaries` and `inplace`, a list of positions and perhaps "unmod";
    `variables` live throughout, `persistent` tensors in an arena of their own, and `constants` in
    none. `align` and `preserve_all` of the graph stand in for arguments that are not given; with
    the latter no memory is used twice. Tensors without bytes are never allocated, nor are those
    that no node writes and that are no inputs. Raises ValueError for parts of the graph or tensors
    that are not there, and an alignment below 1.
    """
    missing = [x for x in ("inputs", "outputs", "nodes") if x not in graph]
    if missing:
        raise ValueError(f"the graph lacks {', '.join(missing)}")
    alignment = graph.get("align", DEFAULT_ALIGNMENT) if alignment is None else alignment
    if alignment is None or alignment < 1:
        raise ValueError(f"alignment {alignment} is not above 0")
    keep = bool(graph.get("preserve_all", False)) if preserve_all is None else preserve_all
    planner = _Planner(graph, keep)
    planner.share()
    planner.live()
    return planner.place(alignment)


class _Planner:
    """The steps of planning: reference counts, sharing, lifetimes, offsets."""

    def __init__(self, graph: Mapping[str, Any], keep: bool) -> None:
        self.keep = keep
        self.nodes = [_node(number, node) for number, node in enumerate(graph["nodes"])]
        self.inputs = _present(graph["inputs"])
        self.outputs = _present(graph["outputs"])
        self.variables = _present(graph.get("variables", ()))
        self.persistent = frozenset(_present(graph.get("persistent", ())))
        self.constants = frozenset(_present(graph.get("constants", ())))
        self.nbytes = _bytes_of(graph, self._largest())
        count = len(self.nbytes)
        self.root = list(range(count))
        self.first = [NEVER] * count
        self.last = [NEVER] * count
        self.base = [0] * count
        for tensor in (*self.outputs, *self.variables, *self.inputs):
            self.base[tensor] += 1

    def _largest(self) -> int:
        listed = [self.inputs, self.outputs, self.variables, tuple(self.persistent)]
        listed.append(tuple(self.constants))
        listed += [(*x.inputs, *x.outputs, *x.temporaries) for x in self.nodes]
        return max([x for tensors in listed for x in tensors], default=-1)

    def share(self) -> None:
        """Find the outputs that take over the memory of an input."""
        uses = list(self.base)
        for node in self.nodes:
            for tensor in _present(node.inputs):
                uses[tensor] += 1
        barred, outputs = {*self.inputs, *self.constants}, set(self.outputs)
        for node in self.nodes:
            output = node.outputs[0] if node.outputs else OPTIONAL
            if output == OPTIONAL or output in outputs or self.keep:
                continue
            taken = [
                tensor
                for position, tensor in enumerate(node.inputs[:SHARABLE_INPUTS])
                if tensor != OPTIONAL
                and position in node.inplace
                and tensor not in barred
                and self._may_share(node, tensor, output, uses)
            ]
            if taken and (node.unmodified or uses[self.root[taken[0]]] <= 1):
                self.root[output] = self.root[taken[0]]

    def _may_share(self, node: TfliteNode, tensor: int, output: int, uses: Sequence[int]) -> bool:
        if tensor in self.persistent and output not in self.persistent:
            return False
        if node.unmodified:
            return True
        same = self.nbytes[tensor] == self.nbytes[output]
        return same and self.nbytes[tensor] > SCALAR_BYTES and uses[tensor] <= 1

    def live(self) -> None:
        """Find the nodes from which and to which each tensor is needed."""
        counts = list(self.base)
        for node in self.nodes:
            for tensor in _present(node.inputs):
                counts[self.root[tensor]] += 1
        for tensor in (*self.variables, *self.inputs):
            self.first[tensor] = 0
        for number, node in enumerate(self.nodes):
            for tensor in _present(node.outputs):
                self.first[tensor] = min(self.first[tensor], number)
            for tensor in () if self.keep else _present(node.inputs):
                root = self.root[tensor]
                counts[root] -= 1
                if not counts[root] and self.first[root] != NEVER:
                    self.last[root] = number
        for number, node in enumerate(self.nodes):
            for tensor in node.temporaries:
                self.first[tensor] = number
                self.last[tensor] = NEVER if self.keep else number

    def place(self, alignment: int) -> TfliteArenaPlan:
        """Allocate what lives throughout, by number, then the rest by decreasing size."""
        arena, lasting = SimpleMemoryArena(), SimpleMemoryArena()
        offsets: list[int | None] = [None] * len(self.nbytes)
        for tensor in self._order():
            if self._shares(tensor):
                continue
            self.root[tensor] = tensor
            first, last = self.first[tensor], self.last[tensor]
            if tensor in self.persistent:
                row = self.nbytes[tensor], first, NEVER, alignment
                offsets[tensor] = lasting.allocate(*row)
            else:
                offsets[tensor] = arena.allocate(self.nbytes[tensor], first, last, alignment)
        for tensor, root in enumerate(self.root):
            offsets[tensor] = offsets[root]
        return TfliteArenaPlan(
            tuple(offsets),
            arena.nbytes,
            tuple(self.first),
            tuple(self.last),
            tuple(self.root),
            self.persistent,
            lasting.nbytes,
        )

    def _shares(self, tensor: int) -> bool:
        """Whether a tensor lies in the memory of another one, of the same size and arena."""
        root = self.root[tensor]
        same = self.nbytes[root] == self.nbytes[tensor]
        return root != tensor and same and not {root, tensor} & self.persistent

    def _order(self) -> list[int]:
        """Tensors in the order of allocation, those that several nodes write more than once."""
        throughout = sorted({*self.variables, *self.inputs})
        listed = [throughout] if not self.nodes else []
        for number, node in enumerate(self.nodes):
            ends = {*_present(node.outputs), *node.temporaries}
            listed.append(sorted(ends if number else {*ends, *throughout}))
        tensors = [x for tensors in listed for x in tensors if self.nbytes[x]]
        return sorted(tensors, key=self._allocation_key)

    def _allocation_key(self, tensor: int) -> tuple[int, int, int]:
        if self.first[tensor] == 0 and self.last[tensor] == NEVER:
            return 0, tensor, 0
        return 1, -self.nbytes[tensor], self.first[tensor]


def _present(tensors: Sequence[int]) -> tuple[int, ...]:
    return tuple([x for x in tensors if x != OPTIONAL])


def _node(number: int, node: Mapping[str, Any]) -> TfliteNode:
    inplace = [x for x in node.get("inplace", ()) if x != "unmod"]
    inputs, outputs = tuple(node.get("inputs", ())), tuple(node.get("outputs", ()))
    temporaries = _present(node.get("temporaries", ()))
    if min([*inputs, *outputs, *temporaries], default=0) < OPTIONAL:
        raise ValueError(f"node {number} has a tensor below {OPTIONAL}, which is none")
    if not all(isinstance(x, int) for x in inplace):
        raise ValueError(f'node {number}: in place are {inplace}, expected positions or "unmod"')
    unmodified = len(inplace) < len(node.get("inplace", ()))
    return TfliteNode(inputs, outputs, temporaries, frozenset(inplace), unmodified)


def _bytes_of(graph: Mapping[str, Any], largest: int) -> list[int]:
    """The bytes of each tensor; without them, three more per tensor, as TFLite's tests have it."""
    nbytes = graph.get("bytes")
    if nbytes is None:
        return [3 * (tensor + 1) for tensor in range(largest + 1)]
    if len(nbytes) <= largest or min(nbytes, default=0) < 0:
        raise ValueError(f"expected bytes, not negative, of the tensors 0 to {largest}")
    return list(nbytes)


Node = TfliteNode
ArenaPlan = TfliteArenaPlan
"""The names under which callers of this library know both."""
