"""The functions of the public interface that span several parts of lowtide."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Final, overload

from lowtide.ir import Module
from lowtide.ir.garbage_collection import without_collection
from lowtide.ir.gpu_names import is_gpu_target
from lowtide.ir.traversal import told_left_out, values_left_out
from lowtide.options import Options, options_with
from lowtide.records import dataclass
from lowtide.verifier import verify

if TYPE_CHECKING:
    from lowtide import compiler
    from lowtide.autopsy.report import PlanReport
    from lowtide.client.executable import Executable
    from lowtide.client.gpu import DeviceExecutable, DevicesExecutable
    from lowtide.report.fit import FitReport
    from lowtide.report.memory import MemoryReport
    from lowtide.report.shardings import ShardingReport
    from lowtide.sharding_search.mesh import SearchMesh


@overload
def compile(
    source: Module | str | os.PathLike[str],
    memory: int | str | None = None,
    options: Options | None = None,
    progress: Callable[[str], None] | None = None,
    *,
    target: str,
    **given: Any,
) -> Executable | DeviceExecutable | DevicesExecutable: ...


@overload
def compile(
    source: Module | str | os.PathLike[str],
    memory: int | str | None = None,
    options: Options | None = None,
    progress: Callable[[str], None] | None = None,
    **given: Any,
) -> Executable: ...


@without_collection()
def compile(
    source: Module | str | os.PathLike[str],
    memory: int | str | None = None,
    options: Options | None = None,
    progress: Callable[[str], None] | None = None,
    **given: Any,
) -> Executable | DeviceExecutable | DevicesExecutable:
    """Return a module, given itself or as the path of any MODULE file, as native code.

    `memory`, in bytes or as text like "512MiB" or "80%" (of what it needs without), is the most
    that one call may need beyond its arguments: parts of the module run again to fit. Plans for
    that are sought for a minute, or until the `deadline` of the options; `progress` is told in
    words what is tried and found. `given` are fields of `Options`, and take the place of what
    `options` has. One with shardings is partitioned: the program takes whole arrays, and runs on
    devices that are threads. With a `target` of `ir/gpu_names.py` the program is one of that
    device, or of one that is emulated. Warns where the text of a module left out values.

    Raises InputError for a file that cannot be read, InvalidModuleError for a module that breaks
    the rules of HLO, UnsupportedOpError for an operation without native code (`evaluate` runs it),
    OverMemoryError where no plan is known to fit `memory`, ValueError for what no option can be,
    and TypeError for a source or an option that there is not.
    """
    from lowtide.client.executable import compile_module

    named = given if memory is None else {**given, "memory": memory}
    chosen = options_with(options, named, ("options", "progress"))
    if not isinstance(source, Module | str | os.PathLike):
        raise TypeError(
            f"expected a Module or a path, found {type(source).__name__}; functions are compiled "
            "by lowtide.jit"
        )
    module = _module_in(source)
    verify(module)
    if left_out := values_left_out(module):
        warnings.warn(told_left_out(left_out), RuntimeWarning, stacklevel=3)
    if is_gpu_target(chosen.target):
        from lowtide.client.gpu import compile_for_device

        return compile_for_device(module, chosen, progress)
    return compile_module(module, chosen, tell=progress)


@overload
def explain(
    source: Any, *specs: Any, devices: int, options: Options | None = None, **keywords: Any
) -> ShardingReport: ...


@overload
def explain(
    source: Any,
    *specs: Any,
    mesh: str | Mapping[str, int],
    options: Options | None = None,
    **keywords: Any,
) -> ShardingReport: ...


@overload
def explain(
    source: Module | str | os.PathLike[str],
    options: Options | None = None,
    *,
    what_if: bool | str = False,
    batch_axis: str | None = None,
    whole: bool = False,
    **given: Any,
) -> MemoryReport: ...


@overload
def explain(
    source: Callable[..., Any],
    *specs: Any,
    options: Options | None = None,
    what_if: bool | str = False,
    batch_axis: str | None = None,
    **keywords: Any,
) -> MemoryReport: ...


@overload
def explain(source: Any, options: Options | None = None, *, lowered: Any = None) -> PlanReport: ...


def explain(
    source: Any,
    *specs: Any,
    options: Options | None = None,
    lowered: Any = None,
    what_if: bool | str = False,
    batch_axis: str | None = None,
    devices: int | None = None,
    mesh: str | Mapping[str, int] | None = None,
    whole: bool = False,
    **keywords: Any,
) -> MemoryReport | PlanReport | ShardingReport:
    """Return the memory report of a module, given itself or as the path of any MODULE file.

    Of a function for JAX it is the report of the program for `specs` and `keywords`: arguments, or
    `jax.ShapeDtypeStruct`s in their place. What `lowtide.jit` or `jax.jit` returned is taken with
    its static and donated arguments.

    A keyword that names an option of `Options` and no parameter of the function is that option:
    with `memory`, in bytes or as text like "512MiB" or "80%", the report is on the plan within that
    budget, as it is of what `jit` or `Options` limit so. `options` has the others.

    Of a `jax.stages.Compiled` it is the report on what XLA planned, with causes and remedies. These
    are compiled to see what they do: from `lowered`, the `jax.stages.Lowered` that it was made
    from, or else from a program rebuilt from the optimized module. A `Lowered` is compiled first.
    Where it is a program of lowtide's, compiled for the platform of that name, the report is that
    of the plan which it runs in.

    With `what_if`, changes of the program are planned too, and those that pay are the report's
    `what_if`; the name of one of them, such as "donate:params", asks for the report after it. Where
    the program does not tell its batch, `batch_axis` names it, as in "images:0".

    Of a module with shardings the report is on the program of one device, with `whole` on arrays as
    written. With `devices`, a number, or `mesh`, as in "4x2" or {"data": 4, "model": 2}, divisions
    of the arguments are searched, and what comes back is a `ShardingReport`: the quickest simulated
    steps of which a device needs at most `memory`, arguments and all.
    Ctrl-C ends a search for changes, divisions or a plan within `memory` with the best so far.

    `str` of the report is the screen of `lowtide explain`, `.to_json()` the schema
    "lowtide.memory/1". Raises InputError for a file that cannot be read, InvalidModuleError for a
    module that breaks the rules of HLO, ValueError for an unknown effort, TypeError for what is
    none of these.
    """
    if devices is not None or mesh is not None:
        if what_if or batch_axis or whole or lowered is not None:
            raise TypeError("devices and mesh ask for divisions of a program; leave out the others")
        return _explain_divisions(source, specs, options, keywords, _search_mesh(devices, mesh))
    if isinstance(source, Module | str | os.PathLike):
        module = _module_in(source)
        chosen = _options_of_module(specs, options, keywords)
        return _explain_module(module, chosen, _Changes(what_if, batch_axis), whole=whole)
    if (stage := _stage_of(source)) is not None:
        _only_planned(specs, options, keywords)
        return _explain_stage(stage, lowered, is_changed=bool(what_if))
    if callable(source):
        options, keywords = _split_keywords(source, options, keywords)
        changes = _Changes(what_if, batch_axis)
        return _explain_function(source, specs, keywords, options, changes, whole=whole)
    expected = "a path, a Module, a function, or a compiled or lowered JAX program"
    raise TypeError(f"expected {expected}; found {type(source).__name__}")


def _stage_of(source: Any) -> Any:
    """Return a compiled or lowered program of JAX's, also one that a library wraps, or None."""
    from lowtide.autopsy import jax_compiled

    found = jax_compiled.program_of_jax(source)
    is_one = jax_compiled.is_compiled(found) or jax_compiled.is_lowered(found)
    return found if is_one else None


