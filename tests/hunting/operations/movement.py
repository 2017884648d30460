"""Operations that move elements by positions known beforehand."""

from __future__ import annotations

from math import prod
from typing import Final

from tests.hunting.arrays import COMPLEX, DrawnArray, braced, row_major, zero
from tests.hunting.scope import Maker, Scope, bounds, halved, joined


def _broadcast(scope: Scope, type_: str) -> DrawnArray | None:
    sizes = scope.sizes(0, 4)
    kept = [i for i in range(len(sizes)) if scope.chance(2)]
    x = scope.array(type_, tuple([sizes[i] for i in kept]))
    return scope.emit(type_, sizes, f"broadcast({x.name}), dimensions={braced(kept)}", x.noise)


def _reshape(scope: Scope, type_: str) -> DrawnArray | None:
    x = scope.array(type_, scope.sizes(0, 4))
    return scope.emit(type_, _other_sizes(scope, x), f"reshape({x.name})", x.noise)


def _other_sizes(scope: Scope, x: DrawnArray) -> tuple[int, ...]:
    """Other sizes with as many elements: split, merged, with or without dimensions of size 1."""
    sizes = [size for size in x.sizes if size != 1]
    if sizes and scope.chance(2):
        place = scope.random.randrange(len(sizes))
        for part in (2, 3, 5, 7):
            if sizes[place] and sizes[place] % part == 0:
                sizes[place : place + 1] = [part, sizes[place] // part]
                break
    if len(sizes) > 1 and scope.chance(2):
        place = scope.random.randrange(len(sizes) - 1)
        sizes[place : place + 2] = [sizes[place] * sizes[place + 1]]
    if scope.chance(2):
        sizes.insert(scope.random.randint(0, len(sizes)), 1)
    return tuple(sizes)


def _bitcast(scope: Scope, type_: str) -> DrawnArray | None:
    x = scope.array(type_, scope.sizes(0, 3))
    if scope.chance(2):
        order = list(range(x.rank))
        scope.random.shuffle(order)
        sizes = tuple([x.sizes[i] for i in order])
        layout = tuple([order.index(i) for i in x.layout])
        return scope.emit(type_, sizes, f"bitcast({x.name})", x.noise, layout)
    packed = scope.emit(type_, x.sizes, f"copy({x.name})", x.noise, row_major(x.rank))
    sizes = _other_sizes(scope, x)
    return scope.emit(type_, sizes, f"bitcast({packed.name})", x.noise, row_major(len(sizes)))


def _transpose(scope: Scope, type_: str) -> DrawnArray | None:
    x = scope.array(type_, scope.sizes(1, 4))
    order = list(range(x.rank))
    scope.random.shuffle(order)
    sizes = tuple([x.sizes[i] for i in order])
    return scope.emit(type_, sizes, f"transpose({x.name}), dimensions={braced(order)}", x.noise)


def _slice(scope: Scope, type_: str) -> DrawnArray | None:
    x = scope.array(type_, scope.sizes(1, 4))
    starts, limits, strides = [], [], []
    for size in x.sizes:
        start = scope.random.randint(0, size) if scope.chance(2) else 0
        starts.append(start)
        limits.append(scope.random.randint(start, size) if scope.chance(2) else size)
        strides.append(scope.random.choice((1, 1, 2, 3)))
    spans = zip(starts, limits, strides, strict=True)
    sizes = tuple([-((a - b) // c) for a, b, c in spans])
    return scope.emit(type_, sizes, f"slice({x.name}), {bounds(starts, limits, strides)}", x.noise)


def _pad(scope: Scope, type_: str) -> DrawnArray | None:
    x = scope.array(type_, scope.sizes(1, 3))
    fill = scope.array(type_, (), 0)
    parts, sizes = [], []
    for size in x.sizes:
        inner = scope.random.choice((0, 0, 1, 2))
        spread = size + max(0, size - 1) * inner
        low = scope.random.randint(-1, 2) if spread > 2 else scope.random.randint(0, 2)
        high = scope.random.randint(-1, 2) if spread > 2 else scope.random.randint(0, 2)
        parts.append(f"{low}_{high}_{inner}")
        sizes.append(spread + low + high)
    expression = f"pad({x.name}, {fill.name}), padding={'x'.join(parts)}"
    return scope.emit(type_, tuple(sizes), expression, x.noise)


def _concatenate(scope: Scope, type_: str) -> DrawnArray | None:
    sizes = list(scope.sizes(1, 3))
    place = scope.random.randrange(len(sizes))
    others = max(1, prod([*sizes[:place], *sizes[place + 1 :]]))
    parts = []
    for _ in range(scope.random.randint(1, 4)):
        if scope.chance(2):
            (sizes[place],) = halved([scope.size()], 2 * scope.draft.most // others)
        parts.append(scope.array(type_, tuple(sizes)))
    sizes[place] = sum([x.sizes[place] for x in parts])
    noise = max([x.noise for x in parts])
    expression = f"concatenate({joined(parts)}), dimensions={{{place}}}"
    return scope.emit(type_, tuple(sizes), expression, noise)


def _reverse(scope: Scope, type_: str) -> DrawnArray | None:
    x = scope.array(type_, scope.sizes(1, 4))
    chosen = [i for i in range(x.rank) if scope.chance(2)]
    return scope.emit(type_, x.sizes, f"reverse({x.name}), dimensions={braced(chosen)}", x.noise)


def _iota(scope: Scope, type_: str) -> DrawnArray | None:
    if type_ == "pred":
        return None
    sizes = scope.sizes(1, 3)
    place = scope.random.randrange(len(sizes))
    return scope.emit(type_, sizes, f"iota(), iota_dimension={place}")


def _constant(scope: Scope, type_: str) -> DrawnArray | None:
    sizes = scope.sizes(0, 2)
    if prod(sizes) > 40:
        return None
    words = _literal(scope, type_, sizes)
    return scope.emit(type_, sizes, f"constant({words})", layout=row_major(len(sizes)))


def _literal(scope: Scope, type_: str, sizes: tuple[int, ...]) -> str:
    if sizes:
        rows = [_literal(scope, type_, sizes[1:]) for _ in range(sizes[0])]
        return f"{{{', '.join(rows)}}}"
    if type_ == "pred" or scope.chance(3):
        return zero(type_) if scope.chance(2) or type_ != "pred" else "true"
    number = str(scope.random.choice((0, 1)))
    return f"({number}, -1)" if type_ in COMPLEX else number


MAKERS: Final[dict[str, Maker]] = {
    "broadcast": _broadcast,
    "reshape": _reshape,
    "bitcast": _bitcast,
    "transpose": _transpose,
    "slice": _slice,
    "pad": _pad,
    "concatenate": _concatenate,
    "reverse": _reverse,
    "iota": _iota,
    "constant": _constant,
}
