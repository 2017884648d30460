"""The argument and the options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

ModuleArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODULE",
        help="HLO text (.hlo, .txt), protobuf (.pb), either with .xz or .gz, an XLA dump "
        "directory, or - for standard input.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Write JSON for programs.")]
StageOption = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="How far to optimize first; `input`, as written, is the only stage so far.",
    ),
]
