"""Programs that are divided already: collectives of every form, by groups of any size and order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, Final, final

import numpy as np
from tests.hunting.arrays import DrawnArray, braced, element_type, shape_text, zero
from tests.hunting.cells import Cell
from tests.hunting.coverage import CellCounts
from tests.hunting.family import HuntedCase, ModuleFamily
from tests.hunting.findings import Court, Judgement, Tell
from tests.hunting.scope import ModuleDraft, Scope, joined

from lowtide.client.executable.compiling import compile_module
from lowtide.client.executable.on_devices import run_on_devices
from lowtide.evaluator import array_leaves
from lowtide.evaluator.on_devices import evaluate_on_devices
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Module
from lowtide.ir.literal import DTYPES, Array
from lowtide.ir.printer import COMPLETE, to_text
from lowtide.options import Options
from lowtide.records import dataclass
from lowtide.verifier import verify

COUNTS: Final = (1, 2, 3, 4, 6, 8)
TYPES: Final = ("f32", "s32", "bf16", "f64", "s8", "pred", "c64", "u8", "f16", "u64", "s4", "u2")
_MODES: Final = ("replicas", "partitions", "both")
_REDUCERS: Final[Mapping[str, tuple[str, ...]]] = {
    "pred": ("and", "or"),
    "c64": ("add",),
    "s4": ("minimum", "maximum"),
    "u2": ("and", "or", "xor"),
    "u8": ("add", "minimum", "maximum", "or"),
}
"""Reducers by element type whose results no order changes, for small whole numbers."""


@dataclass(frozen=True, slots=True)
class _Meeting:
    """The attributes that say which devices meet, and how many of them do at once."""

    text: str
    size: int


class _Devices:
    """How many devices there are, what they are called, and how collectives name them."""

    def __init__(self, random: Random, mode: str) -> None:
        self.random = random
        self.mode = mode
        count = random.choice([x for x in COUNTS if mode != "both" or x in (4, 6, 8)])
        self.partitions = {"replicas": 1, "partitions": count, "both": count // 2}[self.mode]
        self.replicas = count // self.partitions
        self.header = f"replica_count={self.replicas}, num_partitions={self.partitions}"
        self.channels = 0

    def meeting(self, *, even: bool, has_flag: bool = True) -> _Meeting:
        """Return groups of replicas, partitions or all devices, in a form that the mode has.

        Only operations that have the flag can name all devices. Groups are of one size if `even`.
        """
        if self.mode == "replicas" or (self.mode == "both" and self.random.randrange(3) == 0):
            groups = self._groups(self.replicas, even)
            return _Meeting(_listed(groups), len(groups[0]))
        if not has_flag:
            groups = self._groups(self.partitions, even)
            return _Meeting(f"{_listed(groups)}{self.channel()}", len(groups[0]))
        if self.random.randrange(3) == 0:  # Replicas, each with all its partitions.
            groups = self._groups(self.replicas, even)
            size = len(groups[0]) * self.partitions
            return _Meeting(f"{_listed(groups)}{self.channel()}", size)
        groups = self._groups(self.replicas * self.partitions, even)
        words = f"{_listed(groups)}{self.channel()}, use_global_device_ids=true"
        return _Meeting(words, len(groups[0]))

    def _groups(self, count: int, even: bool) -> list[list[int]]:
        """Return groups that have each of so many numbers once."""
        order = [*range(count)]
        if self.random.randrange(2):
            self.random.shuffle(order)
        if even:
            size = self.random.choice([x for x in range(1, count + 1) if count % x == 0])
            return [order[i : i + size] for i in range(0, count, size)]
        cuts = sorted(self.random.sample(range(1, count), self.random.randrange(count)))
        return [order[a:b] for a, b in zip([0, *cuts], [*cuts, count], strict=True)]

    def pairs(self) -> str:
        """Return a permute's sources and targets, each at most once as either."""
        by_replica = self.mode == "replicas" or (self.mode == "both" and self.random.randrange(2))
        count = self.replicas if by_replica else self.partitions
        sources = self.random.sample(range(count), self.random.randint(1, count))
        targets = self.random.sample(range(count), len(sources))
        pairs = ",".join([f"{{{a},{b}}}" for a, b in zip(sources, targets, strict=True)])
        return f"source_target_pairs={{{pairs}}}{'' if by_replica else self.channel()}"

    def channel(self) -> str:
        """Return a channel that nothing else has."""
        self.channels += 1
        return f", channel_id={self.channels}"


