"""Arrays that are held for the backward pass in bfloat16."""

from __future__ import annotations

from functools import partial
from typing import Final

from lowtide.compiler import ModulePlan
from lowtide.ir import ElementType, Instruction, Module, Opcode, SourceLocation
from lowtide.ir.attributes import GetTupleElement
from lowtide.ir.clone import CloneMap
from lowtide.report.blame import scope_of
from lowtide.report.grouping import groups_of
from lowtide.report.peak import CauseKind, PeakBuffer, PeakGroup
from lowtide.report.peak_table import place_text
from lowtide.whatif.baseline import Baseline
from lowtide.whatif.change import ImpossibleChangeError, ProgramChange
from lowtide.whatif.editing import read_instead

_MOST: Final = 3
_LEAST_SHARE: Final = 25
_F32: Final = "f32["


def narrowing_changes(base: Baseline) -> list[ProgramChange]:
    """Return bfloat16 for what each of the largest lines holds; none where the order was given."""
    if base.has_given_order:
        return []
    peak = base.report.peak
    total = sum([x.nbytes for x in peak.buffers])
    held = [x for x in peak.buffers if x.kind == "temporary" and x.shape.startswith(_F32)]
    changes: dict[str, ProgramChange] = {}
    for group in groups_of(held, "line"):
        saved = tuple([x for x in group.buffers if _is_saved(base, x)])
        if sum([x.nbytes for x in saved]) * _LEAST_SHARE > total and len(changes) < _MOST:
            change = _change(group, saved)
            changes.setdefault(change.name, change)
    return list(changes.values())


def _is_saved(base: Baseline, buffer: PeakBuffer) -> bool:
    if buffer.cause in (CauseKind.SAVED, CauseKind.MATERIALIZED, CauseKind.IRREDUCIBLE):
        return buffer.instruction in base.module.entry.instructions
    return False


def _change(group: PeakGroup, saved: tuple[PeakBuffer, ...]) -> ProgramChange:
    name = _name(group.source, saved[0])
    return ProgramChange(
        f"bf16:{name}",
        f"hold what {name} makes as bfloat16 until the backward pass",
        "x = x.astype(jnp.bfloat16)",
        group.source,
        partial(_planned, saved=frozenset([(x.instruction, x.name) for x in saved])),
        remark="results change",
    )


def _name(source: SourceLocation | None, buffer: PeakBuffer) -> str:
    if source is not None:
        return place_text(source, function=False)
    scopes = scope_of(buffer.op_name)
    return "/".join(scopes) or buffer.shape


def _planned(base: Baseline, saved: frozenset[tuple[str, str]]) -> ModulePlan:
    mapping = CloneMap()
    module = base.copy(mapping)
    late = {mapping.instructions[x] for x in base.late}
    changed = 0
    for name in sorted({instruction for instruction, _ in saved}):
        maker = module.entry.instructions[name]
        for value in _elements(maker):
            changed += _narrow(module, value, late)
    if not changed:
        raise ImpossibleChangeError("the backward pass reads none of them")
    return base.planned(module)


def _elements(maker: Instruction) -> list[Instruction]:
    """What readers read of a result: itself, or what takes an element out of it."""
    if not maker.shape.is_tuple:
        return [maker]
    return [x for x in maker.users if isinstance(x.attributes, GetTupleElement)]


def _narrow(module: Module, value: Instruction, late: set[Instruction]) -> bool:
    """Have late readers of an f32 value read it from bfloat16; whether there are any."""
    shape = value.shape
    if not shape.is_array or shape.element_type is not ElementType.F32:
        return False
    uses = _late_uses(value, late)
    if not uses:
        return False
    narrow = module.entry.add(Opcode.CONVERT, shape.with_element_type(ElementType.BF16), (value,))
    narrow.set_metadata(value.raw_metadata)
    for reader, path in uses:
        wide = module.entry.add(Opcode.CONVERT, shape, (narrow,))
        wide.set_metadata(reader.raw_metadata)
        read = path[-1] if path else value
        for passing in path:
            wide = module.entry.add_like(passing, (wide,))
        read_instead(read, wide, [reader])
    return True


_Path = tuple[Instruction, ...]


def _late_uses(value: Instruction, late: set[Instruction]) -> list[tuple[Instruction, _Path]]:
    """The late readers of a value, each with the bitcasts through which it reads."""
    found: list[tuple[Instruction, _Path]] = []
    stack: list[tuple[Instruction, _Path]] = [(value, ())]
    while stack:
        x, path = stack.pop()
        for reader in x.users:
            if reader.opcode is Opcode.BITCAST:
                stack.append((reader, (*path, reader)))
            elif reader in late and _is_plain(reader):
                found.append((reader, path))
    return sorted(found, key=lambda use: use[0].id)


def _is_plain(reader: Instruction) -> bool:
    """Whether a reader takes arrays only: what loops are given has to keep its form."""
    return reader.opcode not in (Opcode.TUPLE, Opcode.WHILE, Opcode.CALL, Opcode.CONDITIONAL)
