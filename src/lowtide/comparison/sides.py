"""Sides of a diff from what users have: modules, plans, dump directories, JSON, reports."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from lowtide import compiler
from lowtide.autopsy.autopsy import report_on_plan
from lowtide.autopsy.report import PlanReport
from lowtide.frontend.files import STDIN, read_input
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.frontend.json_document import load_json
from lowtide.frontend.plan_files import plan_beside, plan_from, read_plan_bytes, text_in
from lowtide.ir import InputError, Module
from lowtide.options import Options
from lowtide.report.diff import MemoryDiff, diff_of
from lowtide.report.memory import MemoryReport
from lowtide.report.side import DiffSide, side_of_json, side_of_report
from lowtide.verifier import verify


def diff(before: Any, after: Any, options: Options | None = None) -> MemoryDiff:
    """Return what the memory peak of a program differs in from that of another one.

    Each is the path of a MODULE, of a dump directory, of a plan or of what `explain --json` wrote,
    or a Module, or a report that `explain` returned. Modules are planned with `options`; a dump
    directory with XLA's plan in it counts with that. `str` of the result is the screen of
    `lowtide diff`. Raises what reading these raises, and TypeError for what is none of them.
    """
    chosen = compiler.PlanOptions.of(options or Options())
    return diff_of(side_of(before, "before", chosen), side_of(after, "after", chosen))


def side_of(
    source: Any, label: str, options: compiler.PlanOptions = compiler.DEFAULT_PLAN
) -> DiffSide:
    """Return the side for anything that `diff` takes; `label` names what has no path."""
    if isinstance(source, str | os.PathLike):
        return _side_in(os.fspath(source), options)
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


def _planned(module: Module, label: str, options: compiler.PlanOptions) -> DiffSide:
    verify(module)
    plan = compiler.plan(module, options)
    return side_of_report(plan.report, label, plan.module)


def _side_in(path: str, options: compiler.PlanOptions) -> DiffSide:
    if os.path.isdir(path):
        found = read_input(path)
        beside = plan_beside(found.file) if found.module.is_scheduled else None
        if beside is None:
            return _planned(found.module, path, options)
        return _of_plan(read_plan_bytes(beside), beside, found.module)
    if path != STDIN and os.path.isfile(path):
        data = read_plan_bytes(path)
        text = text_in(data)
        if text is not None and text.lstrip().startswith("{"):
            return _of_json(load_json(text, "a report", path), path)
        if path.endswith((".pb", ".pb.gz", ".pb.xz")) and plan_beside(path) is not None:
            return _of_plan(data, path, None)
    return _planned(read_input(path).module, path, options)


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