def _listed(groups: Sequence[Sequence[int]]) -> str:
    return f"replica_groups={{{','.join([braced([*x]) for x in groups])}}}"


@final
class _Writer:
    """Writes the program of each device."""

    def __init__(self, random: Random, mode: str) -> None:
        self.random = random
        self.devices = _Devices(random, mode)
        self.scope = Scope(ModuleDraft(random, layouts=random.choice((0, 0, 3))))
        self.forms: set[Cell] = set()

    def text(self, wish: str) -> str:
        """Return a program with some collectives, among them the one that is wished for."""
        steps = self.random.choice((0, 0, 1, 2, 3))
        names = [wish, *[self.random.choice([*FORMS]) for _ in range(steps)]]
        self.random.shuffle(names)
        for name in names:
            x = FORMS[name](self, self.random.choice(TYPES))
            if x is not None:
                self.forms.add(("collective", name, self.devices.mode))
                self.forms.add(("carried", name.partition("-start")[0], x.type))
                self._used(x)
        scope = self.scope
        outputs = [x for x in scope.arrays if not scope.chance(4)] or [self.array("f32", (2,))]
        root = scope.tuple_line(outputs)
        body = "\n  ".join([*scope.lines, f"ROOT {root}"])
        head = f"HloModule hunted, {self.devices.header}"
        return "\n".join([head, *scope.draft.computations, f"ENTRY entry {{\n  {body}\n}}\n"])

    def _used(self, x: DrawnArray) -> None:
        """At times do something to an array, so that it has no output to itself."""
        if x.type == "pred" or self.random.randrange(2):
            return
        self.scope.emit(x.type, x.sizes, f"negate({x.name})")

    def array(self, type_: str, sizes: tuple[int, ...]) -> DrawnArray:
        """Return a parameter, or an array that was made, whose numbers stay small."""
        fitting = [x for x in self.scope.arrays if (x.type, x.sizes) == (type_, sizes)]
        if fitting and self.random.randrange(2):
            return self.random.choice(fitting)
        return self.scope.parameter(type_, sizes, self.scope.layout(len(sizes)), 0)

    def sizes(self, least: int = 1) -> tuple[int, ...]:
        """Return sizes; once in a while one of them is 0, or thousands."""
        found = [self.random.choice((1, 2, 3, 5, 8)) for _ in range(self.random.randint(least, 3))]
        if found and self.random.randrange(8) == 0:
            found[0] = self.random.choice((0, 300, 2000))
        return tuple(found)

    def reducer(self, type_: str) -> str:
        """Add a computation that makes one number of two; return its name."""
        opcode = self.random.choice(_REDUCERS.get(type_, ("add", "minimum", "maximum")))
        lines = [
            f"a = {type_}[] parameter(0)",
            f"b = {type_}[] parameter(1)",
            f"ROOT c = {type_}[] {opcode}(a, b)",
        ]
        return self.scope.draft.computation("reducer", lines)

    def halves(self, name: str, given: DrawnArray, made: DrawnArray, rest: str) -> DrawnArray:
        """Write an operation as its start and its end, with something between."""
        start = self.scope.draft.name("start")
        shape = made.shape
        if name != "all-reduce":
            shape = f"({given.shape}, {made.shape})"
        self.scope.lines.append(f"{start} = {shape} {name}-start({given.name}), {rest}")
        if self.random.randrange(2):
            self.array(self.random.choice(TYPES), self.sizes())
        expression = f"{name}-done({start})"
        return self.scope.emit(made.type, made.sizes, expression, 0, made.layout)

    def wrapped(self, name: str, given: DrawnArray, made: DrawnArray, rest: str) -> DrawnArray:
        """Write an operation as a computation of its own that runs asynchronously."""
        p = f"p = {given.shape} parameter(0)"
        callee = self.scope.draft.computation(
            "async", [p, f"ROOT r = {made.shape} {name}(p), {rest}"]
        )
        start, update = self.scope.draft.name("start"), self.scope.draft.name("update")
        shape = f"(({given.shape}), {made.shape}, u32[])"
        line = f"{shape} async-start({given.name}), calls={callee}"
        self.scope.lines.append(f"{start} = {line}")
        if self.random.randrange(2):
            self.scope.lines.append(f"{update} = {shape} async-update({start})")
            start = update
        return self.scope.emit(made.type, made.sizes, f"async-done({start})", 0, made.layout)

    def written(
        self, name: str, form: str, given: DrawnArray, sizes: tuple[int, ...], rest: str
    ) -> DrawnArray:
        """Write an operation of one array in a form: plain, in halves, or wrapped."""
        same = given.sizes == sizes and self.random.randrange(2)
        order = given.layout if same else self.scope.layout(len(sizes))
        if form == "halves":
            order = given.layout
        made = DrawnArray("", given.type, sizes, order)
        if form == "halves":
            return self.halves(name, given, made, rest)
        if form == "wrapped":
            return self.wrapped(name, given, made, rest)
        return self.scope.emit(given.type, sizes, f"{name}({given.name}), {rest}", 0, order)


