"""Modules as HLO text: XLA's canonical form, and shorter ones."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import lowtide.ir.attributes as ir
from lowtide.ir.annotations import NO_ANNOTATIONS, Annotations
from lowtide.ir.attribute_text import (
    annotation_text,
    attribute_text,
    backend_config_text,
    frontend_attributes_text,
)
from lowtide.ir.computation import Computation
from lowtide.ir.frame_numbering import number_frames
from lowtide.ir.instruction import Instruction
from lowtide.ir.metadata import NO_METADATA, StackFrames
from lowtide.ir.module import Module
from lowtide.ir.opcode import ASYNC, Opcode
from lowtide.ir.shape import ProgramShape, Shape, index_text
from lowtide.ir.strings import escape, quote
from lowtide.ir.traversal import computation_post_order, printed_order
from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class PrintOptions:
    """Choice of what the text shows. The defaults are XLA's canonical print.

    `large_constants` shows the values of constants with more than 10 elements, which the
    canonical text elides. Without `names` instructions and computations are numbered in order of
    appearance, so that modules which differ in names only print the same.
    """

    metadata: bool = True
    layouts: bool = True
    large_constants: bool = False
    names: bool = True
    backend_config: bool = True


CANONICAL: Final = PrintOptions()
COMPLETE: Final = PrintOptions(large_constants=True)
"""Text from which the module can be read back without loss."""
SHORT: Final = PrintOptions(metadata=False, layouts=False)
ANONYMOUS: Final = PrintOptions(metadata=False, large_constants=True, names=False)


def to_text(module: Module, options: PrintOptions = CANONICAL) -> str:
    """Return the HLO text of a module, which ends in a line feed."""
    return _Printer(module, options).print()


def fingerprint(module: Module) -> str:
    """Return 64 hexadecimal digits which agree for modules that differ in names and metadata only.

    The name of the module does not count either.
    """
    return hashlib.sha256(to_text(module, ANONYMOUS).encode()).hexdigest()


class _Printer:
    def __init__(self, module: Module, options: PrintOptions) -> None:
        self.sequences: dict[Computation, Sequence[Instruction]] = {}
        self.module = module
        self.options = options
        self.frames: Mapping[int, int] = {}
        self.names: dict[Instruction, str] = {}
        self.computation_names: dict[Computation, str] = {}
        self.attribute_texts: dict[tuple[int, str], str] = {}
        self.order = computation_post_order(module, self.sequences)
        if options.names:
            self.order = printed_order(module)
        self.hidden = sugared_computations(module.computations.values())

    def print(self) -> str:
        lines = [self._header(), ""]
        if self.module.origin_recovery_table:
            lines.append("")
        if self.options.metadata:
            tables, self.frames = number_frames(
                self.module.stack_frames, [self.sequences[c] for c in self.order]
            )
            lines += stack_frame_lines(tables) if tables else []
        for computation in self.order:
            self.computation_names[computation] = (
                computation.name if self.options.names else f"c{len(self.computation_names)}"
            )
        for computation in self.order:
            if computation in self.hidden:
                continue
            self._computation(computation, lines)
            lines.append("")
        return "\n".join(lines) + "\n"

    # -- header --------------------------------------------------------------------------------

    def _header(self) -> str:
        module = self.module
        parts = [f"HloModule {module.name if self.options.names else 'm'}"]
        if module.schedule is not None:
            parts.append("is_scheduled=true")
        if module.input_output_aliases:
            aliases = [
                f"{index_text(a.output_index)}: ({a.parameter}, {index_text(a.parameter_index)}, "
                f"{'must-alias' if a.must else 'may-alias'})"
                for a in module.input_output_aliases
            ]
            parts.append(f"input_output_alias={{ {', '.join(aliases)} }}")
        if module.buffer_donors:
            donors = [
                f"({d.parameter}, {index_text(d.parameter_index)})" for d in module.buffer_donors
            ]
            parts.append(f"buffer_donor={{ {', '.join(donors)} }}")
        if module.alias_passthrough_params:
            parts.append("alias_passthrough_params=true")
        if module.entry_layout is not None:
            parts.append(f"entry_computation_layout={{{self._layout(module.entry_layout)}}}")
        parts += self._header_flags()
        if module.frontend_attributes:
            text = frontend_attributes_text(module.frontend_attributes)
            parts.append(f"frontend_attributes={text}")
        if module.origin_recovery_table:
            parts.append(f"origin_recovery_table={{{module.origin_recovery_table}}}")
        if module.debug_attributes:
            parts.append(f"debug_attributes={frontend_attributes_text(module.debug_attributes)}")
        return ", ".join(parts)

    def _header_flags(self) -> list[str]:
        module = self.module
        parts = []
        for key, flags in (
            ("parameters", module.allow_spmd_sharding_propagation_to_parameters),
            ("output", module.allow_spmd_sharding_propagation_to_output),
        ):
            if flags not in ((), (False,)):
                text = ",".join(["true" if x else "false" for x in flags])
                parts.append(f"allow_spmd_sharding_propagation_to_{key}={{{text}}}")
        if module.replica_count != 1:
            parts.append(f"replica_count={module.replica_count}")
        if module.num_partitions != 1:
            parts.append(f"num_partitions={module.num_partitions}")
        return parts

    def _layout(self, layout: ProgramShape) -> str:
        parts = []
        for i, shape in enumerate(layout.parameters):
            mark = f"/*index={i}*/" if i and i % 5 == 0 else ""
            parts.append(f"{mark}{self._shape(shape)}")
        return f"({', '.join(parts)})->{self._shape(layout.result)}"

    # -- computations --------------------------------------------------------------------------

    def _computation(self, computation: Computation, lines: list[str]) -> None:
        instructions = self.sequences[computation]
        names = self.names
        if self.options.names:
            for x in instructions:
                names[x] = "%" + x.name
        else:
            for x in instructions:
                names[x] = f"%i{len(names)}"
        entry = "ENTRY " if computation.is_entry else ""
        name = self.computation_names[computation]
        lines.append(f"{entry}%{name} {self._signature(computation)} {{")
        root = computation.root
        shape_text = self._shape
        for x in instructions:
            opcode, rest = self._attributes(x)
            mark = "  ROOT " if x is root else "  "
            shape = shape_text(x.shape)
            lines.append(f"{mark}{names[x]} = {shape} {opcode}({self._inside(x)}){rest}")
        thread = computation.execution_thread
        suffix = f", execution_thread={quote(thread)}" if thread != ir.MAIN_THREAD else ""
        lines.append(f"}}{suffix}")

    def _inside(self, x: Instruction) -> str:
        """Return what stands between the parentheses."""
        operands = x.operands
        if len(operands) == 1:
            return self.names[operands[0]]
        if operands:
            return self._operands(operands)
        if x.opcode is Opcode.PARAMETER or x.opcode is Opcode.CONSTANT:
            return self._special(x)
        return ""

    def _attributes(self, x: Instruction) -> tuple[str, str]:
        """Return the opcode as written, and all that stands behind the parentheses."""
        if x.called_computations or x.control_predecessors or x.opcode in ASYNC:
            opcode, rest = self._irregular(x)
        else:
            opcode = x.opcode.value
            key = (id(x.attributes), opcode)
            found = self.attribute_texts.get(key)
            if found is None or opcode == "compare":
                found = self.attribute_texts[key] = _join(attribute_text(x))
            rest = found
            if x.annotations is not NO_ANNOTATIONS:
                before, behind = annotation_text(x.annotations)
                rest += _join(before) + _join(behind)
        metadata = x.raw_metadata
        if metadata is not NO_METADATA and self.options.metadata:
            frame = metadata.stack_frame_id
            if frame and self.frames[frame] != frame:
                metadata = metadata.with_stack_frame(self.frames[frame])
            text = metadata.text()
            if text:
                rest += f", metadata={{{text}}}"
        if x.annotations is not NO_ANNOTATIONS:
            rest += self._backend_config(x)
        return opcode, rest

    def _shape(self, shape: Shape) -> str:
        return str(shape) if self.options.layouts else shape.text(layout=False)

    def _signature(self, computation: Computation) -> str:
        parts = [
            f"{self.names[p].removeprefix('%')}: {p.shape.text(layout=False)}"
            for p in computation.parameters
        ]
        result = computation.root.shape.text(layout=False)
        return f"({', '.join(parts)}) -> {result}"

    def _operands(self, operands: Iterable[Instruction]) -> str:
        names = self.names
        texts = [names[x] for x in operands]
        if len(texts) > 5:
            for i in range(5, len(texts), 5):
                texts[i] = f"/*index={i}*/{texts[i]}"
        return ", ".join(texts)

    def _special(self, instruction: Instruction) -> str:
        if instruction.opcode is Opcode.PARAMETER:
            return str(instruction.attributes_as(ir.Parameter).number)
        literal = instruction.attributes_as(ir.Constant).literal
        return literal.text(large=self.options.large_constants)

    def _backend_config(self, instruction: Instruction) -> str:
        config = instruction.annotations.backend_config
        if not config or not self.options.backend_config:
            return ""
        return f", backend_config={backend_config_text(config)}"

    # -- calls and control dependencies --------------------------------------------------------

    def _irregular(self, x: Instruction) -> tuple[str, str]:
        """Return the opcode as written and all attributes but metadata and backend_config."""
        opcode = x.opcode.value
        called: list[str] = []
        if x.opcode in ASYNC:
            opcode, texts, called = self._async(x)
        else:
            texts = attribute_text(x)
            called = self._called(x)
        annotations = x.annotations
        if opcode != x.opcode.value:
            annotations = _with_wrapped_attributes(x)
        before, behind = annotation_text(annotations)
        control = []
        if x.control_predecessors:
            names = ", ".join([self.names[p] for p in x.control_predecessors])
            control = [f"control-predecessors={{{names}}}"]
        return opcode, _join([*texts, *called, *before, *control, *behind])

    def _called(self, x: Instruction) -> list[str]:
        names = [f"%{self.computation_names[c]}" for c in x.called_computations]
        if not names:
            return []
        if x.opcode is Opcode.WHILE:
            return [f"condition={names[0]}", f"body={names[1]}"]
        if x.opcode is Opcode.SELECT_AND_SCATTER:
            return [f"select={names[0]}", f"scatter={names[1]}"]
        if isinstance(x.attributes, ir.Conditional):
            if x.attributes.is_predicated:
                return [f"true_computation={names[0]}", f"false_computation={names[1]}"]
            return [f"branch_computations={{{', '.join(names)}}}"]
        if isinstance(x.attributes, ir.CustomCall):
            return [f"called_computations={{{', '.join(names)}}}"]
        if x.opcode is Opcode.FUSION:
            return [f"calls={names[0]}"]
        composite = isinstance(x.attributes, ir.Call) and x.attributes.is_composite
        return [f"to_apply={names[0]}", *(["is_composite=true"] if composite else [])]

    def _async(self, x: Instruction) -> tuple[str, list[str], list[str]]:
        callee = x.called_computations[0]
        texts = attribute_text(x)
        if callee not in self.hidden:
            called = [f"calls=%{self.computation_names[callee]}"]
            return x.opcode.value, texts, called if x.opcode is Opcode.ASYNC_START else []
        suffix = x.opcode.value.removeprefix("async")
        opcode = callee.root.opcode.value + suffix
        if x.opcode is not Opcode.ASYNC_START:
            return opcode, texts, []
        root = callee.root
        return opcode, texts + attribute_text(root), self._called(root)


def _with_wrapped_attributes(start: Instruction) -> Annotations:
    """Return the annotations of asynchronous sugar: the wrapped frontend attributes show too."""
    annotations = start.annotations
    wrapped = start.called_computations[0].root.annotations.frontend_attributes
    if annotations.frontend_attributes or start.opcode is not Opcode.ASYNC_START:
        return annotations
    return replace(annotations, frontend_attributes=wrapped)


def _join(texts: list[str]) -> str:
    return "".join([f", {text}" for text in texts])


def sugared_computations(computations: Iterable[Computation]) -> set[Computation]:
    """Return the computations of asynchronous instructions that are written as sugar.

    What is called by another instruction too has to stand in the text.
    """
    hidden: set[Computation] = set()
    shown: set[Computation] = set()
    for computation in computations:
        for x in computation.instructions.values():
            if x.opcode not in ASYNC:
                shown.update(x.called_computations)
            elif x.opcode is Opcode.ASYNC_START and is_single_instruction(x.called_computations[0]):
                hidden.add(x.called_computations[0])
    return hidden - shown


def is_single_instruction(computation: Computation) -> bool:
    """Whether a computation is its parameters, in order, and one instruction that reads them.

    What that instruction says of its own result has no place in sugar, which describes a start.
    """
    root = computation.root
    said = root.annotations
    if root.opcode is Opcode.PARAMETER or said.sharding or said.parameter_replication:
        return False
    if said.result_accuracy is not None:
        return False
    return (
        list(root.operands) == computation.parameters
        and len(computation.instructions) == len(computation.parameters) + 1
    )


def stack_frame_lines(tables: StackFrames) -> list[str]:
    """Return the lines of the frame tables; a parent frame id is printed one greater."""
    lines = []
    for title, names in (
        ("FileNames", tables.file_names),
        ("FunctionNames", tables.function_names),
    ):
        lines.append(title)
        lines += [f'{i} "{escape(name)}"' for i, name in enumerate(names, 1)]
        lines.append("")
    lines.append("FileLocations")
    for i, x in enumerate(tables.file_locations, 1):
        lines.append(
            f"{i} {{file_name_id={x.file_name_id} function_name_id={x.function_name_id} "
            f"line={x.line} end_line={x.end_line} column={x.column} end_column={x.end_column}}}"
        )
    lines += ["", "StackFrames"]
    for i, frame in enumerate(tables.frames, 1):
        lines.append(
            f"{i} {{file_location_id={frame.file_location_id} "
            f"parent_frame_id={frame.parent_frame_id + 1}}}"
        )
    return [*lines, "", ""]
