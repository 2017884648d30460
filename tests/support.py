"""What several tests need: where the shared inputs are, and how to skip without them."""

import lzma
from collections.abc import Mapping
from pathlib import Path

import pytest

SHARED = Path(__file__).parents[2] / "shared"
CORPUS = SHARED / "corpus"
CONFORMANCE = SHARED / "conformance"
EXAMPLES = Path(__file__).parents[1] / "examples"

HANG_SECONDS = 1800.0
"""After so long what a test waits for counts as hung: no slow machine comes near it."""

needs_shared = pytest.mark.skipif(
    not SHARED.is_dir(), reason="the shared corpus is not beside this checkout"
)


def read_text(path: Path) -> str:
    """Return the HLO text of a file, decompressed if its name ends in .xz."""
    data = path.read_bytes()
    return (lzma.decompress(data) if path.suffix == ".xz" else data).decode()


def asked_twice(cases: Mapping[str, Mapping[str, object]]) -> set[str]:
    """Return tests for "avx2" that are there for "native", too, given parameters by node id."""

    def key(case: str, target: str) -> tuple[str, ...]:
        """The test and its other parameters; empty where none of them is the target."""
        values = cases[case].values()
        texts = ["" if isinstance(x, str) and x == target else repr(x) for x in values]
        return (case.partition("[")[0], *texts) if "" in texts else ()

    known = {key(x, "native") for x in cases} - {()}
    return {x for x in cases if key(x, "avx2") in known}
