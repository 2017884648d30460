"""Lowers the example models to XLA's HLO text: `python examples/lower.py [NAME ...]`.

For each model this writes `examples/NAME.hlo.xz`, the program as JAX hands it to XLA, before
any optimization. The same JAX version gives the same bytes every time. The models are only
traced, never run, so this takes seconds and little memory.
"""

from __future__ import annotations

import argparse
import lzma
import math
import re
from pathlib import Path
from typing import Any

import jax
from jax.extend import source_info_util
from jaxlib import _hlo

import models
from models import MODELS, Example

# The directory exactly as Python spells it in source locations, which configure() shortens.
HERE = Path(models.__file__).parent


def configure() -> None:
    """Makes the text the same on every machine."""
    # The choice of platform decides some lowerings. On the CPU, too, JAX keeps donations: they
    # appear as input_output_alias in the module's first line.
    jax.config.update("jax_platforms", "cpu")
    # Source files are named from the repository's root on: examples/models.py.
    root = re.escape(f"{HERE.parent}/")
    jax.config.update("jax_hlo_source_file_canonicalization_regex", f"^{root}")
    # JAX leaves its own frames out of the stack of callers; the frames of this script would
    # only say that it was run, and change the text with every edit.
    source_info_util.register_exclusion(__file__)


def lower(example: Example) -> str:
    """Lowers a model to HLO text with source lines, argument names and donations."""
    # A cached trace may hold source lines of its first caller: the text must not depend on which
    # models were lowered earlier.
    jax.clear_caches()
    jitted = jax.jit(example.function, donate_argnums=example.donate_argnums)
    module = jitted.lower(*example.specs).compiler_ir("hlo").as_hlo_module()
    # XlaComputation.as_hlo_text() drops the metadata, HloModule.to_string() keeps it. By
    # default it shortens constants of more than ten values to {...}, which nothing can run.
    options = _hlo.HloPrintOptions()
    options.print_large_constants = True
    return module.to_string(options)


def count_instructions(text: str) -> int:
    """Parses HLO text, which fails if it is not well formed, and counts its instructions."""
    module = _hlo.hlo_module_from_text(text)
    return sum(len(computation.instructions()) for computation in module.computations())


def count_bytes(tree: Any) -> int:
    """Adds up the sizes of all arrays in `tree`."""
    return sum(math.prod(x.shape) * x.dtype.itemsize for x in jax.tree.leaves(tree))


def summarize(name: str, example: Example, text: str) -> str:
    """Describes a lowered model in one row of the table in README.md."""
    parameters = sum(math.prod(x.shape) for x in jax.tree.leaves(example.specs[0]))
    results = jax.eval_shape(example.function, *example.specs)
    donated = [example.specs[number] for number in example.donate_argnums]
    cells = [
        f"{parameters:,}",
        f"{count_instructions(text):,}",
        f"{count_bytes(example.specs):,}",
        f"{count_bytes(results):,}",
        f"{count_bytes(donated):,}",
    ]
    return f"| `{name}` | {' | '.join(cells)} |"


def main() -> None:
    """Lowers the models named on the command line, or all of them."""
    parser = argparse.ArgumentParser(description="Lower example models to HLO text.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(MODELS)}")
    names = parser.parse_args().names or list(MODELS)
    for name in names:
        if name not in MODELS:
            parser.error(f"no model {name!r}; the models are {', '.join(MODELS)}")
    configure()
    print("| model | parameters | instructions | argument bytes | result bytes | donated bytes |")
    print("|---|--:|--:|--:|--:|--:|")
    for name in names:
        example = MODELS[name]()
        text = lower(example)
        row = summarize(name, example, text)
        packed = lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)
        (HERE / f"{name}.hlo.xz").write_bytes(packed)
        print(row, flush=True)


if __name__ == "__main__":
    main()
