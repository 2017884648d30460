"""`lowtide.jit`: functions for JAX, compiled and run by lowtide.

What the names below need is imported when they are first used: the plugin needs none of them.
"""

from typing import TYPE_CHECKING

from lowtide.records.late import late_names

__all__ = ["Jitted", "Lowered", "jit"]


if TYPE_CHECKING:
    from lowtide.client.jit.jitted import Jitted, jit
    from lowtide.client.jit.stages import Lowered
else:
    __getattr__ = late_names(__name__, jitted="Jitted jit", stages="Lowered")