def _explain_stage(source: Any, lowered: Any, *, is_changed: bool) -> MemoryReport | PlanReport:
    """Return the report on a compiled or lowered program of JAX's."""
    from lowtide.autopsy import jax_compiled

    if is_changed:
        raise TypeError("what_if changes a module or a function; of a compiled program give these")
    if not jax_compiled.is_compiled(source):
        return jax_compiled.explain_lowered(source)
    if jax_compiled.platform_of(source) != "lowtide":
        return jax_compiled.explain_compiled(source, lowered)
    from lowtide.client.executable.anew import compile_anew

    return compile_anew(jax_compiled.own_module_of(source)).plan.report


def fit(
    source: Any,
    *specs: Any,
    dim: str | Mapping[str, str],
    limit: int | str,
    options: Options | None = None,
    **keywords: Any,
) -> FitReport:
    """Return the largest size of a dimension at which one call takes at most `limit` bytes.

    `source` is a Module, the path of a MODULE file, or a function for JAX with `specs` and
    `keywords`, as `explain` takes them. `dim` names the dimension by axes of arguments, as in
    "B=images:0,labels:0" or {"B": "images:0,labels:0"}. Of a module one of them is enough: what
    grows with it is found. A function is traced anew at each size, so all have to be named. Of a
    `jax.export.Exported` with a symbolic size, `dim` is the name of that: dim="B".

    `limit`, in bytes or as text like "16GiB", counts all memory of a call, arguments and results
    too. Raises LowtideError for a dimension that there is not, and for a program that holds for the
    size it was made for only; otherwise what `explain` raises.
    """
    from lowtide import compiler
    from lowtide.fitting.dimensions import NamedDimension
    from lowtide.fitting.fit import fit_module, fit_program
    from lowtide.ir.sizes import bytes_of

    plan_options = compiler.PlanOptions.of(options or Options())
    if isinstance(dim, str) and dim.isidentifier() and not (specs or keywords):
        from lowtide.client.exported_program import exported_program, is_exported

        if is_exported(source):
            program = exported_program(_module_of, source, dim)
            return fit_program(program, bytes_of(limit), plan_options)
    if not isinstance(dim, str) and len(dim) != 1:
        raise ValueError(f"dim names one dimension at a time; found {len(dim)}")
    named = (
        NamedDimension.parse(dim)
        if isinstance(dim, str)
        else NamedDimension.of(*next(iter(dim.items())))
    )
    if isinstance(source, Module | str | os.PathLike):
        if specs or keywords:
            raise TypeError("arguments are only for functions: a program has its own")
        module = _module_in(source)
        verify(module)
        return fit_module(module, named, bytes_of(limit), plan_options)
    if not callable(source):
        raise TypeError(f"expected a path, a Module or a function, found {type(source).__name__}")
    from lowtide.client.sized_function import sized_function

    def lower(*arguments: Any, **given: Any) -> Module:
        return _module_of(source, arguments, given)

    program = sized_function(lower, source, specs, keywords, named)
    return fit_program(program, bytes_of(limit), plan_options)


