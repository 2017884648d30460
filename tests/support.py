"""What several tests need: where the shared inputs are, and how to skip without them."""

import lzma
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
