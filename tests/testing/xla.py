"""XLA:CPU as a literal interpreter, in a process of its own: some legal modules kill it."""

import multiprocessing
import re

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
SECONDS = 60


def plain(module):
    """Return the text of a module in the subset that StableHLO has: fusions become calls."""
    text = to_text(module, COMPLETE)
    text = re.sub(r"\AHloModule (\w+).*", r"HloModule \1", text)
    text = re.sub(r", control-predecessors=\{[^}]*\}", "", text)
    text = re.sub(r" fusion\((.*?)\), kind=k\w+, calls=", r" call(\1), to_apply=", text)
    # A bitcast between row-major shapes is a reshape.
    return text.replace(" bitcast(", " reshape(")


def run(text, arguments):
    """Return the leaves of the result of an HLO text on XLA:CPU, without its optimizations."""
    import jax
    from jaxlib import _hlo, _jax, xla_client

    devices = xla_client.DeviceList(tuple(jax.devices("cpu")[:1]))
    proto = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    program = _jax.mlir.xla_computation_to_mlir_module(_hlo.XlaComputation(proto))
    options = xla_client.CompileOptions()
    options.env_option_overrides = OPTIONS
    loaded = devices[0].client.compile_and_load(program, devices, options)
    with jax.enable_x64(True):
        buffers = [jax.device_put(x) for x in arguments]
        return [np.asarray(x) for x in loaded.execute(buffers)]


def serve(pipe):
    """Answer (text, arguments) by the results, or by the first line of the error."""
    while True:
        try:
            text, arguments = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(run(text, arguments))
        except Exception as error:
            pipe.send(str(error).splitlines()[0])


class Oracle:
    """A process that runs modules; another one follows where a module kills it."""

    def __init__(self):
        pytest.importorskip("jax")
        self.process = None

    def ask(self, module, arguments):
        """Return the leaves of the result, or why there are none, in words."""
        if self.process is None:
            context = multiprocessing.get_context("spawn")
            self.pipe, theirs = context.Pipe()
            self.process = context.Process(target=serve, args=(theirs,), daemon=True)
            self.process.start()
            theirs.close()
        self.pipe.send((plain(module), arguments))
        try:
            if self.pipe.poll(SECONDS):
                return self.pipe.recv()
        except EOFError:
            pass
        self.close()
        return "killed"

    def close(self):
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.pipe.close()
            self.process = None