def _module_in(source: Module | str | os.PathLike[str]) -> Module:
    """A module that is given, or the one in a file."""
    if isinstance(source, Module):
        return source
    from lowtide.frontend.files import read

    return read(source)


@dataclass(frozen=True, slots=True)
class _Changes:
    """The changes that are asked for, all or the one of a name, and the axis of the batch."""

    which: bool | str = False
    batch_axis: str | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a batch that nothing asks for."""
        if self.batch_axis is not None and not self.which:
            raise ValueError("batch_axis is for what_if")


_NO_CHANGES: Final = _Changes()


def _explain_module(
    module: Module, options: Options | None, changes: _Changes = _NO_CHANGES, *, whole: bool = False
) -> MemoryReport:
    from lowtide import compiler
    from lowtide.ir.partitioning import is_divided
    from lowtide.search.interrupts import ending_call_at

    verify(module)
    if is_divided(module) and not (whole or changes.which):
        from lowtide.spmd.one_device import one_device

        module = one_device(module)
    chosen = options or Options()
    plan_options = compiler.PlanOptions.of(chosen)
    if not changes.which and chosen.memory is None:
        return compiler.explain(module, plan_options)
    with ending_call_at(chosen.search_seconds) as deadline:
        search = replace(plan_options.search, deadline=deadline)
        plan_options = replace(plan_options, search=search)
        if changes.which:
            return _explain_changes(module, chosen, plan_options, changes)
        from lowtide.budgeting.planner import plan_within

        return plan_within(module, chosen.memory, plan_options).report


def _options_of_module(
    specs: tuple[Any, ...], options: Options | None, keywords: dict[str, Any]
) -> Options | None:
    """The options, with those among the keywords, where a module takes nothing else."""
    own, rest = _split_keywords(None, None, keywords)
    base = _only_options(specs, options, rest)
    return base if own is None else _split_keywords(None, base, keywords)[0]


def _search_mesh(devices: int | None, mesh: str | Mapping[str, int] | None) -> SearchMesh:
    """The mesh that is asked for; raises InputError for what is none, ValueError for two."""
    from lowtide.sharding_search.mesh import mesh_of_devices, mesh_of_text

    if mesh is None:
        return mesh_of_devices(devices or 0)
    given = mesh if isinstance(mesh, str) else ",".join([f"{k}={v}" for k, v in mesh.items()])
    found = mesh_of_text(given)
    if devices not in (None, found.count):
        raise ValueError(f"mesh has {found.count} devices, devices says {devices}")
    return found


def _explain_divisions(
    source: Any,
    specs: tuple[Any, ...],
    options: Options | None,
    keywords: dict[str, Any],
    mesh: SearchMesh,
) -> ShardingReport:
    from lowtide.client.executable.anew import options_of_each_device
    from lowtide.ir.sizes import bytes_of
    from lowtide.search.interrupts import ending_call_at
    from lowtide.sharding_search.search import search_shardings

    ranks: Mapping[str, int] = {}
    if isinstance(source, Module | str | os.PathLike):
        module = _module_in(source)
        options = _options_of_module(specs, options, keywords)
    elif callable(source):
        from lowtide.client.library_jit import ranks_of_keys

        options, keywords = _split_keywords(source, options, keywords)
        module = _module_of(source, specs, keywords)
        ranks = ranks_of_keys(source, specs, keywords)
    else:
        raise TypeError(f"expected a path, a Module or a function, found {type(source).__name__}")
    verify(module)
    chosen = options or Options()
    memory = None if chosen.memory is None else bytes_of(str(chosen.memory))
    wanted = options_of_each_device(chosen)
    with ending_call_at(chosen.deadline) as deadline:
        return search_shardings(
            module, mesh, memory, options=wanted, ranks=ranks, deadline=deadline
        )


def _explain_changes(
    module: Module, options: Options, plan_options: compiler.PlanOptions, changes: _Changes
) -> MemoryReport:
    from lowtide.whatif.search import after_change, what_if

    if options.memory is not None:
        raise ValueError("what_if is for the plan without a budget; leave out memory")
    if isinstance(changes.which, str):
        return after_change(module, changes.which, plan_options, changes.batch_axis).report
    return what_if(module, plan_options, batch_axis=changes.batch_axis).report


def _split_keywords(
    function: Any, options: Options | None, keywords: dict[str, Any]
) -> tuple[Options | None, dict[str, Any]]:
    """The options with those that keywords name, and the keywords that the function has itself.

    Raises TypeError where only `**` of the function could take a name that is an option too.
    """
    known = {x.name for x in fields(Options)}
    asked = {name for name in keywords if name in known}
    own: set[str] = set()
    if asked and function is not None:
        parameters = _parameters(function)
        own = {x.name for x in parameters if x.kind is not Parameter.VAR_KEYWORD}
        if asked - own and any(x.kind is Parameter.VAR_KEYWORD for x in parameters):
            name = min(asked - own)
            raise TypeError(
                f"{name} may be an option of lowtide or one of the function's keywords; give "
                f"options=lowtide.Options({name}=...), or a function that takes {name} by name"
            )
    chosen = {name: value for name, value in keywords.items() if name in asked - own}
    rest = {name: value for name, value in keywords.items() if name not in chosen}
    return (options_with(options, chosen) if chosen else options), rest


def _parameters(function: Any) -> tuple[Parameter, ...]:
    """The parameters of a function, none where it does not tell."""
    try:
        return tuple(signature(function).parameters.values())
    except (TypeError, ValueError):
        return ()


def _only_planned(
    specs: tuple[Any, ...], options: Options | None, keywords: dict[str, Any]
) -> None:
    """Refuse what a program of JAX's, which is planned, has no use for."""
    if asked := ", ".join(keywords):
        raise TypeError(f"{asked}: for modules and functions; a program of JAX's has a plan")
    _only_options(specs, options, keywords)


