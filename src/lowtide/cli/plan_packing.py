"""`lowtide plan` of a packing problem: that of a CSV file, or of the buffers of a module."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lowtide.cli.plan_request import PlanRequest, write_pictures
from lowtide.records import dataclass

if TYPE_CHECKING:
    from lowtide.frontend.packing_csv import PackingFile
    from lowtide.packing.named import NamedProblem, SolvedPacking
    from lowtide.report.packing_picture import PackingPicture


STDIN: Final = "-"
"""The path that stands for standard input."""


@dataclass(frozen=True, slots=True)
class PackingRequest:
    """The options of `lowtide plan` for packing problems; graphs have a capacity, too."""

    strategy: str | None = None
    capacity: int | None = None
    compare: bool = False

    def check(self, request: PlanRequest) -> None:
        """Raise UsageError for options that contradict one another."""
        from lowtide.cli.exit_codes import UsageError

        if self.compare and (self.strategy or request.output or request.svg or request.html):
            raise UsageError("--compare writes a table only; leave out --strategy, -o and pictures")


def is_packing(path: str) -> bool:
    """Whether a file is a packing problem: its name or its first line says so."""
    from lowtide.frontend.file_kinds import HEAD_BYTES
    from lowtide.frontend.packing_csv import looks_like_packing

    if path.lower().removesuffix(".xz").removesuffix(".gz").endswith(".csv"):
        return True
    if path == STDIN:
        return looks_like_packing(_first_of_stdin(HEAD_BYTES))
    if not Path(path).is_file():
        return False
    with Path(path).open("rb") as stream:
        return looks_like_packing(stream.read(HEAD_BYTES))


def _first_of_stdin(count: int) -> bytes:
    """The first bytes of standard input, which are read again by whoever reads all."""
    stream = sys.stdin.buffer
    if isinstance(stream, io.BufferedReader):
        return stream.peek(count)
    if not stream.seekable():
        return b""
    head = stream.read(count)
    stream.seek(-len(head), io.SEEK_CUR)
    return head


def read_packing(path: str, alignment: int) -> PackingFile:
    """Return the problem in a file; raises InputError with line and column."""
    from lowtide.cli.progress import progress
    from lowtide.frontend.compressed import read_bytes
    from lowtide.frontend.packing_csv import read_packing_csv

    with progress(f"reading {path}"):
        if path == STDIN:
            return read_packing_csv(read_bytes(sys.stdin.buffer, "<stdin>"), "<stdin>", alignment)
        with Path(path).open("rb") as stream:
            return read_packing_csv(read_bytes(stream, path), path, alignment)


def plan_packing(
    named: NamedProblem,
    packing: PackingRequest,
    request: PlanRequest,
    file: PackingFile | None = None,
) -> None:
    """Solve a problem and write the plan; `file` is what it was read from.

    Raises OverBudgetError for a plan above the capacity, VerificationError for a wrong one, and
    KeyboardInterrupt once what was found is written.
    """
    from lowtide.cli import console
    from lowtide.cli.exit_codes import OverBudgetError
    from lowtide.cli.packing_text import packing_document, packing_screen
    from lowtide.options import display_for
    from lowtide.packing.check import capacity_fault
    from lowtide.planning import StopReason

    _check_output(request.output)
    for text in named.notes:
        console.note(text)
    solved = solve_packing(named, packing, request)
    fault = ""
    if packing.capacity is not None:
        fault = capacity_fault(named, solved, packing.capacity)
    _write_output(named, solved, request.output, file, fits=not fault)
    write_pictures(request, lambda: _picture(named, solved))
    if request.json:
        console.write_json(packing_document(named, solved, packing.capacity))
    else:
        display = display_for(sys.stdout)
        lines = packing_screen(named, solved, request.limit, display.width, color=display.color)
        console.write("\n".join(lines))
    if solved.stopped is StopReason.INTERRUPT:
        raise KeyboardInterrupt
    if fault:
        unwritten = request.output is not None and request.output.suffix.lower() == ".csv"
        behind = f"; {request.output} is not written" if unwritten else ""
        raise OverBudgetError(f"{named.title}: {fault}{behind}")


def solve_packing(
    named: NamedProblem, packing: PackingRequest, request: PlanRequest
) -> SolvedPacking:
    """Return a plan that passed the checker; one of very many buffers is not checked."""
    from lowtide.cli import console
    from lowtide.cli.exit_codes import VerificationError
    from lowtide.cli.progress import progress
    from lowtide.packing.check import MOST_CHECKED, WrongPackingError, check
    from lowtide.packing.named import solve

    with progress(f"packing {named.title}") as line:
        search = replace(request.search(capacity=packing.capacity), progress=line.show_search)
        solved = solve(named.problem, packing.strategy, search)
    for change in solved.changes:
        console.note(f"{solved.strategy} does not take the problem as it is: {change}")
    if len(named.problem) > MOST_CHECKED:
        console.note(f"plans of more than {MOST_CHECKED:,} buffers are checked by `lowtide verify`")
        return solved
    try:
        with progress(f"checking the plan of {named.title}"):
            check(named, solved)
    except WrongPackingError as error:
        raise VerificationError(str(error)) from None
    return solved


# -- files -------------------------------------------------------------------------------------


def _check_output(output: Path | None) -> None:
    """Raise UsageError for a file whose name does not say what it is to hold."""
    from lowtide.cli.exit_codes import UsageError

    if output is None or output.suffix.lower() == ".json":
        return
    if output.suffix.lower() != ".csv":
        raise UsageError(f"{output}: a packing is written as .csv, its certificate as .json")


def _write_output(
    named: NamedProblem,
    solved: SolvedPacking,
    output: Path | None,
    file: PackingFile | None,
    *,
    fits: bool,
) -> None:
    from lowtide.cli import console
    from lowtide.planning.certificates import certificate_text

    if output is None:
        return
    if output.suffix.lower() == ".json":
        text = certificate_text(solved.certificate())
    elif fits:
        lines = _lines(named, solved) if file is None else file.with_offsets(_offsets(solved))
        text = "\n".join(lines) + "\n"
    else:
        return
    data = text.encode("utf-8", "surrogateescape")
    console.write_file(output, lambda stream: stream.write(data))


def _offsets(solved: SolvedPacking) -> tuple[int, ...]:
    return solved.assignment.offsets


def _lines(named: NamedProblem, solved: SolvedPacking) -> Iterator[str]:
    """Yield what lies in the arena, in the format of MiniMalloc; commas in names are left out."""
    from lowtide.packing.check import packing_rows
    from lowtide.planning import ARENA

    yield "id,lower,upper,size,alignment,gaps,offset"
    region, offset = solved.assignment.packing.region, solved.assignment.packing.offset
    for number, row in enumerate(packing_rows(named.names, named.problem)):
        if region[number] == ARENA:
            gaps = " ".join([f"{first}-{stop}" for first, stop in row.gaps])
            name, place = row.id.replace(",", ";"), int(offset[number])
            yield f"{name},{row.lower},{row.upper},{row.size},{row.alignment},{gaps},{place}"


def _picture(named: NamedProblem, solved: SolvedPacking) -> PackingPicture:
    from lowtide.packing.pictures import packing_picture

    return packing_picture(named, solved)
