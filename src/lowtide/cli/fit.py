"""`lowtide fit`: the largest size of a dimension at which a program fits."""

from __future__ import annotations

import sys
from typing import Annotated

from lowtide.cli.arguments import (
    DeadlineOption,
    EffortOption,
    JsonOption,
    ModuleArgument,
    ReoptimizeOption,
    StageOption,
    option,
    size_in_bytes,
)
from lowtide.options import DEFAULT_STAGE


def fit(
    module: ModuleArgument,
    dim: Annotated[
        str,
        option(
            "NAME=ARGUMENT:AXIS,...",
            "The dimension, by one argument that has it or more; what grows with it is found.",
        ),
    ],
    limit: Annotated[
        int,
        option(
            "SIZE", "Most memory that one call may take, arguments and all.", parser=size_in_bytes
        ),
    ],
    json: JsonOption = False,
    stage: StageOption = DEFAULT_STAGE,
    reoptimize: ReoptimizeOption = False,
    effort: EffortOption = "default",
    deadline: DeadlineOption = None,
) -> None:
    """Find the largest size that fits, and prove it.

    The peak is shown as a function of the size. Both sizes are planned: the first has a plan that
    fits; of the next one, no order fits, or else it is said that only the best plan known does not.
    """
    from lowtide.cli import console
    from lowtide.cli.modules import load
    from lowtide.cli.plan_request import effort_named
    from lowtide.cli.progress import progress
    from lowtide.compiler import PlanOptions
    from lowtide.fitting.dimensions import NamedDimension
    from lowtide.fitting.fit import fit_module
    from lowtide.options import display_for
    from lowtide.report.fit import fit_lines
    from lowtide.search.effort import SearchOptions
    from lowtide.search.interrupts import ending_at

    named = NamedDimension.parse(dim)
    chosen = effort_named(effort)
    found = load(module, reoptimize=reoptimize).module
    with progress(f"fitting {found.name}") as line, ending_at(deadline) as ends:
        options = PlanOptions(stage, search=SearchOptions(chosen, ends))
        report = fit_module(found, named, limit, options, line.show_part)
    if json:
        console.write_json(report.to_json())
    else:
        display = display_for(sys.stdout)
        console.write("\n".join(fit_lines(report, display.width, color=display.color)))
