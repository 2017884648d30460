"""`lowtide verify`: whether a plan is right, by checkers that share nothing with the planner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from lowtide.cli.arguments import (
    Budget,
    EffortOption,
    JsonOption,
    ReoptimizeOption,
    StageOption,
    budget_given,
    option,
    taking,
)
from lowtide.cli.shapes import ShapesOption, SizesOption
from lowtide.options import DEFAULT_STAGE
from lowtide.records import dataclass

if TYPE_CHECKING:
    from lowtide.checking import Violation
    from lowtide.ir import Module

_PLAN_HELP: Final = (
    "A plan of `lowtide plan -o`, XLA's BufferAssignmentProto or HloProto with one, a packing as "
    "CSV (id,lower,upper,size,offset), or a certificate; what it is shows in its content. - is "
    "standard input."
)
_MODULE_HELP: Final = (
    "The scheduled module of the plan; a BufferAssignmentProto needs it, as protobuf. Without it, "
    "the module that the plan brings along. Of a certificate of orders: the module, scheduled or "
    "not, or the memory graph that it has to be about."
)


@dataclass(frozen=True, slots=True)
class _VerifyArguments:
    """The arguments and options of `lowtide verify`."""

    plan: Annotated[str, typer.Argument(metavar="PLAN", help=_PLAN_HELP, show_default=False)]
    module: Annotated[
        str | None, typer.Argument(metavar="[MODULE]", help=_MODULE_HELP, show_default=False)
    ] = None
    capacity: Annotated[
        int | None, option("BYTES", "How high a packing in CSV may be at most.", min=0)
    ] = None
    budget: Annotated[
        Budget | None,
        option(
            "SIZE",
            "That which the plan of a certificate was made for.",
            "--budget",
            "--memory",
            parser=budget_given,
        ),
    ] = None
    stage: StageOption = DEFAULT_STAGE
    reoptimize: ReoptimizeOption = False
    effort: EffortOption = "default"
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="How many violations to list.")] = (
        20
    )
    sizes: SizesOption = None
    shapes: ShapesOption = None
    json: JsonOption = False


@taking(_VerifyArguments)
def verify(given: _VerifyArguments) -> None:
    """Check that no two values of a plan are in each other's way.

    What each byte holds at each step is worked out anew from the module and its schedule. Exit
    status 4 says that the plan is wrong, 1 that it is malformed or that of another module. Of a
    certificate 0 says that it is valid and its plan optimal, 2 that it is valid but does not prove
    that, and 4 that it is rejected.
    """
    from lowtide.certificate import is_certificate
    from lowtide.cli import console
    from lowtide.cli.exit_codes import UsageError, VerificationError
    from lowtide.cli.verify_certificate import CompileRequest, verify_certificate
    from lowtide.frontend.plan_files import read_plan_bytes

    if given.plan == "-" and given.module == "-":
        raise UsageError("plan and module cannot both come from standard input")
    data = read_plan_bytes(given.plan)
    request = CompileRequest(given.budget, given.stage, given.effort, given.reoptimize)
    if request != CompileRequest() and (given.module is None or not is_certificate(data)):
        options = "--budget, --stage, --effort and --reoptimize"
        raise UsageError(f"{options} are for certificates with MODULE")
    if is_certificate(data):
        if given.capacity is not None:
            raise UsageError(f"{given.plan}: a certificate goes without --capacity")
        verify_certificate(data, given.plan, given.module, given.json, request)
        return
    verdict = _check(data, given.plan, given.module, given.capacity)
    found = verdict.violations
    if given.json:
        console.write_json(verdict.to_json(given.limit))
    elif not found:
        console.write(
            f"plan is right: {verdict.values:,} values, {verdict.steps:,} steps, "
            f"{verdict.nbytes:,} bytes"
        )
    else:
        lines = [str(violation) for violation in found[: given.limit]]
        if len(found) > given.limit:
            lines.append(f"and {len(found) - given.limit:,} more; --limit lists more")
        console.write("\n".join(lines))
    if found:
        word = "violation" if len(found) == 1 else "violations"
        raise VerificationError(f"{given.plan}: the plan is wrong: {len(found):,} {word}")


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What was found, and in how much: values, steps, bytes of all allocations."""

    violations: tuple[Violation, ...]
    values: int
    steps: int
    nbytes: int

    def to_json(self, limit: int) -> dict[str, object]:
        """Return the document of --json."""
        return {
            "right": not self.violations,
            "values": self.values,
            "steps": self.steps,
            "bytes": self.nbytes,
            "violation_count": len(self.violations),
            "violations": [
                {
                    "kind": x.kind.value,
                    "message": x.message,
                    "names": list(x.names),
                    "steps": list(x.steps),
                    "places": [
                        {"allocation": y.allocation, "offset": y.offset, "bytes": y.nbytes}
                        for y in x.places
                    ],
                }
                for x in self.violations[:limit]
            ],
        }


def _check(data: bytes, plan: str, module: str | None, capacity: int | None) -> _Verdict:
    from lowtide.checking import inspect_plan
    from lowtide.checking.packing_csv import is_packing_csv
    from lowtide.cli.exit_codes import UsageError
    from lowtide.cli.progress import progress
    from lowtide.frontend.plan_files import plan_from, text_in

    text = text_in(data)
    if text is not None and is_packing_csv(text):
        if module is not None:
            raise UsageError(f"{plan}: a packing needs no module, found {module}")
        return _check_packing(text, plan, capacity)
    if capacity is not None:
        raise UsageError("--capacity is for packings in CSV")
    given = None if module is None else _load_scheduled(module)
    with progress(f"checking {plan}"):
        found = plan_from(data, plan, given)
        check = inspect_plan(found.module, found.assignment)
    return _Verdict(check.violations, check.values, check.steps, check.nbytes)


def _check_packing(text: str, file: str, capacity: int | None) -> _Verdict:
    from lowtide.checking.packing import check_packing, height
    from lowtide.checking.packing_csv import read_packing_csv

    packing = read_packing_csv(text, file)
    records, offsets = packing.records, packing.offsets
    first = min([x.lower for x in records], default=0)
    last = max([x.upper for x in records], default=0)
    violations = check_packing(records, offsets, capacity)
    return _Verdict(violations, len(records), last - first, height(records, offsets))


# -- reading -----------------------------------------------------------------------------------


def _load_scheduled(path: str) -> Module:
    from lowtide.cli.modules import load
    from lowtide.ir import InputError

    found = load(path)
    if not found.module.is_scheduled:
        raise InputError(
            "has no schedule (is_scheduled=true), so it is not the module of a plan; the file that "
            "`lowtide plan MODULE -o PLAN` writes holds that: leave MODULE out",
            file=found.file,
        )
    return found.module
