"""Tests that were skipped and why, as a table: the last thing that `.ci/run` prints.

python .ci/skipped.py RESULTS, which pytest wrote with --junitxml
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from xml.etree import ElementTree

FOLDER_PARTS = 3
"""A row is for a folder of so many names at most: `tests.runtime.mpi`."""


def skips(path: str) -> Counter[tuple[str, str]]:
    """Return how many tests were skipped, by folder and reason."""
    found: Counter[tuple[str, str]] = Counter()
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        skipped = case.find("skipped")
        if skipped is None or skipped.get("type") == "pytest.xfail":
            continue
        # A module that is skipped as a whole has its own path as its name.
        name = case.get("classname") or case.get("name") or ""
        folder = "/".join(name.split(".")[:-1][:FOLDER_PARTS])
        found[folder, _reason(skipped)] += 1
    return found


def _reason(skipped: ElementTree.Element) -> str:
    """The reason: of a module as a whole it is the last of three values, as Python writes them."""
    if skipped.get("type"):
        return skipped.get("message") or "no reason"
    reason: str = ast.literal_eval(skipped.text or "('', 0, 'no reason')")[-1]
    return reason.removeprefix("Skipped: ")


def main() -> None:
    """Print the table, those of most tests first."""
    found = skips(sys.argv[1])
    print(f"{sum(found.values())} skipped")
    for (folder, reason), count in sorted(found.items(), key=lambda row: (-row[1], row[0])):
        print(f"{count:6}  {folder:24} {reason}")


if __name__ == "__main__":
    main()
