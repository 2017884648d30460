"""Which code a benchmark ran."""

from __future__ import annotations

import subprocess
from pathlib import Path


def code_version() -> str:
    """Return the commit of the code, with a plus sign if files differ, or the package's version."""
    import lowtide

    folder = Path(lowtide.__file__).parent
    try:
        commit, changes = [
            subprocess.run(
                ["git", *x], cwd=folder, capture_output=True, text=True, check=True
            ).stdout
            for x in (("rev-parse", "--short=12", "HEAD"), ("status", "--porcelain", "--", "."))
        ]
    except (OSError, subprocess.CalledProcessError):
        return lowtide.__version__
    return commit.strip() + ("+" if changes else "")
