"""Programs of two loops for tests: one stacks values of random computations, one reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Module, Opcode
from lowtide.passes.pipeline import run_pipeline
from lowtide.passes.registry import parse_passes
from lowtide.verifier import verify

WIDTH = 4
SIZES = {"v": (WIDTH,), "x": (1, WIDTH), "s": (), "m": (WIDTH, WIDTH)}
SUM = "sum {\np = f32[] parameter(0)\nq = f32[] parameter(1)\nROOT z = f32[] add(p, q)\n}"


def shape_text(kind: str, steps: int | None = None) -> str:
    sizes = SIZES[kind] if steps is None else (steps, *SIZES[kind])
    return f"f32[{','.join(map(str, sizes))}]"


@dataclass(frozen=True)
class Value:
    """A value of the first body: its text behind the `=`, and the values that it reads."""

    name: str
    kind: str
    text: str
    reads: tuple[str, ...] = ()
    source: str = "computed"
    """What it is: `computed`, `contracted`, `carried`, or `known` to any later loop."""


@dataclass(frozen=True)
class Program:
    """A loop of `steps` steps that stacks values, and a later one that adds them all up.

    `results` are what the carried elements become; `stacked` the values that are stacked, with the
    place of step k among the slots, `reverse` or not; `shared` is one whose stack is a result too.
    """

    steps: int
    values: tuple[Value, ...]
    results: tuple[str, ...]
    stacked: tuple[str, ...]
    reverse: bool = False
    shared: str | None = None
    start: int = 0
    descending: bool = False
    used: tuple[str, ...] = ()

    def text(self) -> str:
        """Return the module."""
        named = {x.name: x for x in self.values}
        carried = [x for x in self.values if x.source == "carried"]
        stacks = [shape_text(named[x].kind, self.steps) for x in self.stacked]
        shapes = [shape_text(x.kind) for x in carried]
        sliced = shape_text("v", self.steps)
        first = ", ".join(["s32[]", *shapes, *stacks, "f32[4,4]", sliced])
        n = len(shapes)
        lines = ["HloModule m", SUM, *self._first_body(first, named, n)]
        lines += self._condition("more", first, self._bound(), "GT" if self.descending else "LT")
        accumulators = [shape_text(named[x].kind) for x in self.stacked]
        second = ", ".join(["s32[]", *accumulators, *stacks])
        lines += self._second_body(second, named)
        lines += self._condition("go", second, self.steps, "LT")
        lines += self._entry(first, second, shapes, stacks, accumulators, sliced, carried)
        return "\n".join(lines)

    def _bound(self) -> int:
        return self.start - self.steps if self.descending else self.start + self.steps

    def _first_body(self, tuple_text: str, named: dict[str, Value], n: int) -> list[str]:
        count = len(self.stacked)
        step = -1 if self.descending else 1
        lines = ["first {", f"b = ({tuple_text}) parameter(0)"]
        lines += ["i = s32[] get-tuple-element(b), index=0", f"one = s32[] constant({step})"]
        lines += ["next = s32[] add(i, one)", "zero = s32[] constant(0)"]
        lines += [f"from = s32[] constant({self.start})"]
        places = ("from", "i") if self.descending else ("i", "from")
        lines += [f"k = s32[] subtract({places[0]}, {places[1]})"]
        lines += [f"last = s32[] constant({self.steps - 1})", "f0 = f32[] constant(0)"]
        lines += [f"slot = s32[] {'subtract(last, k)' if self.reverse else 'copy(k)'}"]
        lines += [f"w = f32[4,4] get-tuple-element(b), index={1 + n + count}"]
        xs = shape_text("v", self.steps)
        lines += [f"xs = {xs} get-tuple-element(b), index={2 + n + count}"]
        lines += [f"{x.name} = {shape_text(x.kind)} {x.text}" for x in self.values]
        updates = []
        for number, x in enumerate(self.stacked):
            kind = named[x].kind
            stack, part = shape_text(kind, self.steps), shape_text(kind, 1)
            zeros = ", zero" * len(SIZES[kind])
            lines += [f"t{number} = {stack} get-tuple-element(b), index={1 + n + number}"]
            lines += [f"p{number} = {part} reshape({x})"]
            written = f"dynamic-update-slice(t{number}, p{number}, slot{zeros})"
            lines += [f"d{number} = {stack} {written}"]
            updates.append(f"d{number}")
        results = ", ".join(["next", *self.results, *updates, "w", "xs"])
        return [*lines, f"ROOT r = ({tuple_text}) tuple({results})", "}"]

    def _condition(self, name: str, tuple_text: str, bound: int, direction: str) -> list[str]:
        return [
            f"{name} {{",
            f"c = ({tuple_text}) parameter(0)",
            "j = s32[] get-tuple-element(c), index=0",
            f"n = s32[] constant({bound})",
            f"ROOT m = pred[] compare(j, n), direction={direction}",
            "}",
        ]

    def _second_body(self, tuple_text: str, named: dict[str, Value]) -> list[str]:
        count = len(self.stacked)
        lines = ["second {", f"b = ({tuple_text}) parameter(0)"]
        lines += ["i = s32[] get-tuple-element(b), index=0", "one = s32[] constant(1)"]
        lines += ["next = s32[] add(i, one)", "zero = s32[] constant(0)"]
        lines += [f"n = s32[] constant({self.steps - 1})", "slot = s32[] subtract(n, i)"]
        lines += ["f0 = f32[] constant(0)"]
        results = ["next"]
        for number, x in enumerate(self.stacked):
            kind = named[x].kind
            stack, part, shape = (
                shape_text(kind, self.steps),
                shape_text(kind, 1),
                shape_text(kind),
            )
            zeros = ", zero" * len(SIZES[kind])
            sizes = ",".join(map(str, (1, *SIZES[kind])))
            lines += [f"a{number} = {shape} get-tuple-element(b), index={1 + number}"]
            lines += [f"t{number} = {stack} get-tuple-element(b), index={1 + count + number}"]
            taken = f"dynamic-slice(t{number}, slot{zeros}), dynamic_slice_sizes={{{sizes}}}"
            lines += [f"q{number} = {part} {taken}", f"v{number} = {shape} reshape(q{number})"]
            lines += [f"h{number} = {shape} add(a{number}, a{number})"]
            lines += self._used(number, kind)
            lines += [f"z{number} = {shape} subtract(m{number}, h{number})"]
            results.append(f"z{number}")
        stacks = [f"t{number}" for number in range(count)]
        return [*lines, f"ROOT r = ({tuple_text}) tuple({', '.join([*results, *stacks])})", "}"]

    def _used(self, number: int, kind: str) -> list[str]:
        """The lines that make of a slice, v, what the later loop takes of it, m."""
        shape, of_slice = shape_text(kind), f"v{number}"
        how = self.used[number] if self.used else "whole"
        if how == "sum" and kind == "v":
            text = f"reduce({of_slice}, f0), dimensions={{0}}, to_apply=sum"
            spread = f"broadcast(e{number}), dimensions={{}}"
            return [f"e{number} = f32[] {text}", f"m{number} = {shape} {spread}"]
        if how == "sign":
            none = "broadcast(f0), dimensions={}" if kind == "v" else "copy(f0)"
            predicate = shape.replace("f32", "pred")
            return [
                f"o{number} = {shape} {none}",
                f"e{number} = {predicate} compare({of_slice}, o{number}), direction=GT",
                f"m{number} = {shape} select(e{number}, h{number}, a{number})",
            ]
        if how == "sine":
            return [f"m{number} = {shape} sine({of_slice})"]
        return [f"m{number} = {shape} copy({of_slice})"]

    def _entry(
        self,
        first: str,
        second: str,
        shapes: list[str],
        stacks: list[str],
        accumulators: list[str],
        sliced: str,
        carried: list[Value],
    ) -> list[str]:
        lines = ["ENTRY main {", "w = f32[4,4] parameter(0)", f"xs = {sliced} parameter(1)"]
        lines += [f"i = s32[] constant({self.start})", "o = s32[] constant(0)"]
        lines += ["zero = f32[] constant(0)"]
        lines += [f"x{n} = {shape} parameter({2 + n})" for n, shape in enumerate(shapes)]
        lines += [f"e{n} = {s} broadcast(zero), dimensions={{}}" for n, s in enumerate(stacks)]
        lines += [
            f"a{n} = {s} broadcast(zero), dimensions={{}}" for n, s in enumerate(accumulators)
        ]
        count = len(stacks)
        given = ", ".join(
            ["i", *[f"x{n}" for n in range(len(shapes))], *[f"e{n}" for n in range(count)]]
        )
        lines += [f"start = ({first}) tuple({given}, w, xs)"]
        lines += [f"one = ({first}) while(start), condition=more, body=first"]
        lines += [
            f"g{n} = {s} get-tuple-element(one), index={1 + len(shapes) + n}"
            for n, s in enumerate(stacks)
        ]
        given = ", ".join(["o", *[f"a{n}" for n in range(count)], *[f"g{n}" for n in range(count)]])
        lines += [f"again = ({second}) tuple({given})"]
        lines += [f"two = ({second}) while(again), condition=go, body=second"]
        lines += [
            f"r{n} = {s} get-tuple-element(two), index={1 + n}" for n, s in enumerate(accumulators)
        ]
        outputs, kinds = [f"r{n}" for n in range(count)], list(accumulators)
        if self.shared is not None:
            number = self.stacked.index(self.shared)
            outputs.append(f"g{number}")
            kinds.append(stacks[number])
        lines += [f"l{n} = {s} get-tuple-element(one), index={1 + n}" for n, s in enumerate(shapes)]
        outputs += [f"l{n}" for n in range(len(shapes))]
        kinds += shapes
        return [*lines, f"ROOT out = ({', '.join(kinds)}) tuple({', '.join(outputs)})", "}"]


def drawn(seed: int, size: int = 6) -> Program:
    """Return a program of random computations."""
    random = Random(seed)
    steps = random.randint(2, 4)
    n = random.randint(1, 2)
    values = [
        Value(f"c{k}", "v", f"get-tuple-element(b), index={1 + k}", source="carried")
        for k in range(n)
    ]
    values.append(Value("xk", "v", "reshape(xslice)", source="known"))
    slicing = "dynamic-slice(xs, k, zero), dynamic_slice_sizes={1,4}"
    values.insert(0, Value("xslice", "x", slicing, source="known"))
    kinds = ("multiply", "add", "sine", "dot", "norm", "negate", "spread")
    for number in range(random.randint(2, size)):
        vectors = [x.name for x in values if x.kind == "v"]
        scalars = [x.name for x in values if x.kind == "s"]
        a, b = random.choice(vectors), random.choice(vectors)
        kind, name = random.choice(kinds), f"y{number}"
        if kind == "dot":
            dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
            values.append(Value(name, "v", f"dot(w, {a}), {dims}", (a,), "contracted"))
        elif kind == "norm":
            text = f"reduce({a}, f0), dimensions={{0}}, to_apply=sum"
            values.append(Value(name, "s", text, (a,)))
        elif kind == "spread" and scalars:
            c = random.choice(scalars)
            values.append(Value(name, "v", f"broadcast({c}), dimensions={{}}", (c,)))
        elif kind in ("multiply", "add"):
            values.append(Value(name, "v", f"{kind}({a}, {b})", (a, b)))
        else:
            opcode = "sine" if kind == "sine" else "negate"
            values.append(Value(name, "v", f"{opcode}({a})", (a,)))
    vectors = [x.name for x in values if x.kind == "v"]
    made = [x.name for x in values if x.name.startswith("y")]
    stackable = [x for x in vectors if x != "xk"] + [x for x in made if x not in vectors]
    stacked = tuple(random.sample(stackable, random.randint(1, min(4, len(stackable)))))
    ends = [x for x in vectors if x in made and canonical(values)[x] == x] + ["xk"] * n
    return Program(
        steps,
        tuple(values),
        tuple(random.sample(ends, n)),
        stacked,
        reverse=random.random() < 0.3,
        shared=random.choice(stacked) if random.random() < 0.2 else None,
        start=random.choice((0, 0, 1, -2)),
        descending=random.random() < 0.3,
    )


USES = ("whole", "sum", "sign", "sine")


def with_uses(program: Program, seed: int) -> Program:
    """Return a program whose later loop takes less than the whole of what it reads."""
    random = Random(seed)
    return replace(program, used=tuple([random.choice(USES) for _ in program.stacked]))


def module_of(program: Program) -> Module:
    module = parse_hlo(program.text())
    verify(module)
    run_pipeline(module, parse_passes("while-duplicate-carries,while-dead-carries,cse,dce"))
    return module


def stacked_bytes(module: Module, steps: int) -> int:
    """Return the bytes of all stacks that the first loop writes, for `steps` slots each."""
    loop = next(x for x in module.entry.instructions.values() if x.opcode is Opcode.WHILE)
    body = loop.called_computations[1]
    writes = [x for x in body.root.operands if x.opcode is Opcode.DYNAMIC_UPDATE_SLICE]
    return sum([x.shape.nbytes * steps // x.shape.dimensions[0] for x in writes])


def canonical(values: Sequence[Value]) -> dict[str, str]:
    """Return, by name, the first value that is computed in the same way."""
    first: dict[tuple[str, ...], str] = {}
    same: dict[str, str] = {}
    for x in values:
        opcode = x.text.partition("(")[0] if x.reads else x.text
        same[x.name] = first.setdefault((opcode, *sorted([same[y] for y in x.reads])), x.name)
    return same
