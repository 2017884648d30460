"""The stages of `jax.jit` for a function: lowered to a module, then compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

from lowtide.client.jit.lowering import LoweredProgram
from lowtide.client.jit.program import JitProgram
from lowtide.client.library import ModuleExecutable
from lowtide.ir import Module
from lowtide.options import Options, options_with
from lowtide.verifier import verify


def chosen_options(
    options: Options | None,
    memory: int | str | None,
    values: Mapping[str, Any] | None = None,
    others: Sequence[str] = (),
) -> Options:
    """Return options with a memory and values of their own, where some are given.

    `others` are keywords of the caller's, which may have been meant by a name that no option has.
    """
    own = dict(values or {})
    return options_with(options, own if memory is None else {**own, "memory": memory}, others)


class _Stage:
    """What is known of a traced function at any stage."""

    _program: LoweredProgram

    @property
    def in_tree(self) -> Any:
        """The tree of (arguments, keywords) without the static ones."""
        return self._program.in_tree

    @property
    def out_tree(self) -> Any:
        """The tree of the results."""
        return self._program.out_tree


@final
class Lowered(_Stage):
    """A traced function as a module, which is not optimized yet."""

    def __init__(
        self,
        program: LoweredProgram,
        make: Callable[[Module, Options | None], ModuleExecutable],
        options: Options,
        output: str,
    ) -> None:
        self._program = program
        self._make = make
        self._options = options
        self._output = output

    def __repr__(self) -> str:
        module = self._program.module
        return f"<Lowered {module.name}: {module.instruction_count:,} instructions>"

    @property
    def module(self) -> Module:
        """The module."""
        return self._program.module

    def as_text(self) -> str:
        """Return the HLO text."""
        return str(self._program.module)

    def compile(self, memory: int | str | None = None, options: Options | None = None) -> Compiled:
        """Return the executable, by default with the options of `jit`."""
        chosen = chosen_options(options or self._options, memory)
        return Compiled(self._program, self._make(self._program.module, chosen), self._output)

    def explain(self) -> Any:
        """Return the memory report, on the plan within the budget of `jit` if there is one."""
        from lowtide import compiler
        from lowtide.budgeting.planner import plan_within

        verify(self._program.module)
        options = compiler.PlanOptions.of(self._options)
        if self._options.memory is not None:
            return plan_within(self._program.module, self._options.memory, options).report
        return compiler.explain(self._program.module, options)


@final
class Compiled(_Stage):
    """An executable for arguments of one type; the static ones are not given again."""

    def __init__(self, program: LoweredProgram, executable: ModuleExecutable, output: str) -> None:
        import jax

        self.executable = executable
        self._program = program
        self._flatten = jax.tree_util.tree_flatten
        self._linked = JitProgram(program, executable, output)

    def __repr__(self) -> str:
        return f"<Compiled {self.executable!r}>"

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Return the results; raises TypeError for arguments of other types, and names them."""
        leaves, tree = self._flatten((arguments, keywords))
        if tree != self._program.in_tree:
            raise TypeError(
                "the function was compiled for arguments of another structure: expected "
                f"{self._program.in_tree}, found {tree}"
            )
        self._linked.check(leaves)
        return self._linked.caller(leaves)(leaves)

    @property
    def memory(self) -> Any:
        """The report of schema "lowtide.memory/1"."""
        return self.executable.memory

    def as_text(self) -> str:
        """Return the scheduled HLO."""
        return self.executable.as_text()
