"""The reasons for which two instructions are not one kernel: `explain MODULE --why-not A B`.

Kernels are chosen as for a plan, of a module whose instructions carry a mark in place of where they
come from. Passes give what they make the mark of what it takes the place of. So it is found what
the instructions that were given are once the module is simplified, and in which kernels these are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Final, NamedTuple, final

from lowtide.compiler.options import DEFAULT_PLAN, PlanOptions
from lowtide.compiler.proposals import ChosenKernels, chosen_kernels
from lowtide.compiler.stages import order_of_kernels, pipeline
from lowtide.fusion.cluster import Cluster
from lowtide.fusion.cluster_graph import ClusterGraph
from lowtide.fusion.merging import kernel_graph
from lowtide.fusion.multi_output import refusal_side_by_side
from lowtide.fusion.refusal import FusionRefusal, RefusalKind
from lowtide.fusion.why_not import Way, WhyNot, clusters_with, why_not, why_opaque
from lowtide.ir import Computation, Instruction, LowtideError, Module, Opcode
from lowtide.ir.clone import clone_module
from lowtide.ir.metadata import Metadata
from lowtide.ir.traversal import applied_computations, fused_computations
from lowtide.passes import run_pipeline
from lowtide.records import dataclass
from lowtide.suggestions import nearest

_BEFORE: Final = "layout"


@dataclass(frozen=True, slots=True)
class KernelReport:
    """The kernels of two instructions, by name, and why they are not one; no reasons if they are.

    An instruction that is computed in several kernels has several. None has become of what is
    read from an argument or written by nobody.
    """

    names: tuple[str, str]
    kernels: tuple[tuple[str, ...], tuple[str, ...]]
    reasons: tuple[WhyNot, ...] = field(default=())

    def lines(self) -> list[str]:
        """Return the answer in sentences."""
        first, second = self.names
        common = [x for x in self.kernels[0] if x in self.kernels[1]]
        if not self.reasons:
            return [f"{first} and {second} are one kernel: {', '.join(common)}"]
        told = [
            f"{name} is in {', '.join(kernels)}" if kernels else f"{name} is in no kernel"
            for name, kernels in zip(self.names, self.kernels, strict=True)
        ]
        return ["; ".join(told), *[f"  {x.text()}" for x in self.reasons]]

    def to_json(self) -> dict[str, object]:
        """Return the answer for programs."""
        return {
            "instructions": list(self.names),
            "kernels": [list(x) for x in self.kernels],
            "one": not self.reasons,
            "reasons": [
                {
                    "way": x.way.name.lower(),
                    "of": None if x.of is None else x.of.name,
                    "kind": x.refusal.kind.name.lower(),
                    "found": x.refusal.found,
                    "limit": x.refusal.limit,
                    "by": None if x.refusal.by is None else x.refusal.by.name,
                    "text": x.text(),
                }
                for x in self.reasons
            ],
        }


def explain_kernels(
    module: Module, first: str, second: str, options: PlanOptions = DEFAULT_PLAN
) -> KernelReport:
    """Return why two instructions of a module are not one kernel, or in which one they are.

    They are named as in the module, or by the name of a kernel, as `lowtide opt` shows it. The
    module stays as it is. Raises LowtideError for a name that there is not, for an instruction that
    is gone once the module is simplified, and for a module with a schedule, whose kernels are its
    compiler's.
    """
    if module.is_scheduled:
        raise LowtideError(
            f"{module.name} has a schedule, so that its kernels are those of who compiled it; "
            "with --reoptimize lowtide makes its own"
        )
    started = clone_module(module)
    _mark(started)
    run_pipeline(started, pipeline(_BEFORE))
    given: dict[str, list[str]] = {}
    for x in _all(started):
        given.setdefault(x.metadata.op_name, []).append(_tag(x))
    _mark(started)
    chosen = chosen_kernels(started, options.begun()).united(sharing=False)
    return _Answer(module, given, chosen, options).of(first, second)


def _mark(module: Module) -> None:
    """Give each instruction its own name, and that of its computation, as where it comes from."""
    for computation in module.computations.values():
        for x in computation.instructions.values():
            x.set_metadata(Metadata(op_name=_tag(x), source_file=_tag(x), source_line=1))


def _tag(x: Instruction) -> str:
    return f"{x.parent.name}/{x.name}"


class _Subject(NamedTuple):
    """What is asked about: an instruction, the clusters that compute it, and the kernels."""

    instruction: Instruction
    clusters: list[Cluster]
    kernels: dict[Instruction, None]


@final
class _Answer:
    def __init__(
        self,
        module: Module,
        given: Mapping[str, list[str]],
        chosen: ChosenKernels,
        options: PlanOptions,
    ) -> None:
        self.module = module
        self.given = given
        """By the mark of an instruction of the module the marks of what it was simplified to."""
        self.fused = chosen.module
        self.graphs: Mapping[Computation, ClusterGraph] = chosen.choice
        self.target = options.target
        self.places = {_tag(x): x for y in self.graphs for x in y.instructions.values()}
        self.kernels = _kernels(chosen.module)

    def of(self, first: str, second: str) -> KernelReport:
        a, b = self._named(first), self._named(second)
        names = (first, second), (_names(a.kernels), _names(b.kernels))
        if a.kernels.keys() & b.kernels.keys():
            return KernelReport(*names)
        if a.instruction.parent is not b.instruction.parent:
            where = b.instruction.parent.name
            apart = FusionRefusal(RefusalKind.COMPUTATIONS, where)
            return KernelReport(*names, (WhyNot(Way.WHERE_READ, a.instruction, apart),))
        graph = self.graphs[a.instruction.parent]
        opaque = [why_opaque(graph, x.instruction) for x in (a, b)]
        reasons = [x for x in opaque if x is not None]
        if not reasons:
            reasons = why_not(graph, a.clusters, b.clusters)
            reasons += self._side_by_side(a.kernels, b.kernels)
        return KernelReport(*names, tuple(reasons))

    def _side_by_side(
        self, ones: Mapping[Instruction, None], others: Mapping[Instruction, None]
    ) -> list[WhyNot]:
        if not ones or not others:
            return []
        one, other = next(iter(ones)), next(iter(others))
        graph = kernel_graph(self.fused, one.parent, order_of_kernels, self.target)
        found = refusal_side_by_side(graph, one, other)
        return [] if found is None else [WhyNot(Way.SIDE_BY_SIDE, None, found)]

    def _named(self, name: str) -> _Subject:
        """What a name stands for: an instruction as fusion was given it, or a kernel."""
        name = name.removeprefix("%")
        named = [x for x in _all(self.module) if x.name == name]
        tags = [tag for x in named for tag in self.given.get(_tag(x), ())]
        tags += [tag for tag, x in self.places.items() if x.name == name and not named]
        found = [self.places[tag] for tag in tags if tag in self.places]
        if found:
            return self._instruction(found[-1])
        values = [x for x in _all(self.fused) if x.name == name and not named]
        for kernel in [self.kernels.get(x.metadata.op_name) for x in values]:
            if kernel is not None:
                return self._kernel(kernel)
        raise self._unknown(name, named)

    def _unknown(self, name: str, named: Sequence[Instruction]) -> LowtideError:
        applied = applied_computations(self.module)
        for x in named:
            if x.parent in applied:
                callers = [y.name for y in _all(self.module) if x.parent in y.called_computations]
                by = f"which {callers[0]!r} applies" if callers else "which is applied"
                return LowtideError(f"{name!r} is in {x.parent.name}, {by} to elements")
        if named:
            return LowtideError(
                f"{name!r} is gone once the module is simplified, so that no kernel has it; "
                "`lowtide opt --stage layout` shows what is left"
            )
        known = [x.name for x in (*_all(self.module), *_all(self.fused))]
        return LowtideError(f"no instruction {name!r} in {self.module.name}{nearest(name, known)}")

    def _instruction(self, x: Instruction) -> _Subject:
        """An instruction, and whatever computes it."""
        clusters = clusters_with(self.graphs[x.parent], x)
        roots = [y.root for y in clusters] or [x]
        found = [self.kernels.get(_tag(root)) for root in roots]
        return _Subject(x, clusters, {y: None for y in found if y is not None})

    def _kernel(self, kernel: Instruction) -> _Subject:
        """A kernel, and the clusters that it was made of."""
        tags = [tag for tag, x in self.kernels.items() if x is kernel and tag in self.places]
        members = [self.places[tag] for tag in tags]
        graph = self.graphs[members[0].parent]
        clusters = [graph.owner[x] for x in members if x in graph.owner]
        first = clusters[0].root if clusters else members[0]
        return _Subject(first, clusters, {kernel: None})


def _names(kernels: Iterable[Instruction]) -> tuple[str, ...]:
    return tuple([x.name for x in kernels])


def _all(module: Module) -> list[Instruction]:
    return [y for x in module.computations.values() for y in x.instructions.values()]


def _kernels(module: Module) -> dict[str, Instruction]:
    """By the mark of a value the kernel that computes it.

    Of a kernel with several results each has its own mark; what is no result has it in the body.
    """
    found: dict[str, Instruction] = {}
    fused = fused_computations(module)
    for x in _all(module):
        if x.opcode is Opcode.FUSION and x.parent not in fused:
            for y in x.called_computations[0].instructions.values():
                found.setdefault(y.metadata.op_name, x)
    for x in _all(module):
        if x.parent in fused or x.opcode is Opcode.PARAMETER:
            continue
        is_part = x.opcode is Opcode.GET_TUPLE_ELEMENT
        kernel = x.operands[0] if is_part and x.operands[0].opcode is Opcode.FUSION else x
        found[x.metadata.op_name] = kernel
    return found
