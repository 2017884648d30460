"""`lowtide plan model.tflite --target tflm`, and `lowtide explain` of such a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from lowtide.cli.plan_request import PlanRequest
    from lowtide.frontend.tflite.model import LiteModel
    from lowtide.micro.banks import Bank, BankPlan
    from lowtide.micro.planned import PlannedModel

SCHEMA: Final = "lowtide.tflm/1"


def plan_model(path: str, request: PlanRequest, banks: list[str]) -> None:
    """Plan a model, write the file that has the plan and its header, and say what it came to.

    Raises InputError for a malformed file, BankError where tensors do not fit the memories.
    """
    from lowtide.cli import console
    from lowtide.cli.plan_request import effort_named
    from lowtide.cli.progress import progress
    from lowtide.micro.banks import plan_banks
    from lowtide.micro.planned import arena_header, planned_model

    memories = [_bank(x) for x in banks]
    model = read_model(path)
    with progress(f"planning {path}"):
        made = planned_model(model, effort_named(request.effort))
        placed = plan_banks(model.main, made.plan, memories) if memories else []
    if request.output is not None:
        header = arena_header(request.output.stem, made).encode()
        console.write_file(request.output, lambda stream: stream.write(made.content))
        beside = request.output.with_suffix(".h")
        console.write_file(beside, lambda stream: stream.write(header))
    if request.json:
        console.write_json(_document(model, made, placed))
        return
    console.write("\n".join(_lines(model, made, placed, request.limit)))


def explain_model(path: str, limit: int | None, *, json: bool) -> None:
    """Show what the arena of a model is made of; raises InputError for a malformed file."""
    from lowtide.cli.plan_request import PlanRequest

    plan_model(path, PlanRequest(json=json, limit=limit or PlanRequest().limit), [])


def read_model(path: str) -> LiteModel:
    """Return the model in a file; raises InputError for a malformed one."""
    from lowtide.frontend.compressed import read_bytes
    from lowtide.frontend.tflite.model import read_tflite

    with Path(path).open("rb") as stream:
        return read_tflite(read_bytes(stream, path), path)


def _bank(text: str) -> Bank:
    from lowtide.cli.exit_codes import UsageError
    from lowtide.ir.sizes import bytes_of
    from lowtide.micro.banks import Bank

    name, given, size = text.partition("=")
    if not name or not given:
        raise UsageError(f"--bank {text}: expected NAME=SIZE, such as sram=256KiB")
    try:
        return Bank(name, bytes_of(size))
    except ValueError as error:
        raise UsageError(f"--bank {text}: {error}") from None


def _document(model: LiteModel, made: PlannedModel, banks: list[BankPlan]) -> dict[str, Any]:
    plan, size = made.plan, made.size
    return {
        "schema": SCHEMA,
        "operators": len(model.main.operators),
        "order": list(plan.order),
        "bound_bytes": plan.bound_bytes,
        "live_bytes": plan.live_bytes,
        "planned_bytes": plan.head_bytes,
        "arena": {
            "planned_bytes": size.planned_bytes,
            "scratch_bytes": size.scratch_bytes,
            "tail_bytes": size.tail_bytes,
            "arena_bytes": size.arena_bytes,
            "source": size.source,
        },
        "arena_bytes_before": None if made.before is None else made.before.arena_bytes,
        "offsets": {str(x): y for x, y in plan.offsets.items()},
        "overwrites": {str(x): y for x, y in plan.overwrites.items()},
        "banks": [
            {
                "name": x.bank.name,
                "bytes": x.bank.nbytes,
                "used_bytes": x.used_bytes,
                "offsets": {str(t): y for t, y in x.offsets.items()},
            }
            for x in banks
        ],
        "caveats": list(plan.caveats),
    }


def _lines(model: LiteModel, made: PlannedModel, banks: list[BankPlan], limit: int) -> list[str]:
    from lowtide.micro.arena import describe

    lines = [f"{model.file}", *describe(made.plan, made.size)]
    if made.before is not None:
        lines.append(f"  before   {made.before.arena_bytes:,} bytes by firmware's own planner")
    lines += [
        f"  {x.bank.name:<8} {x.used_bytes:,} of {x.bank.nbytes:,} bytes, "
        f"{len(x.offsets):,} tensors"
        for x in banks
    ]
    return [*lines, *_peak(model, made, limit)]


def _peak(model: LiteModel, made: PlannedModel, limit: int) -> list[str]:
    """What is live at the step of most bytes, the largest first."""
    from lowtide.micro.lifetimes import peak_step

    lives = made.plan.lifetimes
    if not lives:
        return []
    peak = peak_step(lives)
    held = sorted([x for x in lives if x.first <= peak <= x.last], key=lambda x: -x.nbytes)
    graph = model.main
    operator = graph.operators[made.plan.order[max(peak, 0)]]
    lines = ["", f"At the peak, step {max(peak, 0)}: operator {operator.number}, {operator.name}"]
    for life in held[:limit]:
        tensor = graph.tensors[life.tensor]
        offset = made.plan.offsets.get(life.tensor)
        place = "online" if offset is None else f"at {offset:,}"
        sizes = ",".join(map(str, tensor.shape))
        lines.append(
            f"  {life.nbytes:>12,}  {tensor.type}[{sizes}] {tensor.name}  {place}, "
            f"live {life.first}..{life.last}"
        )
    return lines
