"""Executables by the evaluator: for tests of the client in which native code does not matter."""

from lowtide.evaluator import evaluate
from lowtide.frontend.hlo_proto import write_hlo_module_proto


class ReferenceExecutable:
    """Runs a module by the evaluator and remembers how it was called."""

    def __init__(self, module, options):
        self.module = module
        self.options = options
        self.memory = {"schema": "lowtide.memory/1"}
        self.consumed = []

    def __call__(self, *arrays, consume=False):
        self.consumed.append(consume)
        if consume:
            for alias in self.module.input_output_aliases:
                assert arrays[alias.parameter].flags.carray
        return evaluate(self.module, arrays)

    def as_text(self):
        return str(self.module)

    def serialize(self):
        return write_hlo_module_proto(self.module)


class Compiler:
    """Makes reference executables and counts them; `refuse` is raised instead where it is set."""

    def __init__(self, refuse=None):
        self.made = []
        self.refuse = refuse

    def __call__(self, module, options):
        if self.refuse is not None:
            raise self.refuse
        self.made.append(ReferenceExecutable(module, options))
        return self.made[-1]
