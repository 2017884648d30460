"""The folder of a hunt: what has run, what was reached, and the finds, so that it can go on."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import field
from pathlib import Path
from typing import Any

from tests.hunting.coverage import CellCounts

from lowtide.files.writing import write_text
from lowtide.records import dataclass


@dataclass(slots=True)
class HuntState:
    """Counts of a hunt of the seeds from `first_seed` to before `next_seed`.

    `seconds` are of wall time.

    `findings` counts by signature and operations, `first` names the file that shows one first,
    `last` the seed that showed it last; `ended` has those that their first find does not show any
    more; `silent` counts by judge and reason.
    """

    folder: Path
    first_seed: int = 0
    next_seed: int = 0
    cases: int = 0
    seconds: float = 0.0
    refused: int = 0
    counts: CellCounts = field(default_factory=CellCounts)
    findings: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    silent: Counter[str] = field(default_factory=Counter)
    judged: Counter[str] = field(default_factory=Counter)

    @classmethod
    def opened(cls, folder: Path, first_seed: int = 0) -> HuntState:
        """Return the state that a folder holds, a new one from a seed on where it holds none."""
        state = cls(folder, first_seed, first_seed)
        (folder / "finds").mkdir(parents=True, exist_ok=True)
        path = folder / "state.json"
        if path.exists():
            state._read(json.loads(path.read_text()))
        return state

    def _read(self, document: dict[str, Any]) -> None:
        self.first_seed = document.get("first_seed", 0)
        for name in _NUMBERS:
            setattr(self, name, document[name])
        for name in _COUNTS:
            setattr(self, name, Counter(document[name]))
        self.first, self.last = dict(document["first"]), dict(document["last"])
        self.ended = set(document.get("ended", ()))
        self.counts.read_rows(document["cells"])

    def save(self) -> None:
        """Write the state, all of it or nothing."""
        document: dict[str, Any] = {name: getattr(self, name) for name in (*_NUMBERS, *_COUNTS)}
        document |= {"first_seed": self.first_seed, "first": self.first, "last": self.last}
        document["ended"] = sorted(self.ended)
        document["cells"] = self.counts.as_rows()
        write_text(self.folder / "state.json", json.dumps(document))

    def write_find(self, name: str, words: str, text: str) -> str:
        """Write a case with what it shows; return the name of the file in `finds`."""
        path = self.folder / "finds" / f"{name}.txt"
        lines = "".join([f"// {line}\n" for line in words.splitlines()])
        path.write_text(lines + text)
        return path.name


_NUMBERS = ("next_seed", "cases", "seconds", "refused")
_COUNTS = ("findings", "silent", "judged")
