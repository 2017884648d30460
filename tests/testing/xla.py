"""XLA:CPU as a literal interpreter: what it computes when it does not optimize."""

import re
from functools import cache

import numpy as np
import pytest

from lowtide.ir.printer import COMPLETE, to_text

OPTIONS = [
    ("xla_cpu_enable_fast_math", False),
    ("xla_cpu_enable_fast_min_max", False),
    ("xla_backend_optimization_level", 0),
    ("xla_allow_excess_precision", False),
    ("xla_disable_hlo_passes", "algsimp,fusion,cse,constant_folding,reshape-mover"),
]


def plain(module):
    """Return the text of a module in the subset that StableHLO has: fusions become calls."""
    text = to_text(module, COMPLETE)
    text = re.sub(r"\AHloModule (\w+).*", r"HloModule \1", text)
    text = re.sub(r", control-predecessors=\{[^}]*\}", "", text)
    text = re.sub(r" fusion\((.*?)\), kind=k\w+, calls=", r" call(\1), to_apply=", text)
    # A bitcast between row-major shapes is a reshape.
    return text.replace(" bitcast(", " reshape(")


@cache
def devices():
    jax = pytest.importorskip("jax")
    from jaxlib import xla_client

    return xla_client.DeviceList(tuple(jax.devices("cpu")[:1]))


def run(module, arguments):
    """Return the leaves of the result of a module on XLA:CPU."""
    jax = pytest.importorskip("jax")
    from jaxlib import _hlo, _jax, xla_client

    found = _hlo.hlo_module_from_text(plain(module))
    proto = found.as_serialized_hlo_module_proto()
    program = _jax.mlir.xla_computation_to_mlir_module(_hlo.XlaComputation(proto))
    options = xla_client.CompileOptions()
    options.env_option_overrides = OPTIONS
    loaded = devices()[0].client.compile_and_load(program, devices(), options)
    with jax.enable_x64(True):
        buffers = [jax.device_put(x) for x in arguments]
        return [np.asarray(x) for x in loaded.execute(buffers)]