def _only_options(
    specs: tuple[Any, ...], options: Options | None, keywords: dict[str, Any]
) -> Options | None:
    """The options of what has no arguments; they may be the second positional argument."""
    positional, rest = (specs[0], specs[1:]) if specs else (None, ())
    if options is None and (positional is None or isinstance(positional, Options)):
        options, positional = positional, None
    if positional is not None or rest or keywords:
        raise TypeError("arguments are only for functions: a program has its own")
    return options


def _explain_function(
    function: Any,
    specs: tuple[Any, ...],
    keywords: dict[str, Any],
    options: Options | None,
    changes: _Changes,
    *,
    whole: bool,
) -> MemoryReport:
    from lowtide.client.jit import Jitted

    if isinstance(function, Jitted) and options is None and not (changes.which or whole):
        report: MemoryReport = function.explain(*specs, **keywords)
        return report
    return _explain_module(_module_of(function, specs, keywords), options, changes, whole=whole)


def _module_of(function: Any, specs: tuple[Any, ...], keywords: dict[str, Any]) -> Module:
    """The module of a function for JAX, perhaps jitted, for some arguments."""
    from lowtide.autopsy.jax_compiled import program_of_jax
    from lowtide.client.jit import Jitted, jit
    from lowtide.client.library_jit import module_of_jitted

    if isinstance(function, Jitted) or not hasattr(function, "lower"):
        jitted = function if isinstance(function, Jitted) else jit(function)
        return jitted.lower(*specs, **keywords).module
    return module_of_jitted(function, specs, keywords, program_of_jax)