# -- the collectives -----------------------------------------------------------------------------


def _all_reduce(form: str, writer: _Writer, type_: str) -> DrawnArray | None:
    x = writer.array(type_, writer.sizes(0))
    meeting = writer.devices.meeting(even=False)
    rest = f"{meeting.text}, to_apply={writer.reducer(type_)}"
    return writer.written("all-reduce", form, x, x.sizes, rest)


def _all_reduce_of_two(writer: _Writer, type_: str) -> DrawnArray | None:
    arrays = [writer.array(type_, writer.sizes(0)) for _ in range(2)]
    meeting = writer.devices.meeting(even=False)
    rest = f"{meeting.text}, to_apply={writer.reducer(type_)}"
    parts = [(x.type, x.sizes) for x in arrays]
    made = writer.scope.parts_of(
        parts,
        [x.layout for x in arrays],
        [x.shape for x in arrays],
        f"all-reduce({joined(arrays)}), {rest}",
    )
    return made[0]


def _all_gather(form: str, writer: _Writer, type_: str) -> DrawnArray | None:
    x = writer.array(type_, writer.sizes(1))
    meeting = writer.devices.meeting(even=True)
    place = writer.random.randrange(x.rank)
    sizes = [*x.sizes]
    sizes[place] *= meeting.size
    rest = f"{meeting.text}, dimensions={{{place}}}"
    return writer.written("all-gather", form, x, tuple(sizes), rest)


def _reduce_scatter(form: str, writer: _Writer, type_: str) -> DrawnArray | None:
    meeting = writer.devices.meeting(even=True)
    sizes = writer.sizes(1)
    place = writer.random.randrange(len(sizes))
    whole = [*sizes]
    whole[place] *= meeting.size
    x = writer.array(type_, tuple(whole))
    rest = f"{meeting.text}, dimensions={{{place}}}, to_apply={writer.reducer(type_)}"
    return writer.written("reduce-scatter", form, x, sizes, rest)


