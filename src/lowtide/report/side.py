"""One side of a diff: what is known of a program's peak, from a report or from its JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lowtide.ir import InputError, Module, Opcode, SourceLocation
from lowtide.records import dataclass
from lowtide.report.blame import primitive_of, scope_of
from lowtide.report.contents import ProgramContents, contents_of
from lowtide.report.memory import SCHEMA, MemoryReport
from lowtide.report.peak import CauseKind, PeakBuffer


@dataclass(frozen=True, slots=True)
class ProgramNames:
    """The names in the user's program of what a module computes.

    `stored` are those of values with memory of their own, `joined` those within kernels.
    """

    stored: frozenset[str]
    joined: frozenset[str]


@dataclass(frozen=True, slots=True)
class DiffSide:
    """A program with its peak: all bytes of a call, and the parts that are no buffers.

    `buffers` are those of the peak but for donated arguments, which count in `arguments`. The four
    figures and the buffers sum to `total_bytes`. `names` and `contents` are None where only a
    report is known.
    """

    label: str
    module: str
    total_bytes: int
    arguments: int
    constants: int
    packing: int
    buffers: tuple[PeakBuffer, ...]
    names: ProgramNames | None = None
    contents: ProgramContents | None = None


def side_of_report(report: MemoryReport, label: str, module: Module | None = None) -> DiffSide:
    """Return the side of a report; `module` is the scheduled module that it is on, if known."""
    ladder = report.ladder
    return _side(
        label,
        report.module,
        report.total_bytes,
        report.constant_bytes,
        ladder.arena_bytes - ladder.live_bytes,
        report.peak.buffers,
        module,
    )


def side_of_json(document: Mapping[str, Any], label: str, module: Module | None = None) -> DiffSide:
    """Return the side of a document of schema "lowtide.memory/1", such as `explain --json` writes.

    Raises InputError where it is none, or lacks a field.
    """
    if document.get("schema") != SCHEMA:
        raise InputError(
            f"expected a report of schema {SCHEMA!r}, found {document.get('schema')!r}", file=label
        )
    try:
        ladder = document["ladder"]
        return _side(
            label,
            str(document["module"]),
            int(document["total_bytes"]),
            int(document["constant_bytes"]),
            int(ladder["arena_bytes"]) - int(ladder["live_bytes"]),
            tuple([_buffer(x) for x in document["peak"]["buffers"]]),
            module,
        )
    except KeyError as error:
        raise InputError(f"the report has no {error.args[0]!r}", file=label) from None
    except (TypeError, ValueError, IndexError) as error:
        raise InputError(f"the report is malformed: {error}", file=label) from None


def _side(
    label: str,
    module: str,
    total: int,
    constants: int,
    packing: int,
    buffers: tuple[PeakBuffer, ...],
    of: Module | None,
) -> DiffSide:
    own = tuple([x for x in buffers if x.kind != "argument"])
    arguments = total - constants - packing - sum([x.nbytes for x in own])
    names = None if of is None else names_in(of)
    contents = None if of is None else contents_of(of)
    return DiffSide(label, module, total, arguments, constants, packing, own, names, contents)


def _buffer(entry: Mapping[str, Any]) -> PeakBuffer:
    source = entry["source"]
    place = None
    if source is not None:
        place = SourceLocation(str(source["file"]), int(source["line"]), str(source["function"]))
    first, last = entry["live"]
    return PeakBuffer(
        name=str(entry["name"]),
        nbytes=int(entry["bytes"]),
        instruction=str(entry["instruction"]),
        opcode=str(entry.get("opcode", "")),
        shape=str(entry.get("shape", "")),
        kind=str(entry.get("kind", "temporary")),
        op_name=str(entry["op_name"]),
        source=place,
        live=(int(first), int(last)),
        cause=CauseKind(entry.get("cause", CauseKind.IRREDUCIBLE)),
        reason=str(entry.get("reason", "")),
    )


def program_name(op_name: str) -> str:
    """Return the name of an operation without the function that was compiled."""
    return "/".join([*scope_of(op_name), primitive_of(op_name)]).strip("/")


def names_in(module: Module) -> ProgramNames:
    """Return the names in a scheduled module."""
    stored: set[str] = set()
    joined: set[str] = set()
    for is_joined, op_name in _op_names(module):
        name = program_name(op_name)
        if name:
            (joined if is_joined else stored).add(name)
    return ProgramNames(frozenset(stored), frozenset(joined))


def _op_names(module: Module) -> Iterator[tuple[bool, str]]:
    """Yield for each instruction whether it is within a kernel, and its name."""
    within = {
        callee
        for computation in module.computations.values()
        for x in computation.instructions.values()
        if x.opcode is Opcode.FUSION
        for callee in x.called_computations
    }
    for computation in module.computations.values():
        is_joined = computation in within
        for instruction in computation.instructions.values():
            root = is_joined and instruction.is_root
            yield is_joined and not root, instruction.metadata.op_name
