"""A process that runs scripts, each in a fork of its own which ends as an interpreter does.

Lines of JSON come in: `script`, `through` ("lowtide", or "jax": `lowtide.jit` is then `jax.jit`),
`out` and `err`, files for what the script prints. The exit status goes out, one line each. JAX and
all of lowtide are imported before the first fork and not used, so that scripts share that time.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import runpy
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.experimental
import jax.scipy.linalg
import numpy as np  # noqa: F401

import lowtide

for found in pkgutil.walk_packages(lowtide.__path__, "lowtide."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)


def by_jax(function: Callable[..., Any], *_: Any, output: str = "", **others: Any) -> Any:
    """Return `jax.jit` of a function; kinds of outputs are lowtide's only."""
    return jax.jit(function, **others)


def served() -> dict[str, Any] | None:
    """Fork for each line; return the order in a child, None at the end in the parent."""
    for line in sys.stdin:
        order: dict[str, Any] = json.loads(line)
        child = os.fork()
        if child == 0:
            return order
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(status, flush=True)
    return None


def main() -> None:
    """Serve; in a child, run the script, and end after it."""
    order = served()
    if order is None:
        return
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(order[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if order["through"] == "jax":
        lowtide.jit = by_jax  # type: ignore[assignment]
    sys.argv = [order["script"]]
    runpy.run_path(order["script"], run_name="__main__")


if __name__ == "__main__":
    main()