def _all_to_all(form: str, writer: _Writer, type_: str) -> DrawnArray | None:
    meeting = writer.devices.meeting(even=True, has_flag=False)
    sizes = writer.sizes(1)
    place = writer.random.randrange(len(sizes))
    whole = [*sizes]
    whole[place] *= meeting.size
    x = writer.array(type_, tuple(whole))
    rest = f"{meeting.text}, dimensions={{{place}}}"
    return writer.written("all-to-all", form, x, x.sizes, rest)


def _all_to_all_of_tuples(writer: _Writer, type_: str) -> DrawnArray | None:
    meeting = writer.devices.meeting(even=True, has_flag=False)
    sizes = writer.sizes(1)
    order = writer.scope.layout(len(sizes))
    arrays = [writer.scope.parameter(type_, sizes, order, 0) for _ in range(meeting.size)]
    shape = shape_text(type_, sizes, order)
    made = writer.scope.parts_of(
        [(type_, sizes)] * len(arrays),
        [order] * len(arrays),
        [shape] * len(arrays),
        f"all-to-all({joined(arrays)}), {meeting.text}",
    )
    return writer.random.choice(made)


def _permute(form: str, writer: _Writer, type_: str) -> DrawnArray | None:
    x = writer.array(type_, writer.sizes(0))
    return writer.written("collective-permute", form, x, x.sizes, writer.devices.pairs())


def _broadcast(form: str, writer: _Writer, type_: str) -> DrawnArray | None:
    x = writer.array(type_, writer.sizes(0))
    meeting = writer.devices.meeting(even=False, has_flag=False)
    return writer.written("collective-broadcast", form, x, x.sizes, meeting.text)


def _numbered(writer: _Writer, type_: str) -> DrawnArray | None:
    opcode = writer.random.choice(("partition-id", "replica-id"))
    number = writer.scope.emit("u32", (), f"{opcode}()")
    if type_ == "pred":
        return number
    return writer.scope.emit(type_, (), f"convert({number.name})")


def _in_a_loop(writer: _Writer, type_: str) -> DrawnArray | None:
    """A collective in a body that runs a few times."""
    x = writer.array(type_, writer.sizes(1))
    carried = f"({x.shape}, s32[])"
    body = [
        f"p = {carried} parameter(0)",
        f"x = {x.shape} get-tuple-element(p), index=0",
        "i = s32[] get-tuple-element(p), index=1",
        f"y = {x.shape} collective-permute(x), {writer.devices.pairs()}",
        "one = s32[] constant(1)",
        "j = s32[] add(i, one)",
        f"ROOT t = {carried} tuple(y, j)",
    ]
    condition = [
        f"p = {carried} parameter(0)",
        "i = s32[] get-tuple-element(p), index=1",
        f"n = s32[] constant({writer.random.randrange(4)})",
        "ROOT c = pred[] compare(i, n), direction=LT",
    ]
    inner = writer.scope.draft.computation("body", body)
    until = writer.scope.draft.computation("condition", condition)
    first = writer.scope.constant("s32", zero("s32"))
    line = writer.scope.tuple_line([x, first])
    writer.scope.lines.append(line)
    made = writer.scope.parts_of(
        [(x.type, x.sizes), ("s32", ())],
        [x.layout, ()],
        [x.shape, "s32[]"],
        f"while({line.split()[0]}), condition={until}, body={inner}",
    )
    return made[0]


_Form = Callable[[_Writer, str], DrawnArray | None]
FORMS: Final[Mapping[str, _Form]] = {
    "all-reduce": partial(_all_reduce, "plain"),
    "all-reduce-start": partial(_all_reduce, "halves"),
    "all-reduce of two": _all_reduce_of_two,
    "all-gather": partial(_all_gather, "plain"),
    "all-gather-start": partial(_all_gather, "halves"),
    "reduce-scatter": partial(_reduce_scatter, "plain"),
    "reduce-scatter in async-start": partial(_reduce_scatter, "wrapped"),
    "all-to-all": partial(_all_to_all, "plain"),
    "all-to-all in async-start": partial(_all_to_all, "wrapped"),
    "all-to-all of tuples": _all_to_all_of_tuples,
    "collective-permute": partial(_permute, "plain"),
    "collective-permute-start": partial(_permute, "halves"),
    "collective-permute in a loop": _in_a_loop,
    "collective-broadcast": partial(_broadcast, "plain"),
    "collective-broadcast in async-start": partial(_broadcast, "wrapped"),
    "partition-id": _numbered,
}
"""By name: how a collective is written for an element type."""


