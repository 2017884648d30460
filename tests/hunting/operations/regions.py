"""Operations that run computations: fusions, calls, loops, branches, asynchronous pairs.

A region draws steps of its own through `Steps`, which the module's writer gives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tests.hunting.arrays import DrawnArray
from tests.hunting.scope import Scope, joined

Steps = Callable[[Scope, int], None]
Region = Callable[[Scope, Steps], DrawnArray | None]


def _inner(scope: Scope, steps: Steps, most: int, fused: bool = False) -> Scope:
    """A computation with some steps, which has asked for what it needs."""
    inner = Scope(scope.draft, scope)
    inner.is_fused = scope.is_fused or fused
    if scope.arrays and scope.chance(2):
        inner.passed(scope.random.choice(scope.arrays[-6:]))
    steps(inner, scope.random.randint(1, most))
    return inner


def _results(inner: Scope) -> list[DrawnArray]:
    """What a computation gives away: the last arrays, and at times a parameter or one twice."""
    made = [x for x in inner.arrays if x not in inner.parameters]
    chosen = made[-1:]
    if inner.chance(3) and made:
        chosen.append(inner.random.choice(made))
    if inner.chance(6) and inner.parameters and not inner.is_fused:
        chosen.append(inner.random.choice(inner.parameters))
    inner.random.shuffle(chosen)
    return chosen


def _called(scope: Scope, results: list[DrawnArray], expression: str) -> DrawnArray:
    """Add a call of a computation with such results, in the layouts that it gives."""
    noise = max([x.noise for x in results])
    if len(results) == 1:
        (x,) = results
        return scope.emit(x.type, x.sizes, expression, noise, x.layout)
    made = scope.parts_of(
        [(x.type, x.sizes) for x in results],
        [x.layout for x in results],
        [x.shape for x in results],
        expression,
        noise,
    )
    return scope.random.choice(made)


def _fusion(scope: Scope, steps: Steps) -> DrawnArray | None:
    inner = _inner(scope, steps, 4, fused=True)
    results = _results(inner)
    if not results:
        return None
    kinds = ("kLoop", "kLoop", "kInput", "kOutput", "kCustom")
    kind = scope.random.choice(kinds)
    callee = inner.finish("fused", inner.root_line(results))
    expression = f"fusion({joined(inner.operands)}), kind={kind}, calls={callee}"
    return _called(scope, results, expression)


def _call(scope: Scope, steps: Steps) -> DrawnArray | None:
    inner = _inner(scope, steps, 3)
    results = _results(inner)
    if not results:
        return None
    callee = inner.finish("called", inner.root_line(results))
    made = _called(scope, results, f"call({joined(inner.operands)}), to_apply={callee}")
    if scope.chance(3):  # A second call of it, from another place.
        return _called(scope, results, f"call({joined(inner.operands)}), to_apply={callee}")
    return made


def _asynchronous(scope: Scope, steps: Steps) -> DrawnArray | None:
    inner = _inner(scope, steps, 2)
    results = _results(inner)
    if not results:
        return None
    callee = inner.finish("async", inner.root_line(results))
    given = ", ".join([x.shape for x in inner.operands])
    whole = results[0].shape
    if len(results) > 1:
        whole = f"({', '.join([x.shape for x in results])})"
    start, done = scope.draft.name("start"), scope.draft.name("done")
    scope.lines.append(
        f"{start} = (({given}), {whole}, s32[]) call-start({joined(inner.operands)}), "
        f"to_apply={callee}"
    )
    if scope.chance(2):
        steps(scope, 1)
    if len(results) == 1:
        (x,) = results
        return scope.emit(x.type, x.sizes, f"call-done({start})", x.noise, x.layout)
    scope.lines.append(f"{done} = {whole} call-done({start})")
    parts = [
        scope.emit(x.type, x.sizes, f"get-tuple-element({done}), index={i}", x.noise, x.layout)
        for i, x in enumerate(results)
    ]
    return scope.random.choice(parts)


def _copied(scope: Scope, steps: Steps) -> DrawnArray | None:
    if not scope.arrays or scope.is_fused:
        return None
    x = scope.random.choice(scope.arrays)
    start = scope.draft.name("start")
    order = scope.layout(x.rank)
    made = DrawnArray("", x.type, x.sizes, order, x.noise)
    scope.lines.append(f"{start} = ({made.shape}, {x.shape}, u32[]) copy-start({x.name})")
    if scope.chance(2):
        steps(scope, 1)
    return scope.emit(x.type, x.sizes, f"copy-done({start})", x.noise, order)


def _barrier(scope: Scope, steps: Steps) -> DrawnArray | None:
    if not scope.arrays or scope.is_fused:
        return None
    chosen = [scope.random.choice(scope.arrays) for _ in range(scope.random.randint(1, 3))]
    line = scope.tuple_line(chosen)
    scope.lines.append(line)
    return _called(scope, chosen, f"opt-barrier({line.split()[0]})") if len(chosen) > 1 else None


def _conditional(scope: Scope, steps: Steps) -> DrawnArray | None:
    """Branches whose results agree in types and sizes, each in layouts of its own."""
    by_number = scope.chance(2)
    most = 9 if scope.chance(5) else 3
    number = scope.random.randint(1, most) if by_number else 2
    which = scope.index(most - 1) if by_number else scope.array("pred", (), 0)
    wanted: list[DrawnArray] = []
    names, operands, roots = [], [], []
    for branch in range(number):
        inner = _inner(scope, steps, 2)
        if branch == 0:
            wanted = _results(inner) or []
        if not wanted:
            return None
        results = wanted if branch == 0 else [inner.array(x.type, x.sizes, x.noise) for x in wanted]
        names.append(_packed(inner, results))
        operands.append(inner.operands)
        roots.append(results)
    given = []
    for arrays in operands:
        line = scope.tuple_line(arrays)
        scope.lines.append(line)
        given.append(line.split()[0])
    attributes = (
        f"branch_computations={{{', '.join(names)}}}"
        if by_number
        else f"true_computation={names[0]}, false_computation={names[1]}"
    )
    given_text = ", ".join([which.name, *given])
    return _called(scope, scope.random.choice(roots), f"conditional({given_text}), {attributes}")


def _packed(inner: Scope, results: list[DrawnArray]) -> str:
    """Add a computation whose one parameter is a tuple of what it reads."""
    name = inner.draft.name("p")
    shapes = ", ".join([x.shape for x in inner.parameters])
    lines = [f"{name} = ({shapes}) parameter(0)"]
    for number, x in enumerate(inner.parameters):
        lines.append(f"{x.name} = {x.shape} get-tuple-element({name}), index={number}")
    root = inner.root_line(results)
    lines += [x for x in inner.lines if " parameter(" not in x]
    return inner.draft.computation("branch", [*lines, f"ROOT {root}"])


def _while(scope: Scope, steps: Steps) -> DrawnArray | None:
    """A loop that counts up to a few, and changes some of the arrays that it carries."""
    inner = Scope(scope.draft, scope)
    carried = [
        scope.array(scope.type(), scope.sizes(), 0) for _ in range(scope.random.randint(1, 2))
    ]
    noise = scope.random.choice((0, 1))
    states = [inner.passed(replace(x, noise=noise)) for x in carried]
    steps(inner, scope.random.randint(1, 3))
    first, last = scope.constant("s32", "0"), scope.random.choice((0, 1, 2, 3))
    counter = inner.passed(first)
    one = inner.constant("s32", "1")
    step = inner.emit("s32", (), f"add({joined([counter, one])})")
    after: dict[str, DrawnArray] = {counter.name: step}
    for x in states:
        if not scope.chance(5):
            after[x.name] = inner.array(x.type, x.sizes, 2 * noise, fresh=0)
    results = [after.get(x.name, x) for x in inner.parameters]
    if scope.chance(3) and inner.parameters[:2] == states and _is_alike(*states):
        results[0], results[1] = results[1], results[0]
    body = _packed(inner, results)
    place = inner.parameters.index(counter)
    shapes = ", ".join([x.shape for x in inner.parameters])
    condition = scope.draft.computation(
        "condition",
        [
            f"p = ({shapes}) parameter(0)",
            f"i = s32[] get-tuple-element(p), index={place}",
            f"n = s32[] constant({last})",
            "ROOT c = pred[] compare(i, n), direction=LT",
        ],
    )
    line = scope.tuple_line(inner.operands)
    scope.lines.append(line)
    noisy = [
        DrawnArray("", x.type, x.sizes, x.layout, max(x.noise, y.noise))
        for x, y in zip(inner.parameters, results, strict=True)
    ]
    expression = f"while({line.split()[0]}), condition={condition}, body={body}"
    if len(noisy) == 1:
        return None
    return _called(scope, noisy, expression)


def _is_alike(a: DrawnArray, b: DrawnArray) -> bool:
    return (a.type, a.sizes) == (b.type, b.sizes)


REGIONS: Final[dict[str, Region]] = {
    "fusion": _fusion,
    "call": _call,
    "while": _while,
    "conditional": _conditional,
    "async-start": _asynchronous,
    "copy-start": _copied,
    "opt-barrier": _barrier,
}
