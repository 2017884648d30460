"""HLO after passes: as examples have it, or by name in `results/` where it is long."""

from pathlib import Path
from typing import Final

from lowtide.passes import Pass

LONG: Final = {x.stem: x for x in (Path(__file__).parent / "results").glob("*.hlo")}


def result_of(step: Pass) -> str:
    """Return what a pass has to make of the HLO of its example."""
    return step.after or LONG[step.name].read_text()
