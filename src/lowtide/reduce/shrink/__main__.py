"""`python -m lowtide.reduce.shrink FILE`: a module with small arrays, or the test of a fault."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from lowtide.cli.console import report_error, write_file
from lowtide.cli.exit_codes import error_text, exit_code
from lowtide.compiler.stages import STAGES, pipeline
from lowtide.frontend.files import read
from lowtide.ir import LowtideError, Module
from lowtide.ir.printer import COMPLETE, to_text
from lowtide.passes import Step
from lowtide.passes.registry import parse_passes
from lowtide.reduce.minimize import as_test, minimize
from lowtide.reduce.shrink import shrink
from lowtide.reduce.shrink.faults import Fault, find_fault, first_fault, shows


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status, as `lowtide` has it: 1 where there is no fault."""
    parser = ArgumentParser(prog="python -m lowtide.reduce.shrink", description=__doc__)
    parser.add_argument("file", help="the module, as lowtide reads it")
    parser.add_argument("-o", dest="output", type=Path, help="write there, not to standard output")
    parser.add_argument(
        "--failing",
        metavar="PASSES",
        help="passes as `a,b{k=v}`, or a stage, that are wrong on the shrunk module: print a test "
        "with the few lines on which they are",
    )
    options = parser.parse_args(arguments)
    try:
        _shrink(options.file, options.failing, options.output)
    except (LowtideError, OSError, KeyboardInterrupt) as error:
        if text := error_text(error):
            report_error(text)
        return exit_code(error)
    return 0


def _shrink(file: str, failing: str | None, output: Path | None) -> None:
    small = shrink(read(file))
    text = to_text(small, COMPLETE) if failing is None else failing_test(small, failing)
    if output is None:
        print(text, end="")
    else:
        write_file(output, lambda stream: stream.write(text.encode()))


def failing_test(module: Module, passes: str) -> str:
    """Return the source of a test with the least module on which passes are wrong as on this one.

    `passes` is a list of passes or a stage, of which only the first wrong one stays, if it is so by
    itself. Raises LowtideError where they do nothing wrong.
    """
    steps = steps_of(passes)
    fault, words = find_fault(module, steps)
    if fault is Fault.NONE:
        raise LowtideError(f"{module.name}: {fault}")
    print(f"{fault}: {words}", file=sys.stderr)
    before, alone = first_fault(module, steps, fault)
    least = minimize(before, lambda x: shows(x, alone, fault))
    for text in (",".join(map(str, alone)), passes):
        if before is not module and shows(least, steps_of(text), fault):
            return as_test(least, fault.name.lower(), text)
    least = minimize(module, lambda x: shows(x, steps, fault))
    return as_test(least, fault.name.lower(), passes)


def steps_of(passes: str) -> Sequence[Step]:
    """Return the steps of a stage, or of a list of passes; raises LowtideError for neither."""
    return pipeline(passes) if passes in STAGES else parse_passes(passes)


if __name__ == "__main__":
    sys.exit(main())
