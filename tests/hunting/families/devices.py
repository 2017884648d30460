"""Programs on several devices: shardings of every form, uneven sizes, manual regions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import prod
from random import Random
from typing import Final, final

import numpy as np
from tests.hunting.arguments import case_arguments
from tests.hunting.cells import Cell, cells_of
from tests.hunting.coverage import CellCounts
from tests.hunting.family import HuntedCase, ModuleFamily, drawn_text, without_schedule
from tests.hunting.findings import Court, Judgement, Tell
from tests.hunting.judges import Comparison, evaluated

from lowtide.checking.communication import check_communication
from lowtide.client.executable.compiling import compile_module
from lowtide.evaluator import array_leaves
from lowtide.evaluator.on_devices import evaluate_on_devices
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.attributes import CustomCall
from lowtide.ir.clone import clone_module
from lowtide.ir.errors import UnsupportedOpError
from lowtide.ir.literal import Array
from lowtide.ir.printer import COMPLETE, to_text
from lowtide.options import Options
from lowtide.passes.dead_code import remove_dead_code
from lowtide.passes.editing import make
from lowtide.spmd.partitioner import Partitioned, partition
from lowtide.spmd.shards import cut, joined
from lowtide.transforms.sharding_removal import remove_shardings
from lowtide.verifier import verify

COUNTS: Final = (2, 3, 4, 6, 8)
FORMS: Final = ("replicated", "tiled", "partial", "reordered", "listed", "maximal", "uneven")
"""How shardings are spelled: on all devices, in tiles, tiles on several devices each, ..."""

_FULL, _LOCAL = "SPMDShardToFullShape", "SPMDFullToShardShape"
_LINE = re.compile(r"^  (?P<name>\w+) = (?P<type>\w+)\[(?P<sizes>[\d,]*)\]\{(?P<layout>[\d,]*)\} ")


@final
class OnDevices(ModuleFamily):
    """Drawn modules whose arrays get shardings; the evaluator on one device is the judge."""

    @property
    def tables(self) -> dict[str, tuple[Cell, ...]]:
        """The forms of shardings by the number of devices, and manual regions."""
        forms = (*FORMS, "manual")
        return {"sharding": tuple([("sharding", x, str(n)) for x in forms for n in COUNTS])}

    def draw(self, seed: int, random: Random, counts: CellCounts) -> HuntedCase:
        """Return a module with shardings for a number of devices."""
        text = without_schedule(drawn_text(seed, random, counts))
        count = random.choice(COUNTS)
        writer = _Shardings(random, count)
        sharded = writer.written(text)
        verify(parse_hlo(sharded))
        cells = {("sharding", x, str(count)) for x in writer.forms}
        operations = {x for x in cells_of(parse_hlo(text)) if x[0] == "type"}
        return HuntedCase(sharded, seed, frozenset({*cells, *operations}))

    def judge(self, case: HuntedCase, tell: Tell) -> Judgement:
        """Return where the partitioned program differs from the whole one."""
        return _DevicesCourt(case, tell).run()


# -- drawing -------------------------------------------------------------------------------------


class _Shardings:
    """Writes shardings into the entry of a module."""

    def __init__(self, random: Random, count: int) -> None:
        self.random = random
        self.count = count
        self.forms: set[str] = set()

    def written(self, text: str) -> str:
        """Return the text with shardings."""
        head, line, rest = text.partition("\n")
        before, entry, body = rest.partition("ENTRY ")
        lines: list[str] = []
        names: dict[str, str] = {}
        for x in body.split("\n"):
            x = re.sub(r"\w+", lambda m: names.get(m.group(0), m.group(0)), x)
            lines += self._line(x, names)
        return f"{head}, num_partitions={self.count}{line}{before}{entry}" + "\n".join(lines)

    def _line(self, x: str, names: dict[str, str]) -> list[str]:
        found = _LINE.match(x)
        if found is None or " constant(" in x:
            return [x]
        sizes = [int(n) for n in found["sizes"].split(",") if n]
        is_given = " parameter(" in x
        if self.random.randrange(10) < (7 if is_given else 3):
            x = f"{x}, sharding={self._sharding(sizes, is_even=is_given)}"
        if self.random.randrange(8) == 0 and sizes and 0 not in sizes:
            return [x, *self._region(found, sizes, names)]
        return [x]

    def _sharding(self, sizes: Sequence[int], *, is_even: bool, is_tiled: bool = False) -> str:
        random, count = self.random, self.count
        form = random.choice(FORMS[1:5] if is_tiled else FORMS)
        if form in ("uneven", "maximal") and is_even:
            form = "tiled"
        tiles = self._tiles(sizes, is_even=form != "uneven", is_whole=form == "tiled")
        rest = count // prod(tiles)
        if form == "replicated" or (not sizes and form != "maximal"):
            self.forms.add("replicated")
            return "{replicated}"
        if form == "maximal":
            self.forms.add(form)
            return f"{{maximal device={random.randrange(count)}}}"
        self.forms.add(form)
        last = " last_tile_dim_replicate" if rest > 1 else ""
        shape = ",".join(map(str, [*tiles, *([rest] if rest > 1 else [])]))
        devices = f"<=[{count}]"
        factor = next((k for k in (2, 3) if count % k == 0 and count > k), 0)
        if form == "reordered" and factor:
            devices = f"<=[{factor},{count // factor}]T(1,0)"
        elif form == "listed":
            devices = ",".join(map(str, random.sample(range(count), count)))
        return f"{{devices=[{shape}]{devices}{last}}}"

    def _tiles(self, sizes: Sequence[int], *, is_even: bool, is_whole: bool) -> list[int]:
        """How many tiles there are along each dimension; together they divide the devices."""
        tiles, left = [1] * len(sizes), self.count
        for d in self.random.sample(range(len(sizes)), len(sizes)):
            fitting = [
                k
                for k in range(1, left + 1)
                if left % k == 0 and (not is_even or sizes[d] % k == 0 < sizes[d])
            ]
            most = max(fitting, default=1)
            tiles[d] = most if is_whole else self.random.choice(fitting or [1])
            left //= tiles[d]
        return tiles

    def _region(
        self, found: re.Match[str], sizes: Sequence[int], names: dict[str, str]
    ) -> list[str]:
        """A manual region that computes the array itself, and is read in its place from now on."""
        self.forms.add("manual")
        name, type_, layout = found["name"], found["type"], found["layout"]
        tiles = self._tiles(sizes, is_even=True, is_whole=False)
        rest = self.count // prod(tiles)
        shape = ",".join(map(str, [*tiles, *([rest] if rest > 1 else [])]))
        last = " last_tile_dim_replicate" if rest > 1 else ""
        tiled = f"{{devices=[{shape}]<=[{self.count}]{last}}}"
        local = ",".join([str(n // k) for n, k in zip(sizes, tiles, strict=True)])
        whole = f"{type_}[{found['sizes']}]{{{layout}}}"
        part = f"{type_}[{local}]{{{layout}}}"
        turned = "not" if type_ == "pred" else "negate"
        names[name] = f"{name}e"
        steps = [
            (f"{name}a", whole, f'custom-call({name}), custom_call_target="Sharding"', tiled),
            (f"{name}b", part, f'custom-call({name}a), custom_call_target="{_LOCAL}"', "{manual}"),
            (f"{name}c", part, f"{turned}({name}b)", "{manual}"),
            (f"{name}d", part, f"{turned}({name}c)", "{manual}"),
            (f"{name}e", whole, f'custom-call({name}d), custom_call_target="{_FULL}"', tiled),
        ]
        return [f"  {n} = {shape} {what}, sharding={s}" for n, shape, what, s in steps]


# -- judging -------------------------------------------------------------------------------------


class _DevicesCourt(Court):
    def __init__(self, case: HuntedCase, tell: Tell) -> None:
        super().__init__(tell)
        self.text = case.text
        self.seed: int = case.conditions

    def run(self) -> Judgement:
        module = parse_hlo(self.text)
        arguments = case_arguments(module, self.seed, in_parts=True)
        whole = self.ask("whole", lambda: _on_one_device(module))
        expected = whole and self.ask("evaluator", lambda: evaluated(whole, arguments))
        if expected is None:
            return self.judgement()
        compare = Comparison(whole, arguments, expected)
        parts: Partitioned | None = self.ask("partition", lambda: self._partitioned(module))
        if parts is None:
            return self.judgement()
        self._compare(compare, "devices", lambda: _on_devices(parts, arguments, expected))
        self._compare(
            compare,
            "native",
            lambda: array_leaves(
                compile_module(module, Options(cache=False, effort="fast"))(*arguments)
            ),
        )
        return self.judgement()

    def _compare(
        self, compare: Comparison, judge: str, question: Callable[[], list[Array]]
    ) -> None:
        """Add a finding where an answer is not that of one device."""
        got = self.ask(judge, question)
        words = None if got is None else compare.difference(got)
        if words is not None:
            self.found(judge, "wrong", words)

    def _partitioned(self, module: Module) -> Partitioned:
        before = to_text(module, COMPLETE)
        parts = partition(module)
        if to_text(module, COMPLETE) != before:
            self.found("partition", "changed", "the module itself is changed")
        verify(parts.module)
        for fault in check_communication([parts.module]).faults[:1]:
            self.found("partition", "communication", str(fault))
        printed = to_text(parts.module, COMPLETE)
        if to_text(parse_hlo(printed), COMPLETE) != printed:
            self.found("partition", "fixpoint", "parse(print(m)) prints otherwise")
        return parts


def _on_devices(
    parts: Partitioned, arguments: Sequence[Array], expected: Sequence[Array]
) -> list[Array]:
    """What all devices compute, put together; tiles that several hold have to be equal."""
    given = [
        cut(x, sharding, parts.grid)
        for x, sharding in zip(arguments, parts.parameters, strict=True)
    ]
    with np.errstate(all="ignore"):
        rows = [[tiles[i] for tiles in given] for i in range(parts.grid.count)]
        found = [array_leaves(x) for x in evaluate_on_devices(parts.module, rows)]
    results = []
    for number, (whole, sharding) in enumerate(zip(expected, parts.results, strict=True)):
        own = [x[number] for x in found]
        total = joined(own, sharding, parts.grid, whole.shape)
        if "unreduced" not in str(sharding):
            for tile, mine in zip(cut(total, sharding, parts.grid), own, strict=True):
                if tile.tobytes() != mine.tobytes():
                    raise AssertionError(f"devices hold other values of result {number}")
        results.append(total)
    return results


def _on_one_device(module: Module) -> Module:
    """The module without its shardings, with what is done in manual regions done to whole arrays.

    Raises UnsupportedOpError where a region does something else than to turn signs.
    """
    whole = clone_module(module)
    whole.num_partitions = 1
    for x in list(whole.entry.instructions.values()):
        if x.opcode is Opcode.CUSTOM_CALL and x.attributes_as(CustomCall).target == _FULL:
            x.replace_all_uses_with(_region_of_whole(x))
    remove_dead_code(whole)
    remove_shardings(whole)
    return whole


def _region_of_whole(x: Instruction) -> Instruction:
    steps: list[Instruction] = []
    inner = x.operands[0]
    while inner.opcode in (Opcode.NEGATE, Opcode.NOT):
        steps.append(inner)
        inner = inner.operands[0]
    is_local = inner.opcode is Opcode.CUSTOM_CALL
    if not is_local or inner.attributes_as(CustomCall).target != _LOCAL:
        raise UnsupportedOpError("a manual region of other operations")
    value = inner.operands[0]
    for step in reversed(steps):
        value = make(x.parent, step.opcode, x.shape, (value,), step)
    return value
