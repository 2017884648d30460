"""Operations that move elements by positions that are computed: slices, gathers, scatters."""

from __future__ import annotations

from math import prod
from typing import Final

from tests.hunting.arrays import DrawnArray, braced
from tests.hunting.operations.reducers import combiner, pair_combiner
from tests.hunting.scope import Maker, Scope, joined

_INDEX_TYPES: Final = ("s32", "s32", "s32", "u32", "s64", "u8")


def _starts(scope: Scope, rank: int) -> list[DrawnArray]:
    return [scope.index(3) for _ in range(rank)]


def _part(scope: Scope, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Sizes of a slice of an array, at times all of it."""
    if scope.chance(8):
        return sizes
    return tuple([scope.random.randint(min(1, size), size) for size in sizes])


def _dynamic_slice(scope: Scope, type_: str) -> DrawnArray | None:
    x = scope.array(type_, scope.sizes(1, 3))
    part = _part(scope, x.sizes)
    given = joined([x, *_starts(scope, x.rank)])
    expression = f"dynamic-slice({given}), dynamic_slice_sizes={braced(part)}"
    return scope.emit(type_, part, expression, x.noise)


def _dynamic_update_slice(scope: Scope, type_: str) -> DrawnArray | None:
    x = scope.array(type_, scope.sizes(1, 3))
    update = scope.array(type_, _part(scope, x.sizes))
    given = joined([x, update, *_starts(scope, x.rank)])
    return scope.emit(type_, x.sizes, f"dynamic-update-slice({given})", max(x.noise, update.noise))


class IndexForm:
    """How a gather or a scatter walks an array: which dimensions are indexed, batched, kept.

    `slice_sizes` are those of one slice of the array, `rows` the sizes that number slices, `result`
    those of the slices side by side, with `offsets` the dimensions within slices.
    """

    def __init__(self, scope: Scope) -> None:
        self.most = scope.draft.most
        rank = scope.random.randint(1, 3)
        self.sizes = scope.sizes(rank, rank)
        self.batched = [i for i in range(rank) if scope.chance(5)]
        free = [i for i in range(rank) if i not in self.batched]
        self.indexed = [i for i in free if scope.chance(2)] or free[:1]
        scope.random.shuffle(self.indexed)
        self.dropped = sorted([i for i in free if scope.chance(2)])
        single = {*self.batched, *self.dropped}
        part = _part(scope, self.sizes)
        self.slice_sizes = tuple([1 if i in single else part[i] for i in range(rank)])
        own = list(scope.sizes(0, 2))
        rows = [*[self.sizes[i] for i in self.batched], *own]
        self.index_batched = list(range(len(self.batched)))
        self.rows = tuple(rows)
        window = [self.slice_sizes[i] for i in range(rank) if i not in single]
        total = len(window) + len(rows)
        self.offsets = sorted(scope.random.sample(range(total), len(window)))
        inside, outside = iter(window), iter(rows)
        self.result = tuple(
            [next(inside) if i in self.offsets else next(outside) for i in range(total)]
        )
        self.vector = scope.random.randint(0, len(rows))
        if len(self.indexed) == 1 and scope.chance(2):
            self.vector = len(rows)
            self.index_sizes = self.rows
        else:
            sizes = [*rows]
            sizes.insert(self.vector, len(self.indexed))
            self.index_sizes = tuple(sizes)
            self.index_batched = [i + (i >= self.vector) for i in self.index_batched]

    @property
    def is_possible(self) -> bool:
        """Whether each slice lies within the array, and there are not too many."""
        pairs = zip(self.slice_sizes, self.sizes, strict=True)
        return all(a <= b for a, b in pairs) and prod(self.result) <= 4 * self.most


def _indices(scope: Scope, form: IndexForm) -> DrawnArray:
    """The indices of a gather or a scatter: numbers from anywhere, or counted along rows."""
    type_ = scope.random.choice(_INDEX_TYPES)
    if not form.indexed or scope.chance(2):
        return scope.array(type_, form.index_sizes, 0)
    if form.vector == len(form.index_sizes):
        return _counted(scope, type_, form.index_sizes)
    sizes = tuple([1 if i == form.vector else x for i, x in enumerate(form.index_sizes)])
    parts = [_counted(scope, type_, sizes) for _ in form.indexed]
    expression = f"concatenate({joined(parts)}), dimensions={{{form.vector}}}"
    return scope.emit(type_, form.index_sizes, expression)


def _counted(scope: Scope, type_: str, sizes: tuple[int, ...]) -> DrawnArray:
    """Numbers that grow or fall by the same along a dimension; at times any."""
    if not sizes or scope.chance(4):
        return scope.array(type_, sizes, 0)
    place = scope.random.randrange(len(sizes))
    made = scope.emit(type_, sizes, f"iota(), iota_dimension={place}")
    for opcode, least in (("multiply", 1), ("add", 0), ("subtract", 0)):
        if scope.chance(3):
            step = scope.constant(type_, str(scope.random.randint(least, 5)))
            steps = scope.emit(type_, sizes, f"broadcast({step.name}), dimensions={{}}")
            pair = [steps, made] if scope.chance(2) else [made, steps]
            made = scope.emit(type_, sizes, f"{opcode}({joined(pair)})")
    return made


def _gather(scope: Scope, type_: str) -> DrawnArray | None:
    form = IndexForm(scope)
    if not form.is_possible:
        return None
    x = scope.array(type_, form.sizes)
    indices = _indices(scope, form)
    attributes = [
        f"offset_dims={braced(form.offsets)}",
        f"collapsed_slice_dims={braced(form.dropped)}",
        f"start_index_map={braced(form.indexed)}",
        f"index_vector_dim={form.vector}",
        f"slice_sizes={braced(form.slice_sizes)}",
    ]
    if form.batched:
        attributes.insert(3, f"operand_batching_dims={braced(form.batched)}")
        attributes.insert(4, f"start_indices_batching_dims={braced(form.index_batched)}")
    expression = f"gather({joined([x, indices])}), {', '.join(attributes)}"
    return scope.emit(type_, form.result, expression, x.noise)


def _scatter(scope: Scope, type_: str) -> DrawnArray | None:
    form = IndexForm(scope)
    if not form.is_possible:
        return None
    number = 2 if scope.chance(4) else 1
    targets = [scope.array(type_, form.sizes) for _ in range(number)]
    indices = _indices(scope, form)
    updates = [scope.array(type_, form.result) for _ in range(number)]
    callee, noise = combiner(scope, type_) if number == 1 else pair_combiner(scope, type_)[:2]
    attributes = [
        f"update_window_dims={braced(form.offsets)}",
        f"inserted_window_dims={braced(form.dropped)}",
        f"scatter_dims_to_operand_dims={braced(form.indexed)}",
        f"index_vector_dim={form.vector}",
        f"to_apply={callee}",
    ]
    if form.batched:
        attributes.insert(3, f"input_batching_dims={braced(form.batched)}")
        attributes.insert(4, f"scatter_indices_batching_dims={braced(form.index_batched)}")
    expression = f"scatter({joined([*targets, indices, *updates])}), {', '.join(attributes)}"
    noise += max([x.noise for x in (*targets, *updates)])
    if number == 1:
        return scope.emit(type_, form.sizes, expression, noise)
    return scope.emit_parts([(type_, form.sizes)] * 2, expression, noise)[0]


MAKERS: Final[dict[str, Maker]] = {
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "gather": _gather,
    "scatter": _scatter,
}
