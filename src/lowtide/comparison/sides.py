"""Sides of a diff from what users have: modules, plans, dump directories, JSON, reports."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from lowtide import compiler
from lowtide.autopsy.autopsy import drawn_plan, report_on_plan
from lowtide.autopsy.report import PlanReport
from lowtide.compiler.picture import picture_of
from lowtide.frontend.files import STDIN, is_onnx, read_input
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.frontend.json_document import load_json
from lowtide.frontend.plan_files import plan_beside, plan_from, read_plan_bytes, text_in
from lowtide.ir import InputError, Module
from lowtide.options import Options
from lowtide.records import dataclass
from lowtide.report.diff import MemoryDiff, diff_of
from lowtide.report.memory import MemoryReport
from lowtide.report.plan_page import PlanPicture
from lowtide.report.side import DiffSide, side_of_json, side_of_report
from lowtide.verifier import verify


@dataclass(frozen=True, slots=True)
class FreeSizes:
    """Sizes for ONNX models: of dimensions by their names, and of whole inputs."""

    sizes: Mapping[str, int] = field(default_factory=dict)
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)


NO_SIZES: Final = FreeSizes()


def diff(
    before: Any,
    after: Any,
    options: Options | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> MemoryDiff:
    """Return what the memory peak of a program differs in from that of another one.

    Each is the path of a MODULE, of a dump directory, of a plan or of what `explain --json` wrote,
    or a Module, or a report that `explain` returned. Modules are planned with `options`; a dump
    directory with XLA's plan in it counts with that. `sizes` of named dimensions and `shapes` of
    inputs are for ONNX models. `str` of the result is the screen of
    `lowtide diff`. Raises what reading these raises, and TypeError for what is none of them.
    """
    chosen = compiler.PlanOptions.of(options or Options())
    free = FreeSizes(sizes or {}, shapes or {})
    sides = [
        side_of(source, label, chosen, free)
        for source, label in ((before, "before"), (after, "after"))
    ]
    return diff_of(*sides)


def side_of(
    source: Any,
    label: str,
    options: compiler.PlanOptions = compiler.DEFAULT_PLAN,
    free: FreeSizes = NO_SIZES,
) -> DiffSide:
    """Return the side for anything that `diff` takes; `label` names what has no path."""
    if isinstance(source, str | os.PathLike):
        return _side_in(os.fspath(source), options, free)
    if isinstance(source, Module):
        return _planned(source, label, options)
    if isinstance(source, PlanReport):
        return side_of_report(source.memory, label)
    if isinstance(source, MemoryReport):
        return side_of_report(source, label)
    if isinstance(source, Mapping):
        return side_of_json(source, label)
    raise TypeError(
        f"expected a path, a Module or a report of lowtide.explain; found {type(source).__name__}"
    )


def drawn_side_of(
    path: str, options: compiler.PlanOptions = compiler.DEFAULT_PLAN, free: FreeSizes = NO_SIZES
) -> tuple[DiffSide, PlanPicture]:
    """Return the side for a path that `diff` takes, and the picture of its plan.

    Raises InputError for what `explain --json` wrote, which has no plan.
    """
    module, plan, data = _found(path, free)
    if plan is not None:
        file = plan_from(data, plan, module)
        verify(file.module)
        report, picture = drawn_plan(file.module, file.assignment, file.module.name)
        return side_of_report(report, plan, file.module), picture
    if module is None:
        raise InputError("holds no plan that could be drawn; give the module", file=path)
    verify(module)
    made = compiler.plan(module, options)
    return side_of_report(made.report, path, made.module), picture_of(made)


def _planned(module: Module, label: str, options: compiler.PlanOptions) -> DiffSide:
    verify(module)
    plan = compiler.plan(module, options)
    return side_of_report(plan.report, label, plan.module)


def _side_in(path: str, options: compiler.PlanOptions, free: FreeSizes) -> DiffSide:
    module, plan, data = _found(path, free)
    if plan is not None:
        return _of_plan(data, plan, module)
    if module is None:
        text = text_in(data)
        assert text is not None
        return _of_json(load_json(text, "a report", path), path)
    return _planned(module, path, options)


def _found(path: str, free: FreeSizes) -> tuple[Module | None, str | None, bytes]:
    """The module at a path, the path of a plan of XLA's, and the bytes of that or of a report.

    Where there is neither module nor plan, it is a report.
    """
    if os.path.isdir(path):
        found = read_input(path)
        beside = plan_beside(found.file) if found.module.is_scheduled else None
        return found.module, beside, b"" if beside is None else read_plan_bytes(beside)
    if path != STDIN and os.path.isfile(path):
        data = read_plan_bytes(path)
        text = text_in(data)
        if text is not None and text.lstrip().startswith("{"):
            return None, None, data
        if path.endswith((".pb", ".pb.gz", ".pb.xz")) and plan_beside(path) is not None:
            return None, path, data
    own = free if is_onnx(path) else NO_SIZES
    return read_input(path, sizes=own.sizes, shapes=own.shapes).module, None, b""


def _of_json(document: Any, path: str) -> DiffSide:
    if not isinstance(document, dict):
        raise InputError("expected an object", file=path)
    text = document.get("scheduled_module")
    module = parse_hlo(text, f"{path}: scheduled_module") if isinstance(text, str) else None
    return side_of_json(document, path, module)


def _of_plan(data: bytes, path: str, module: Module | None) -> DiffSide:
    """The side of a plan that another compiler made."""
    found = plan_from(data, path, module)
    verify(found.module)
    report = report_on_plan(found.module, found.assignment)
    return side_of_report(report, path, found.module)
