"""JAX's own tests, as they are, on lowtide's platform and on XLA's.

    python benchmarks/jax_suite.py [--through plugin|jit] [--tests FOLDER] [--files NAME,NAME]
        [--every N] [--cases N] [--x64 0|1|both] [--write PAGE] [--keep FILE]

FOLDER holds JAX's test files, which run unedited in child processes: every N-th of their tests,
with at most `--cases` cases of each that JAX generates. A child that crashes or hangs is noted, and
the tests after that one run in the next.

`--through plugin`: each test runs on the platforms `lowtide,cpu` and on `cpu`. `--keep` appends
what came of each test, and tests that are there already do not run again. The exit status is 1
where a miss is not one of `jax_suite_expected.py`. `--through jit`:
`jax.jit` is `lowtide.jit` instead, and `--keep` appends the events, as lines of JSON.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

import jax_suite_jit
import jax_suite_plugin

ROOT: Final = Path(__file__).parents[1]
TESTS: Final = ROOT.parent / "shared" / "jax_tests"


def main() -> None:
    """Run the tests and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--through", choices=["plugin", "jit"], default="plugin")
    parser.add_argument("--tests", type=Path, default=TESTS)
    parser.add_argument("--files", default="")
    parser.add_argument("--every", type=int, default=20)
    parser.add_argument("--cases", type=int, default=1)
    parser.add_argument("--x64", choices=["0", "1", "both"], default="0")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    measure = {"plugin": jax_suite_plugin.measure, "jit": jax_suite_jit.measure}
    if not measure[arguments.through](arguments):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
