"""Runs a module node by node in the storage pool of its NNVM plan."""

import numpy as np

from lowtide.evaluator.evaluate import arguments_of
from lowtide.evaluator.in_arena.storage import storage_of
from lowtide.evaluator.interpreter import Interpreter
from lowtide.evaluator.program import compile_program
from lowtide.evaluator.registry import handlers
from lowtide.evaluator.values import TOKEN, from_leaves, from_literal, value_leaves
from lowtide.ir.attributes import Constant
from lowtide.ir.opcode import Opcode
from lowtide.planning.nnvm import COPY, IN_PLACE

NO_ENTRY = -1
POISON = 0xFF


class PoolRun:
    """All values lie in the views of the pool and nowhere else."""

    def __init__(self, module, planned, seed=0):
        self.module = module
        self.source = planned.source
        self.graph = planned.source.graph
        self.storage_id = planned.decorated.storage_id
        self.flags = planned.decorated.assign_flags
        self.pool = planned.pool()
        self.interpreter = Interpreter(module, seed=seed)
        for block in self.pool.blocks:
            block[:] = POISON

    def raw(self, entry):
        return self.pool.views[entry].reshape(-1).view(np.uint8)

    def read(self, shape, entries):
        leaves = [leaf for _, leaf in shape.leaves()]
        return from_leaves(
            shape,
            [
                TOKEN if entry == NO_ENTRY else storage_of(leaf).to_array(self.raw(entry))
                for leaf, entry in zip(leaves, entries, strict=True)
            ],
        )

    def write(self, shape, entries, value):
        leaves = [leaf for _, leaf in shape.leaves()]
        for leaf, entry, part in zip(leaves, entries, value_leaves(value), strict=True):
            if entry != NO_ENTRY:
                data = storage_of(leaf).to_bytes(part)
                self.raw(entry)[: len(data)] = data

    def run(self, arguments):
        entry = self.module.entry
        leaves = self.source.leaves
        for parameter, value in zip(
            entry.parameters, arguments_of(self.module, arguments), strict=True
        ):
            self.write(parameter.shape, leaves[parameter], value)
        for x in entry.instructions.values():
            if x.opcode is Opcode.CONSTANT:
                value = from_literal(x.attributes_as(Constant).literal)
                self.write(x.shape, leaves[x], value)
        needed = {step.instruction for step in compile_program(entry).steps}
        with np.errstate(all="ignore"):
            for number, node in enumerate(self.graph.nodes):
                instruction = self.source.instructions[number]
                if instruction is None:
                    self.move(number)
                elif not node.is_variable and instruction in needed:
                    self.step(number, instruction)
        return self.read(entry.root.shape, self.source.results)

    def move(self, number):
        """A copy or an assignment: the bytes of the last input."""
        if self.flags[number] == IN_PLACE:
            return
        assert self.flags[number] == COPY or self.graph.nodes[number].op == "copy"
        source = self.graph.entry_id(self.graph.nodes[number].inputs[-1])
        self.raw(self.graph.first_entry[number])[:] = self.raw(source)

    def step(self, number, instruction):
        made = self.graph.entries(number)
        for output, entry in enumerate(made):
            if not self.is_over_an_input(number, output):
                self.raw(entry)[:] = POISON  # shows where an operand that is read lies there too
        operands = [self.read(x.shape, self.source.leaves[x]) for x in instruction.operands]
        value = handlers()[instruction.opcode](self.interpreter, instruction, operands)
        own = [x if x in made else NO_ENTRY for x in self.source.leaves[instruction]]
        self.write(instruction.shape, own, value)

    def is_over_an_input(self, number, output):
        node = self.graph.nodes[number]
        block = self.storage_id[self.graph.first_entry[number] + output]
        return any(
            self.storage_id[self.graph.entry_id(node.inputs[position])] == block
            for position, result in node.own.inplace_pairs
            if result == output
        )
