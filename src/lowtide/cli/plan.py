"""`lowtide plan`: places for the values of a module or a packing problem, orders for a graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from lowtide.cli.arguments import (
    Budget,
    DeadlineOption,
    EffortOption,
    JsonOption,
    ReoptimizeOption,
    StageOption,
    budget_given,
    option,
    size_in_bytes,
    taking,
)
from lowtide.cli.one_device import WholeOption
from lowtide.cli.plan_budget import BudgetRequest
from lowtide.cli.plan_module import ModuleRequest
from lowtide.cli.plan_packing import PackingRequest
from lowtide.cli.plan_request import PlanRequest
from lowtide.cli.shapes import (
    InPlaceOption,
    MatchRangeOption,
    ShapesOption,
    SignatureOption,
    SizesOption,
    VariantOption,
)
from lowtide.options import DEFAULT_STAGE
from lowtide.records import dataclass

_GRAPHS: Final = (".json",)
_LITE: Final = ".tflite"


@dataclass(frozen=True, slots=True)
class _PlanArguments:
    """The arguments and options of `lowtide plan`."""

    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A module; a memory graph or one of NNVM, .json; a .tflite; CSV of "
            "id,lower,upper,size,alignment,gaps,offset.",
            show_default=False,
        ),
    ]
    sizes: SizesOption = None
    shapes: ShapesOption = None
    signature: SignatureOption = None
    variant: VariantOption = None
    match_range: MatchRangeOption = None
    no_in_place: InPlaceOption = False
    json: JsonOption = False
    output: Annotated[
        Path | None,
        option("PATH", "Plan .json .pb .txt; packing .csv; else .json.", "-o", "--output"),
    ] = None
    stage: StageOption = DEFAULT_STAGE
    reoptimize: ReoptimizeOption = False
    assigner: Annotated[str, option("NAME", "`arena`, or XLA's, `xla` and `xla1.14`.")] = "arena"
    strategy: Annotated[
        str | None, option("NAME", "offsets:NAME or objects:NAME of `lowtide planners`.")
    ] = None
    packing: Annotated[str | None, option("NAME", "Strategy for the arena of a module.")] = None
    compare: Annotated[
        bool, option(None, "A table of all strategies, each for --deadline.", "--compare")
    ] = False
    capacity: Annotated[
        int | None, option("SIZE", "Bytes a packing may take, e.g. 1MiB.", parser=size_in_bytes)
    ] = None
    budget: Annotated[
        Budget | None,
        option(
            "SIZE",
            "Bytes a plan may take, or 80% of the plain one's.",
            "--budget",
            "--memory",
            parser=budget_given,
        ),
    ] = None
    remat: Annotated[str | None, option("NAME", "How to find what runs again: frontier, xla.")] = (
        None
    )
    pareto: Annotated[bool, option(None, "Memory against time, and the bound.", "--pareto")] = False
    alignment: Annotated[int, option("N", "Of all offsets, for CSV.", min=1)] = 1
    target: Annotated[
        str | None, option("NAME", "cpu, cuda, cuda:sm_90, ...; of a .tflite: tflm.")
    ] = None
    bank: Annotated[
        list[str] | None, option("NAME=SIZE", "With tflm: memories, fastest first.")
    ] = None
    effort: EffortOption = "default"
    deadline: DeadlineOption = None
    svg: Annotated[Path | None, option("PATH", "Draw it: time across, memory up.")] = None
    html: Annotated[Path | None, option("PATH", "Draw it on a page to zoom and search in.")] = None
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Rows of the table.")] = 12
    whole: WholeOption = False


@taking(_PlanArguments)
def plan(given: _PlanArguments) -> None:
    """Plan the memory of a module or packing, or order a graph."""
    request = PlanRequest(
        given.effort, given.deadline, given.json, given.limit, given.output, given.svg, given.html
    )
    packed = PackingRequest(given.strategy, given.capacity, given.compare)
    is_lite = bool(given.bank) or _plain(given.file).endswith(_LITE) or given.target == "tflm"
    target = "cpu" if is_lite or given.target is None else given.target
    module = ModuleRequest(
        given.stage, given.assigner, given.packing, given.reoptimize, given.whole, target
    )
    is_plain = packed == PackingRequest() and module == ModuleRequest() and given.alignment == 1
    rules = given.variant is not None or given.match_range is not None or given.no_in_place
    if _plan_nnvm(
        given.file,
        request,
        (given.variant, given.match_range, not given.no_in_place),
        rules,
        is_plain,
    ):
        return
    if is_lite:
        others = packed != PackingRequest() or module != ModuleRequest() or given.alignment != 1
        wanted = BudgetRequest(given.budget, given.remat, given.pareto)
        _plan_micro(
            given.file,
            request,
            given.target,
            given.bank or [],
            is_plain=not (others or wanted.is_wanted),
        )
        return
    _plan(
        given.file,
        request,
        packed,
        module,
        BudgetRequest(given.budget, given.remat, given.pareto),
        given.alignment,
    )


def _plan_nnvm(
    file: str,
    request: PlanRequest,
    rules: tuple[str | None, int | None, bool],
    are_given: bool,
    is_plain: bool,
) -> bool:
    """Plan a graph of NNVM; False for any other file. Raises UsageError for other options."""
    from lowtide.cli.exit_codes import UsageError
    from lowtide.cli.plan_nnvm import is_nnvm, plan_nnvm

    if not is_nnvm(file):
        if are_given:
            raise UsageError(
                f"{file}: --variant, --match-range and --no-in-place are for graphs of NNVM"
            )
        return False
    if not is_plain or request.svg or request.html or request.deadline is not None:
        raise UsageError(
            f"{file}: a graph of NNVM has --shape, --variant, --match-range, --no-in-place, "
            "--effort, --limit, --json and -o only"
        )
    request.check()
    plan_nnvm(file, request, rules[0], rules[1], in_place=rules[2])
    return True


def _plan_micro(
    file: str, request: PlanRequest, target: str | None, banks: list[str], *, is_plain: bool
) -> None:
    """Plan a TFLite model; raises UsageError for options that are not for one."""
    from lowtide.cli.exit_codes import UsageError
    from lowtide.cli.plan_micro import plan_model

    if not _plain(file).endswith(_LITE):
        raise UsageError(f"{file}: --target tflm and --bank are for .tflite models")
    if target != "tflm":
        found = "" if target is None else f"; there is no target {target!r}"
        raise UsageError(f"{file}: a .tflite model is planned with --target tflm{found}")
    if not is_plain or request.svg or request.html or request.deadline is not None:
        raise UsageError(f"{file}: with tflm there are --bank, --effort, --json and -o only")
    request.check()
    plan_model(file, request, banks)


def _plan(
    file: str,
    request: PlanRequest,
    packing: PackingRequest,
    wanted: ModuleRequest,
    budget: BudgetRequest,
    alignment: int,
) -> None:
    from lowtide.cli.compare import plan_compared
    from lowtide.cli.exit_codes import UsageError
    from lowtide.cli.plan_budget import plan_budget
    from lowtide.cli.plan_graph import plan_graph
    from lowtide.cli.plan_packing import is_packing, plan_packing, read_packing
    from lowtide.compiler.pipeline import keep_solvers
    from lowtide.packing.named import named_problem

    request.check()
    packing.check(request)
    keep_solvers()
    is_graph = not is_packing(file) and _plain(file).endswith(_GRAPHS)
    if budget.is_wanted and is_packing(file):
        raise UsageError(
            f"{file}: --budget, --remat and --pareto are for modules and memory graphs; for a "
            "packing there is --capacity"
        )
    if is_packing(file):
        if wanted != ModuleRequest():
            raise UsageError(
                f"{file}: --stage, --reoptimize, --packing, --assigner and --target are for "
                "modules; for a packing there is --strategy"
            )
        found = read_packing(file, alignment)
        named = named_problem(found)
        if packing.compare:
            plan_compared(named, packing, request)
        else:
            plan_packing(named, packing, request, found)
        return
    if is_graph:
        if wanted != ModuleRequest() or alignment != 1:
            raise UsageError(
                f"{file}: --stage, --reoptimize, --packing, --assigner, --target and --alignment "
                "are not for memory graphs"
            )
        if budget.is_wanted:
            plan_budget(file, request, budget)
        else:
            plan_graph(file, packing, request)
        return
    if alignment != 1:
        raise UsageError("--alignment is for packings; the alignment of a module is its target's")
    _plan_module(file, request, packing, wanted, budget)


def _plan_module(
    file: str,
    request: PlanRequest,
    packing: PackingRequest,
    wanted: ModuleRequest,
    budget: BudgetRequest,
) -> None:
    from lowtide.cli.compare import plan_compared
    from lowtide.cli.exit_codes import UsageError
    from lowtide.cli.plan_fit import plan_fit
    from lowtide.cli.plan_module import plan_module
    from lowtide.cli.plan_packing import plan_packing
    from lowtide.cli.progress import progress

    if budget.is_wanted:
        if packing.strategy or packing.compare or packing.capacity is not None:
            raise UsageError(
                "--budget, --remat and --pareto plan a module; leave out --strategy, --compare and "
                "--capacity"
            )
        plan_fit(wanted.loaded(file), wanted, request, budget)
        return
    if packing.strategy is None and not packing.compare:
        if packing.capacity is not None:
            raise UsageError("--capacity is for packings; with a module, for --strategy only")
        plan_module(wanted.loaded(file), wanted, request)
        return
    if wanted.assigner != "arena" or wanted.packing is not None or wanted.target != "cpu":
        raise UsageError("--strategy and --compare pack live ranges; leave out the other options")
    from lowtide.packing.of_module import module_problem

    module = wanted.loaded(file)
    with progress(f"planning {module.name}"):
        named = module_problem(module, wanted.stage)
    if packing.compare:
        plan_compared(named, packing, request)
    else:
        plan_packing(named, packing, request)


def _plain(file: str) -> str:
    return file.lower().removesuffix(".xz").removesuffix(".gz")
