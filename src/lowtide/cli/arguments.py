"""The argument and the options that several commands share, and commands of a record of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING
from functools import wraps
from inspect import Parameter, Signature
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, cast, get_type_hints

import typer

from lowtide.options import MOST_THREADS

if TYPE_CHECKING:
    from lowtide.ir.sizes import Budget as Budget
else:
    Budget = object  # Typer takes no union of types.


def option(metavar: str | None, meaning: str, *names: str, **rest: Any) -> Any:
    """Return an option whose default value is not shown, as its meaning says what is usual.

    `metavar` stands for its value, None for a flag; without `names` it is called as its parameter.
    """
    return typer.Option(*names, metavar=metavar, help=meaning, show_default=False, **rest)


ModuleArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODULE",
        help="HLO text or protobuf, StableHLO, .onnx, dump folder, or -.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Write JSON for programs.")]
StageOption = Annotated[str, option("NAME", "input, simplified, layout, fused, scheduled (usual).")]
EffortOption = Annotated[str, option("NAME", "How far to search: fast, default, proof.")]


def _finite(seconds: float | None) -> float | None:
    if seconds is not None and not isfinite(seconds):
        raise typer.BadParameter(f"{seconds} is no number of seconds")
    return seconds


DeadlineOption = Annotated[
    float | None,
    typer.Option(min=0, metavar="S", callback=_finite, help="Seconds to search for a better plan."),
]
ReoptimizeOption = Annotated[
    bool, typer.Option("--reoptimize", help="Also a module that is scheduled.")
]


def size_in_bytes(text: str) -> int:
    """Return the whole bytes of a size such as `512MiB`, `1.5GB` or `123`; a MB are 10^6 bytes.

    Raises typer.BadParameter for what is none, and for 2^62 bytes or more.
    """
    from lowtide.ir.sizes import bytes_of

    try:
        return bytes_of(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def budget_given(text: str) -> Budget:
    """Return a size in bytes, or a share of what the plan without a budget needs, such as `80%`.

    Raises typer.BadParameter for what is neither.
    """
    from lowtide.ir.sizes import budget_of

    try:
        return budget_of(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


MemoryOption = Annotated[
    Budget | None,
    typer.Option(
        metavar="SIZE", parser=budget_given, help="Most beyond arguments, or 80% of the plain plan."
    ),
]
TargetOption = Annotated[str, option("NAME", "cpu (default), cpu:avx2, cuda, cuda:sm_90, ...")]
DumpPassOption = Annotated[
    str,
    typer.Option(
        metavar="RE",
        help="With --dump-to: also the module after each pass whose name this regular "
        "expression matches, where it changed something.",
    ),
]
ThreadsOption = Annotated[
    int | None,
    typer.Option(
        min=1, max=MOST_THREADS, metavar="N", help="Threads of native code; else one per core."
    ),
]


Given = TypeVar("Given")

EMPTY: Final = Parameter.empty


def taking(record: type[Given]) -> Callable[[Callable[[Given], None]], Callable[..., None]]:
    """Return a decorator of a function of one record, which makes a command of it.

    Each field is annotated as a parameter of a command is, in the order of the help.
    """
    hints = get_type_hints(record, include_extras=True)
    known = cast("type[Any]", record).__dataclass_fields__
    defaults = {name: x.default for name, x in known.items() if x.default is not MISSING}

    def decorated(run: Callable[[Given], None]) -> Callable[..., None]:
        @wraps(run)
        def command(**values: Any) -> None:
            run(record(**values))

        parameters = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=defaults.get(name, EMPTY), annotation=x)
            for name, x in hints.items()
        ]
        command.__dict__["__signature__"] = Signature(parameters)
        command.__annotations__ = hints
        return command

    return decorated
