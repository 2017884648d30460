"""`lowtide explain`: what the peak of a module is made of, or of a plan that another one made."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lowtide.cli.arguments import (
    DeadlineOption,
    EffortOption,
    JsonOption,
    ReoptimizeOption,
    StageOption,
    TargetOption,
    option,
    taking,
)
from lowtide.cli.explain_plan import ExplainView, explain_plan, take_apart, write_pictures
from lowtide.cli.one_device import DeviceCountOption, WholeOption
from lowtide.cli.shapes import ShapesOption, SignatureOption, SizesOption
from lowtide.options import DEFAULT_STAGE
from lowtide.records import dataclass

if TYPE_CHECKING:
    from lowtide.cli.progress import Line
    from lowtide.compiler import ModulePlan, PlanOptions
    from lowtide.frontend.files import ModuleInput
    from lowtide.ir import Module
    from lowtide.search.deadline import Deadline
    from lowtide.search.effort import Effort


@dataclass(frozen=True, slots=True)
class _ExplainArguments:
    """The arguments and options of `lowtide explain`."""

    module: Annotated[
        str | None,
        typer.Argument(
            metavar="MODULE",
            help="HLO text or protobuf, XLA dump directory, .tflite, or -.",
            show_default=False,
        ),
    ] = None
    sizes: SizesOption = None
    shapes: ShapesOption = None
    signature: SignatureOption = None
    json: JsonOption = False
    limit: Annotated[int | None, option("N", "Rows of the table, instead of what fits.", min=1)] = (
        None
    )
    stage: StageOption = DEFAULT_STAGE
    reoptimize: ReoptimizeOption = False
    effort: EffortOption = "default"
    deadline: DeadlineOption = None
    plan: Annotated[
        str | None, option("FILE", "Take a plan of the module apart: XLA's, or ours.")
    ] = None
    no_compile: Annotated[
        bool, option(None, "With --plan: only predict what would lower it.", "--no-compile")
    ] = False
    by: Annotated[str, option("NAME", "line (default), function, scope, op, cause, stack.")] = (
        "line"
    )
    frames: Annotated[str, option("NAME", "`user` (default), or `all`: libraries, too.")] = "user"
    format: Annotated[
        str | None, option("NAME", "chrome, csv, markdown, memory_viz or perfetto.")
    ] = None
    output: Annotated[Path | None, option("FILE", "Where --format writes.", "-o")] = None
    html: Annotated[
        Path | None, option("FILE", "Draw a page, too; with --plan, of both plans.")
    ] = None
    certificate: Annotated[
        Path | None, option("FILE", "Write the proof that no compilation needs less.")
    ] = None
    what_if: Annotated[
        bool, option(None, "Plan changes of the program; list those that pay.", "--what-if")
    ] = False
    try_change: Annotated[
        str | None, option("NAME", "The report after a change that --what-if names.", "--try")
    ] = None
    batch: Annotated[
        str | None, option("ARG:AXIS", "The batch, where --what-if is not sure of it.")
    ] = None
    why_not: Annotated[
        tuple[str, str] | None, option("A B", "Say only why two instructions are not one kernel.")
    ] = None
    target: TargetOption = "cpu"
    devices: DeviceCountOption = None
    whole: WholeOption = False

    @property
    def is_for_modules(self) -> bool:
        """Whether something is asked for that only modules have."""
        files = self.plan, self.format, self.html, self.certificate
        return self.what_if or bool(self.try_change) or any(x is not None for x in files)


@taking(_ExplainArguments)
def explain(given: _ExplainArguments) -> None:
    """Show what the memory peak is made of, why, and what bounds it.

    With --plan, or for a dump directory with XLA's plan, it is on that plan. Nothing is run.
    A module without a schedule is optimized first. Of one with shardings it is on the program of
    one device.
    """
    from lowtide.cli import console
    from lowtide.cli.exit_codes import UsageError
    from lowtide.cli.plan_request import effort_named

    if given.module is not None and _explains_other_format(given, given.module):
        return
    request = _Request(
        given.stage,
        effort_named(given.effort),
        given.deadline,
        given.reoptimize,
        _Changes(given.what_if, given.try_change, given.batch),
        given.target,
        (given.devices, given.whole),
    )
    request.check_target()
    if given.why_not is not None:
        if request.changes.any or (given.plan or given.format or given.html or given.batch):
            raise UsageError("--why-not is a question by itself; leave out all but --json")
        _explain_kernels(given.module, request, given.why_not, json=given.json)
        return
    view = _checked_view(given, request)
    console.check_outputs(given.html, given.output, given.certificate)
    _check_files(given, request)
    if given.format is not None:
        _write_format(given.module, request, given.format, given.output)
    elif given.plan is not None:
        explain_plan(given.module, given.plan, view, compile_again=not given.no_compile)
    elif given.module is None:
        raise UsageError("Missing argument 'MODULE'. See 'lowtide explain --help'.")
    else:
        _explain_module(given.module, request, view, compile_again=not given.no_compile)
    if given.certificate is not None and given.module is not None:
        _write_certificate(given.module, request, given.certificate)


def _explains_other_format(given: _ExplainArguments, path: str) -> bool:
    """Show the plan of what is no module: a TFLite model, a graph of NNVM. Whether it is one."""
    from lowtide.cli.exit_codes import UsageError
    from lowtide.cli.plan_nnvm import is_nnvm, plan_nnvm
    from lowtide.cli.plan_request import PlanRequest

    if path.endswith(".tflite"):
        from lowtide.cli.plan_micro import explain_model

        if given.is_for_modules:
            raise UsageError(f"{path}: a TFLite model has --limit and --json only")
        explain_model(path, given.limit, json=given.json)
        return True
    if not is_nnvm(path):
        return False
    if given.is_for_modules:
        raise UsageError(f"{path}: a graph of NNVM has --shape, --limit and --json only")
    limit = given.limit or PlanRequest().limit
    plan_nnvm(path, PlanRequest(given.effort, None, given.json, limit))
    return True


def _checked_view(given: _ExplainArguments, request: _Request) -> ExplainView:
    """Return how the plan is shown; raises UsageError for options that exclude each other."""
    from lowtide.cli.exit_codes import UsageError

    if given.batch is not None and not request.changes.any:
        raise UsageError("--batch names the batch for --what-if or --try; give one of them")
    if given.what_if and given.try_change is not None:
        raise UsageError("--what-if lists changes, --try makes one of them; give one of the two")
    if given.plan is not None and request.changes.any:
        raise UsageError(
            "--what-if and --try change the program and plan it anew; leave out --plan, whose "
            "report says what would lower that plan"
        )
    return ExplainView(
        given.json,
        given.limit,
        _one_of("--by", given.by, _VIEWS),
        _one_of("--frames", given.frames, _FRAMES),
        given.html,
    )


def _check_files(given: _ExplainArguments, request: _Request) -> None:
    """Raise UsageError for files that cannot be written of what is asked for."""
    from lowtide.cli.exit_codes import UsageError

    if given.certificate is not None and (given.plan is not None or request.changes.any):
        raise UsageError("--certificate goes without --plan, --what-if and --try")
    if given.certificate is not None and given.module == "-":
        raise UsageError("--certificate reads MODULE twice: give a file, not standard input")
    if given.output is not None and given.format is None:
        raise UsageError("-o is for --format; the report goes to standard output")
    if given.format is not None:
        _check_format(given.format, given.plan, json=given.json)
        if given.html is not None:
            raise UsageError("--format and --html are two forms; give one of them")
    elif given.plan is not None and request.asks_for_a_plan:
        raise UsageError(
            "--stage, --reoptimize, --effort and --deadline are for a plan that is to be made; "
            "leave out --plan"
        )


_VIEWS: Final = ("line", "function", "scope", "op", "cause", "stack")
_FRAMES: Final = ("user", "all")


def _one_of(option: str, name: str, known: Sequence[str]) -> str:
    from lowtide.cli.exit_codes import UsageError
    from lowtide.suggestions import nearest

    if name not in known:
        listed = ", ".join(known)
        raise UsageError(f"{option}: no {name!r}{nearest(name, known)}; there are: {listed}")
    return name


@dataclass(frozen=True, slots=True)
class _Changes:
    """The changes of the program that are asked for: all that pay, or the one that is named."""

    all: bool = False
    name: str | None = None
    batch: str | None = None

    @property
    def any(self) -> bool:
        """Whether there are any."""
        return self.all or self.name is not None


@dataclass(frozen=True, slots=True)
class _Request:
    """How a module is to be planned."""

    stage: str
    effort: Effort
    deadline: float | None
    reoptimize: bool
    changes: _Changes = _Changes()
    target: str = "cpu"
    of_devices: tuple[int | None, bool] = (None, False)
    """How many devices there are, None for what the module says; whether whole arrays are asked."""

    def loaded(self, path: str) -> ModuleInput:
        """Return the module in a file, as one device has it where it has shardings.

        Changes of a program are made in whole arrays, as its source has them.
        """
        from lowtide.cli.modules import load
        from lowtide.cli.one_device import of_one_device

        devices, whole = self.of_devices
        found = load(path, reoptimize=self.reoptimize)
        return of_one_device(found, devices, whole=whole or self.changes.any)

    def check_target(self) -> None:
        """Raise UsageError or TargetError for a target that is not known; say what is modelled."""
        from lowtide.cli import console
        from lowtide.cli.targets import for_processor
        from lowtide.ir.gpu_names import is_gpu_target
        from lowtide.options import Options

        if is_gpu_target(self.target):
            from lowtide.client.gpu import machine_note  # It loads more than most reports need.

            console.note(machine_note(self.target))
        else:
            for_processor(Options(), self.target)

    def options(self, ends: Deadline) -> PlanOptions:
        """Return the options of a plan that ends at a deadline."""
        from lowtide import compiler
        from lowtide.ir.gpu_names import is_gpu_target
        from lowtide.search.effort import SearchOptions

        options = compiler.PlanOptions(self.stage, search=SearchOptions(self.effort, ends))
        if not is_gpu_target(self.target):
            return options
        from lowtide.client.gpu import planned_for_gpu

        return planned_for_gpu(options, self.target)

    @property
    def asks_for_a_plan(self) -> bool:
        """Whether anything but the usual plan is wanted."""
        from lowtide.cli.plan_request import effort_named

        return self != _Request(DEFAULT_STAGE, effort_named("default"), None, False)


def _check_format(name: str, plan: str | None, *, json: bool) -> None:
    from lowtide.cli.exit_codes import UsageError
    from lowtide.cli.explain_formats import FORMATS

    _one_of("--format", name, tuple(FORMATS))
    if plan is not None or json:
        raise UsageError("--format writes a plan of our own; leave out --plan, --json")


def _write_format(path: str | None, request: _Request, name: str, output: Path | None) -> None:
    from lowtide.cli.exit_codes import UsageError
    from lowtide.cli.explain_formats import write_timeline
    from lowtide.cli.progress import progress
    from lowtide.search.interrupts import ending_at

    if path is None:
        raise UsageError("Missing argument 'MODULE'. See 'lowtide explain --help'.")
    found = request.loaded(path)
    with progress(f"planning {found.module.name}") as line, ending_at(request.deadline) as ends:
        options = request.options(ends)
        plan = _plan(found.module, options, request, line)
    write_timeline(plan, name, output)
    if ends.was_interrupted:
        raise KeyboardInterrupt


def _explain_module(
    path: str, request: _Request, view: ExplainView, *, compile_again: bool
) -> None:
    import os

    from lowtide import compiler
    from lowtide.cli import console
    from lowtide.cli.progress import progress
    from lowtide.ir.garbage_collection import never_collected
    from lowtide.options import display_for
    from lowtide.report.text import explain_text
    from lowtide.search.interrupts import ending_at

    found = request.loaded(path)
    is_dump = os.path.isdir(path) and found.module.is_scheduled
    if is_dump:
        from lowtide.frontend.plan_files import plan_beside, reported_bytes

        plan = plan_beside(found.file)
        if plan is not None and not request.asks_for_a_plan:
            console.note(f"taking apart XLA's plan, {plan}")
            take_apart(plan, found.module, view, compile_again=compile_again)
            return
        if plan is None:
            taken = reported_bytes(found.file)
            told = "" if taken is None else f"; XLA's report counts {taken:,} bytes in all"
            console.note(f"XLA's own plan is not in this directory: offsets are lowtide's{told}")
        else:
            console.note("XLA's own plan is left aside: this one is lowtide's, in XLA's order")
    with progress(f"planning {found.module.name}") as line, ending_at(request.deadline) as ends:
        options = request.options(ends)
        if view.html is None and not request.changes.any:
            with never_collected():
                report = compiler.explain(found.module, options)
        else:
            planned = _plan(found.module, options, request, line)
            report = planned.report
            if view.html is not None:
                _write_page(planned, view.html)
    if view.frames == "all":
        report = report.in_all_frames()
    if view.json:
        console.write_json(report.to_json())
    else:
        display = display_for(sys.stdout)
        text = explain_text(
            report, width=display.width, color=display.color, limit=view.limit, by=view.by
        )
        console.write(text)
    report.ladder.check()
    if ends.was_interrupted:
        raise KeyboardInterrupt


def _write_certificate(path: str, request: _Request, file: Path) -> None:
    """Write what shows that no compilation of a module needs less than the bound."""
    from lowtide.cli import console
    from lowtide.cli.exit_codes import UsageError
    from lowtide.cli.progress import progress
    from lowtide.compiler.compilation_bound import certify_compilations
    from lowtide.planning.certificates import certificate_text
    from lowtide.search.deadline import Deadline

    module = request.loaded(path).module
    if module.is_scheduled:
        raise UsageError(f"{path} is scheduled, so its kernels are chosen: give --reoptimize")
    with progress(f"certifying {module.name}"):
        document = certify_compilations(module, request.options(Deadline()))
    content = f"{certificate_text(document)}\n".encode("ascii")
    console.write_file(file, lambda stream: stream.write(content))


def _explain_kernels(
    path: str | None, request: _Request, names: tuple[str, str], *, json: bool
) -> None:
    from lowtide.cli import console
    from lowtide.cli.exit_codes import UsageError
    from lowtide.cli.progress import progress
    from lowtide.compiler.why_not import explain_kernels
    from lowtide.search.interrupts import ending_at

    if path is None:
        raise UsageError("Missing argument 'MODULE'. See 'lowtide explain --help'.")
    found = request.loaded(path)
    with progress(f"fusing {found.module.name}"), ending_at(request.deadline) as ends:
        answer = explain_kernels(found.module, *names, request.options(ends))
    if json:
        console.write_json(answer.to_json())
    else:
        console.write("\n".join(answer.lines()))
    if ends.was_interrupted:
        raise KeyboardInterrupt


def _plan(module: Module, options: PlanOptions, request: _Request, line: Line) -> ModulePlan:
    """The plan of a module, with the changes that are asked for."""
    from lowtide import compiler
    from lowtide.whatif.search import after_change, what_if

    if request.changes.name is not None:
        return after_change(module, request.changes.name, options, request.changes.batch)
    if request.changes.all:
        return what_if(module, options, line.show_part, request.changes.batch)
    return compiler.plan(module, options, with_compilation_bound=True)


def _write_page(plan: ModulePlan, path: Path) -> None:
    """Draw a plan on a page."""
    from lowtide.compiler.picture import picture_of
    from lowtide.report.text import explain_text

    above = explain_text(replace(plan.report, what_if=None))  # Changes are a table of the page.
    write_pictures([picture_of(plan)], plan.report.module, above, path)
