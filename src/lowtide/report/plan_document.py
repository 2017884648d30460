"""A plan as JSON: its allocations, and where in them each value lies."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.ir import Module
from lowtide.ir.buffer import Allocation, AssignedValue, BufferAssignment
from lowtide.ir.printer import COMPLETE, to_text
from lowtide.ir.shape import index_text


def plan_document(assignment: BufferAssignment) -> dict[str, object]:
    """Return `allocations`, `kept_bytes` and `offsets`, one entry per value and call site.

    A name is that of the value's instruction, with its callers in front and the index within a
    tuple behind. The state of a loop is named after the parameter of the body.
    """
    names = value_names(assignment)
    paths = call_paths(assignment)
    rows = zip(assignment.values, names, strict=True)
    return {
        "allocations": [_allocation(x) for x in assignment.allocations],
        "kept_bytes": assignment.kept_bytes,
        "offsets": [_value(value, name, paths) for value, name in rows],
    }


def self_contained(document: dict[str, object], module: Module) -> dict[str, object]:
    """Return the document of a plan with the text of the module that was planned."""
    return {**document, "scheduled_module": to_text(module, COMPLETE)}


def call_paths(assignment: BufferAssignment) -> list[tuple[str, ...]]:
    """Return the names of the callers of each call site, the one in the entry first."""
    paths: list[tuple[str, ...]] = []
    for site in assignment.call_sites:
        caller = site.caller
        paths.append(() if caller is None else (*paths[site.parent], caller.name))
    return paths


def value_names(assignment: BufferAssignment) -> list[str]:
    """Return the name of each value, in the order of `assignment.values`."""
    paths = call_paths(assignment)
    last = {(x.site, x.instruction, x.index): x.number for x in assignment.values}
    names = []
    for value in assignment.values:
        maker = value.instruction
        parts = [*(paths[value.site] if value.site >= 0 else [maker.parent.name]), maker.name]
        if last[value.site, maker, value.index] != value.number:
            parts.append(maker.called_computations[-1].parameters[0].name)
        suffix = index_text(value.index) if maker.shape.is_tuple else ""
        names.append("/".join(parts) + suffix)
    return names


def _value(value: AssignedValue, name: str, paths: Sequence[tuple[str, ...]]) -> dict[str, object]:
    return {
        "name": name,
        "instruction": value.instruction.name,
        "index": list(value.index),
        "call_site": value.site,
        "call_path": list(paths[value.site]) if value.site >= 0 else [],
        "allocation": value.place.allocation,
        "offset": value.place.offset,
        "bytes": value.place.nbytes,
        "buffer": value.buffer,
        "live": None if value.live is None else list(value.live),
    }


def _allocation(allocation: Allocation) -> dict[str, object]:
    entry: dict[str, object] = {
        "index": allocation.index,
        "kind": allocation.kind.value,
        "bytes": allocation.nbytes,
    }
    if allocation.colour:
        entry["memory_space"] = allocation.colour
    if allocation.parameter is not None:
        number, index = allocation.parameter
        entry["parameter"] = {"number": number, "index": list(index)}
    if allocation.output is not None:
        entry["output"] = list(allocation.output)
    if allocation.constant is not None:
        entry["constant"] = allocation.constant.name
    if allocation.is_tuple:
        entry["tuple"] = True
    if allocation.maybe_live_out:
        entry["live_out"] = True
    return entry
