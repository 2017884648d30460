"""The place of the machine code of the solvers between processes."""

from __future__ import annotations

from functools import cache

from lowtide.files.object_cache import ObjectCache
from lowtide.options import cache_folder
from lowtide.search.kernels.objects import keep_objects


@cache
def keep_solvers() -> None:
    """Keep the machine code of the solvers for later processes; what searches calls it first."""
    keep_objects(ObjectCache(cache_folder() / "solvers"))
