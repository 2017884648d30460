"""`lowtide.jit`: functions for JAX, compiled and run by lowtide."""

from lowtide.client.jit.jitted import Jitted, jit
from lowtide.client.jit.stages import Lowered

__all__ = ["Jitted", "Lowered", "jit"]
