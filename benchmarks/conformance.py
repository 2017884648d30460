"""Compare our HLO text with XLA's on the recorded texts, and explain each difference.

    python benchmarks/conformance.py [--texts FILE] [--write docs/conformance.md]

The texts are lines of JSON: `id`, `text`, `accepted` (XLA's verdict), `canonical` (XLA's print, or
null), `error`, `class_`. Prints the rates; with `--write` also the list of differences.
"""

from __future__ import annotations

import argparse
import json
import lzma
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import HloTextError
from sections import replace_section

TEXTS = Path(__file__).parents[2] / "shared" / "conformance" / "hlo_text.jsonl.xz"


@dataclass
class Counts:
    """How often we agree with XLA, and where not."""

    accepted: int = 0
    accepted_too: int = 0
    rejected: int = 0
    rejected_too: int = 0
    printed: int = 0
    same_print: int = 0
    stable: int = 0
    differences: list[tuple[str, str]] = field(default_factory=list)
    """(id, reason) of each text on which we differ."""


def compare(records: Iterable[dict[str, Any]]) -> Counts:
    """Return the counts over recorded texts."""
    counts = Counts()
    for record in records:
        try:
            module = parse_hlo(record["text"])
        except HloTextError as error:
            _count_rejected(counts, record, error)
            continue
        if not record["accepted"]:
            newer = record["class_"] != "negative_test"
            counts.rejected += not newer
            reason = "syntax newer than the recording" if newer else "we accept it"
            counts.differences.append((record["id"], reason))
            continue
        counts.accepted += 1
        counts.accepted_too += 1
        text = str(module)
        counts.stable += str(parse_hlo(text)) == text
        if record["canonical"] is not None:
            counts.printed += 1
            if text.strip() == record["canonical"].strip():
                counts.same_print += 1
            else:
                counts.differences.append((record["id"], reason_of(text, record["canonical"])))
    return counts


def _count_rejected(counts: Counts, record: dict[str, Any], error: HloTextError) -> None:
    if record["accepted"]:
        counts.accepted += 1
        counts.differences.append((record["id"], f"we reject it: {error.message.splitlines()[0]}"))
    elif record["class_"] == "negative_test":
        counts.rejected += 1
        counts.rejected_too += 1


def reason_of(ours: str, canonical: str) -> str:
    """Return why our print differs, from the lines that do."""
    a, b = ours.strip().splitlines(), canonical.strip().splitlines()
    if sorted(a) == sorted(b):
        return (
            "order of computations: callees always stand before their callers, and a text that is "
            "a print stays as it is"
        )
    pairs = [(x, y) for x, y in zip(a, b, strict=False) if x != y]
    if len(a) == len(b) and all("{...}" in x and "constant" in x for x, _ in pairs):
        return "elided constant: XLA's parser fills `{...}` with pseudo-random data, we keep it"
    if "origin_recovery_table" in b[0]:
        return "recovery table: we escape quotes in a nested module, so that the text parses again"
    x, y = pairs[0] if pairs else ("", "")
    at = next((i for i, (p, q) in enumerate(zip(x, y, strict=False)) if p != q), 0)
    start = max(0, at - 40)
    return f"we print `{x[start : at + 60]}`, XLA `{y[start : at + 60]}`"


def read_records(path: Path) -> list[dict[str, Any]]:
    """Return the records of a compressed file of JSON lines."""
    with lzma.open(path, "rt") as lines:
        return [json.loads(line) for line in lines]


def report(counts: Counts) -> str:
    """Return the rates, one a line."""
    rows = [
        ("texts that XLA accepts: accepted", counts.accepted_too, counts.accepted),
        ("texts that XLA rejects, newer syntax aside: rejected", counts.rejected_too,
         counts.rejected),
        ("canonical print equal to XLA's", counts.same_print, counts.printed),
        ("parse(print(m)) prints the same", counts.stable, counts.accepted_too),
    ]  # fmt: skip
    return "\n".join(
        [f"{what}: {good} of {total} ({good / max(total, 1):.2%})" for what, good, total in rows]
    )


def to_markdown(counts: Counts) -> str:
    """Return the section with the rates and all differences, grouped by reason."""
    groups: dict[str, list[str]] = {}
    for name, reason in counts.differences:
        groups.setdefault(reason, []).append(name)
    lines = [
        *[f"- {line}" for line in report(counts).splitlines()],
        "",
        "Each difference, with its reason:",
        "",
    ]
    for reason, names in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        lines += [f"{len(names)} x {reason}", "", *[f"- `{name}`" for name in names], ""]
    return "\n".join(lines)


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--texts", type=Path, default=TEXTS)
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    counts = compare(read_records(arguments.texts))
    print(report(counts))
    if arguments.write:
        replace_section(arguments.write, "texts", to_markdown(counts))


if __name__ == "__main__":
    main()
