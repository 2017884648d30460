"""Options of `lowtide plan` that hold whatever is planned: how long, and where the plan goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lowtide.records import dataclass

if TYPE_CHECKING:
    from lowtide.planning import Effort, SearchOptions
    from lowtide.report.packing_picture import PackingPicture
    from lowtide.search.deadline import Deadline


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """How long to search, and where to write a plan: of a module, a packing problem, a graph."""

    effort: str = "default"
    deadline: float | None = None
    json: bool = False
    limit: int = 12
    output: Path | None = None
    svg: Path | None = None
    html: Path | None = None

    def check(self) -> None:
        """Raise UsageError for an unknown effort, OSError for outputs that cannot be written."""
        from lowtide.cli import console

        effort_named(self.effort)
        console.check_outputs(self.output, self.svg, self.html)

    def without_html(self) -> PlanRequest:
        """The same without a page."""
        return replace(self, html=None)

    def search(self, begun: Deadline | None = None, capacity: int | None = None) -> SearchOptions:
        """The limits of a search, which begins now or has `begun`.

        Raises UsageError for an unknown effort.
        """
        from lowtide.planning import SearchOptions

        return SearchOptions(effort_named(self.effort), begun or self.deadline, capacity)


def effort_named(name: str) -> Effort:
    """Return an effort by its name; raises UsageError for an unknown one."""
    from lowtide.cli.exit_codes import UsageError
    from lowtide.search import effort as search

    try:
        return search.effort_named(name)
    except ValueError as error:
        raise UsageError(str(error)) from None


def write_pictures(request: PlanRequest, draw: Callable[[], PackingPicture]) -> None:
    """Write the pictures that are asked for."""
    from lowtide.cli import console

    if request.svg is None and request.html is None:
        return
    picture = draw()
    if request.svg is not None:
        from lowtide.report.packing_svg import packing_svg

        data = packing_svg(picture).encode()
        console.write_file(request.svg, lambda stream: stream.write(data))
    if request.html is not None:
        from lowtide.report.packing_html import packing_html

        page = packing_html(picture).encode()
        console.write_file(request.html, lambda stream: stream.write(page))
