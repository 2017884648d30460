"""Plans from files: what XLA writes, and what `lowtide plan -o` does."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from lowtide.frontend.buffer_assignment_text import TITLE, read_buffer_assignment_text
from lowtide.frontend.compressed import read_bytes
from lowtide.frontend.file_kinds import looks_binary, looks_like_stablehlo, looks_like_tflite
from lowtide.frontend.files import STDIN
from lowtide.frontend.hlo_proto import (
    holds_plan,
    read_buffer_assignment,
    read_hlo_proto,
    read_hlo_proto_plan,
    read_plan_of_hlo_proto,
)
from lowtide.frontend.hlo_proto.wire import kind_of
from lowtide.frontend.other_protobuf import other_protobuf
from lowtide.frontend.plan_json import read_plan_json
from lowtide.ir import HloProtoError, InputError, InvalidModuleError, Module
from lowtide.ir.buffer import BufferAssignment
from lowtide.records import dataclass
from lowtide.verifier import verify


@dataclass(frozen=True, slots=True)
class PlanFile:
    """A plan, the module that it is a plan of, and whether XLA made it."""

    module: Module
    assignment: BufferAssignment
    made_by_xla: bool


def read_plan(path: str, module: Module | None = None) -> PlanFile:
    """Return the plan in a file; "-" is standard input.

    The file holds a BufferAssignmentProto, which needs `module`, a HloProto with a plan, or a
    document of `lowtide plan -o`, perhaps compressed. Where a module is given and the file has one
    too, the one given counts. Raises InputError, or HloProtoError with the first field that is
    malformed or contradicts the module, InvalidModuleError for a module in the file.
    """
    return plan_from(read_plan_bytes(path), path, module)


def plan_beside(file: str) -> str | None:
    """Return the file with XLA's plan of a module in a dump directory, None where there is none.

    It is the text of the buffer assignment that has the name of the module's file, or that file
    where it is a HloProto with a plan.
    """
    path = Path(file)
    name = _DUMPED_TEXT.sub("", path.name)
    if name != path.name:
        for suffix in ("", ".gz", ".xz"):
            beside = path.with_name(f"{name}-buffer-assignment.txt{suffix}")
            if beside.is_file():
                return str(beside)
        return None
    data = read_plan_bytes(file)
    return file if text_in(data) is None and holds_plan(data) else None


def reported_bytes(file: str) -> int | None:
    """Return the bytes that XLA's memory usage report beside a dumped module counts in all.

    They are those of the default memory space; None where there is no such report.
    """
    path = Path(file)
    name = _DUMPED_TEXT.sub("", path.name)
    report = path.with_name(f"{name}-memory-usage-report.txt")
    if name == path.name or not report.is_file():
        return None
    found = _TOTAL.search(report.read_text(encoding="utf-8", errors="replace"))
    return None if found is None else int(found[1])


_TOTAL: Final = re.compile(r"^Total bytes(?: used)?: (\d{1,18})\b", re.MULTILINE)
_DUMPED_TEXT: Final = re.compile(r"\.(txt|hlo)(\.gz|\.xz)?$")


def read_plan_bytes(path: str) -> bytes:
    """Return what a file holds, decompressed; raises InputError."""
    if path == STDIN:
        return read_bytes(sys.stdin.buffer, "<stdin>")
    try:
        with Path(path).open("rb") as stream:
            return read_bytes(stream, path)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot be read: {reason}", file=path) from error


def needs_module(data: bytes) -> bool:
    """Whether a plan names instructions of a module that is not in the same file."""
    if not data:
        return False
    text = text_in(data)
    return kind_of(data) != "HloProto" if text is None else text.startswith(TITLE)


def text_in(data: bytes) -> str | None:
    """Return data as text; None for what is binary."""
    if looks_binary(data):
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def plan_from(data: bytes, file: str, module: Module | None = None) -> PlanFile:
    """Return the plan in the bytes of a file, as `read_plan` does."""
    if not data:
        raise InputError("the input is empty", file=file)
    text = text_in(data)
    if text is None:
        return PlanFile(*_from_protobuf(data, file, module), made_by_xla=True)
    if text.startswith(TITLE):
        if module is None:
            raise InputError(
                "a plan without its module: give the text of the module that lies beside it as "
                "MODULE",
                file=file,
            )
        assignment = read_buffer_assignment_text(text, module, file)
        return PlanFile(module, assignment, made_by_xla=True)
    if text.lstrip().startswith("{"):
        return PlanFile(*read_plan_json(text, module, file, _check(file)), made_by_xla=False)
    raise _no_plan(file)


def _check(file: str) -> Callable[[Module], None]:
    """Return what verifies the module in a file."""

    def check(module: Module) -> None:
        try:
            verify(module)
        except InvalidModuleError as error:
            raise InvalidModuleError(f"{file}: {error}", line=error.line) from None

    return check


def _from_protobuf(
    data: bytes, file: str, module: Module | None
) -> tuple[Module, BufferAssignment]:
    if kind_of(data) == "HloProto":
        if module is None:
            return read_hlo_proto_plan(data, file, _check(file))
        return module, read_plan_of_hlo_proto(data, module, file)
    if module is None:
        _refuse_module(data, file)
        raise InputError(
            "a plan without its module, which names instructions by ids: give the module proto of "
            "the same executable as MODULE",
            file=file,
        )
    try:
        return module, read_buffer_assignment(data, module, file)
    except HloProtoError:
        _refuse_module(data, file)
        raise


def _refuse_module(data: bytes, file: str) -> None:
    """Raise InputError for a module or a model in place of a plan."""
    if looks_like_tflite(data) or looks_like_stablehlo(data) or other_protobuf(data):
        raise _no_plan(file)
    try:
        module = read_hlo_proto(data, file)
    except HloProtoError:
        return
    if module.computations:
        raise _no_plan(file)


def _no_plan(file: str) -> InputError:
    return InputError(
        "is no plan; expected what `lowtide plan MODEL -o PLAN` writes, a BufferAssignmentProto, a "
        "HloProto with one, XLA's text of a buffer assignment, or CSV with the columns "
        "id,lower,upper,size,offset",
        file=file,
    )
