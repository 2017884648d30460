"""A process that compiles a module with JAX's CPU client and prints what XLA planned.

It is a process of its own because XLA ends the process that it runs in where a check of it fails.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any


def main() -> None:
    """Compile the serialized HloModuleProto on standard input, once per set of options.

    The arguments are sets of options as JSON objects. For each, in order, one line with a JSON
    object goes to standard output: `temp`, `output` and `alias` in bytes, or `error`.
    """
    jax = import_module("jax")
    hlo, jaxlib = import_module("jaxlib._hlo"), import_module("jaxlib._jax")
    jax.config.update("jax_platforms", "cpu")
    module = hlo.HloModule.from_serialized_hlo_module_proto(sys.stdin.buffer.read())
    computation = hlo.XlaComputation(module.as_serialized_hlo_module_proto())
    mlir = jaxlib.mlir.xla_computation_to_mlir_module(computation)
    device = jax.devices("cpu")[0]
    for text in sys.argv[1:]:
        try:
            line = _compile(jaxlib, device, mlir, json.loads(text))
        except Exception as error:
            line = {"error": f"{type(error).__name__}: {error}".partition("\n")[0]}
        print(json.dumps(line), flush=True)


def _compile(
    jaxlib: Any, device: Any, mlir: Any, options: Mapping[str, str | bool]
) -> dict[str, object]:
    compile_options = jaxlib.CompileOptions()
    compile_options.env_option_overrides = list(options.items())
    devices = jaxlib.DeviceList((device,))
    executable = device.client.compile_and_load(mlir, devices, compile_options)
    stats = executable.get_compiled_memory_stats()
    return {
        "temp": stats.temp_size_in_bytes,
        "output": stats.output_size_in_bytes,
        "alias": stats.alias_size_in_bytes,
    }


if __name__ == "__main__":
    main()
