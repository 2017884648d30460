"""`lowtide reduce`: a module with small arrays, or the test of a fault."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lowtide.cli.arguments import ModuleArgument
from lowtide.cli.shapes import ShapesOption, SizesOption


def reduce(
    module: ModuleArgument,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write there, not to the screen."),
    ] = None,
    failing: Annotated[
        str | None,
        typer.Option(
            metavar="PASSES",
            help="Passes as `a,b{k=v}`, or a stage, that are wrong on the module with small "
            "arrays: print a test with the few lines on which they are.",
        ),
    ] = None,
    sizes: SizesOption = None,
    shapes: ShapesOption = None,
) -> None:
    """Make the arrays of a module small or print the test of a fault.

    Its structure stays: the evaluator can run it then. With --failing exit status 1 says that the
    passes do nothing wrong.
    """
    from lowtide.cli import console
    from lowtide.cli.modules import load
    from lowtide.cli.progress import progress
    from lowtide.ir.printer import COMPLETE, to_text
    from lowtide.reduce.minimize import failing_test
    from lowtide.reduce.shrink import shrink

    console.check_outputs(output)
    found = load(module).module
    with progress(f"shrinking {found.name}"):
        small = shrink(found)
        text = to_text(small, COMPLETE) if failing is None else failing_test(small, failing)
    if output is None:
        console.write_exact(text.removesuffix("\n"))
    else:
        console.write_file(output, lambda stream: stream.write(text.encode()))