@final
class Collectives(ModuleFamily):
    """Programs of each of several devices; the evaluator on all of them is the judge."""

    @property
    def tables(self) -> dict[str, tuple[Cell, ...]]:
        """The forms of collectives, by what the devices are."""
        return {"collective": tuple([("collective", x, y) for x in FORMS for y in _MODES])}

    def draw(self, seed: int, random: Random, counts: CellCounts) -> HuntedCase:
        """Return a module that every device runs."""
        _, name, mode = counts.least(self.tables["collective"], random)
        writer = _Writer(random, mode)
        text = writer.text(name)
        verify(parse_hlo(text))
        return HuntedCase(text, seed, frozenset(writer.forms))

    def judge(self, case: HuntedCase, tell: Tell) -> Judgement:
        """Return where native code computes something else than the evaluator."""
        return _CollectivesCourt(case, tell).run()


# -- judging -------------------------------------------------------------------------------------


class _CollectivesCourt(Court):
    def __init__(self, case: HuntedCase, tell: Tell) -> None:
        super().__init__(tell)
        self.text = case.text
        self.seed: int = case.conditions

    def run(self) -> Judgement:
        module = parse_hlo(self.text)
        printed = to_text(module, COMPLETE)
        if to_text(parse_hlo(printed), COMPLETE) != printed:
            self.found("text", "fixpoint", "parse(print(m)) prints otherwise")
        given = _arguments(module, self.seed)
        expected = self.ask("evaluator", lambda: _leaves(evaluate_on_devices(module, given)))
        if expected is None:
            return self.judgement()
        target = ("native", "avx2")[self.seed % 2]
        options = Options(cache=False, effort="fast", target=target, threads=1)
        program = self.ask("compile", lambda: compile_module(module, options))
        if program is None:
            return self.judgement()
        for judge in ("native", "second call"):
            got = self.ask(judge, lambda: _leaves(run_on_devices(program, given)))
            self._compare(judge, got, expected)
        return self.judgement()

    def _compare(
        self, judge: str, got: list[list[Array]] | None, expected: list[list[Array]]
    ) -> None:
        """Add a finding for the first bits that are not those expected."""
        if got is None:
            return
        for device, (mine, right) in enumerate(zip(got, expected, strict=True)):
            for number, (a, b) in enumerate(zip(mine, right, strict=True)):
                if a.dtype != b.dtype or a.shape != b.shape or not np.array_equal(a, b):
                    words = f"result {number} of device {device} differs: {a} for {b}"
                    self.found(judge, "wrong", words[:300])
                    return


def _leaves(values: Sequence[Any]) -> list[list[Array]]:
    return [[np.asarray(x) for x in array_leaves(value)] for value in values]


def _arguments(module: Module, seed: int) -> list[list[Array]]:
    """Small whole numbers, others on each device."""
    random = np.random.default_rng(seed)
    shapes = [x.shape for x in module.entry.parameters]
    count = module.replica_count * module.num_partitions
    return [
        [_numbers(str(s.element_type.value), s.dimensions, random) for s in shapes]
        for _ in range(count)
    ]


def _numbers(type_: str, sizes: Sequence[int], random: np.random.Generator) -> Array:
    kind = element_type(type_)
    low, high = (-3, 4) if not kind.is_integer or kind.is_signed else (0, 4)
    whole = random.integers(low, high, sizes)
    return np.asarray(whole > 0 if type_ == "pred" else whole).astype(DTYPES[kind])
