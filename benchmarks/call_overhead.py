"""Time of a call of a trivial program from Python, beside that of `jax.jit` in the same process.

    python benchmarks/call_overhead.py [--rounds N]

The programs add a vector of ones, of the size given, to their argument: by a kernel made here by
hand, and by `jax.jit`, once for a NumPy array and once for an array of JAX, which waits for the
result each time. All run in turn, in short slices; the figure is the least time of a call over all
slices, in microseconds. `threads` is the number of threads that the program may use; a program
this small uses one.

Then, by type of leaf, a call of `lowtide.jit` of a function that takes one and returns a number,
and its ratio to that of a NumPy array.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

import lowtide
from lowtide.ir.buffer import AllocationKind, BufferSlice
from lowtide.ir.element_type import ElementType
from lowtide.ir.shape import array_shape
from lowtide.ir.thunk import KernelEntry, KernelThunk, Phase
from lowtide.llvm.callee import parameters
from lowtide.llvm.function import Function, module_text
from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.target import host_target
from lowtide.runtime.cpu.arguments import Argument
from lowtide.runtime.cpu.call import LinkedExecutable, load
from lowtide.runtime.cpu.program import Interface, Memory, NativeProgram, ProgramResult

CALLS = 200
"""Calls of one slice."""


def adding_one(count: int, arguments: int, threads: int) -> LinkedExecutable:
    """Return a program that adds 1 to its first argument, a vector, and ignores the others."""
    f = Function(
        "plus", parameters(buffers="ptr", scratch="ptr", begin="i64", end="i64", thread="i64")
    )
    source, target = f.load("ptr", "%buffers", 8), f.load("ptr", f.gep("%buffers", 8), 8)
    with f.loop(0, count) as each:
        value = f.load("float", f.gep(source, each.index, "float"), 4)
        f.store("float", f.op(f"fadd float {value}, 1.0"), f.gep(target, each.index, "float"), 4)
    shape = array_shape(ElementType.F32, (count,))
    memories = [Memory(AllocationKind.ARGUMENT, shape.nbytes, n) for n in range(arguments)]
    place = BufferSlice(arguments, 0, shape.nbytes)
    interface = Interface(
        (*memories, Memory(AllocationKind.ARENA, shape.nbytes)),
        tuple([Argument(f"parameter {n} (%x)", shape, n) for n in range(arguments)]),
        (ProgramResult(shape, place),),
        0,
    )
    program = NativeProgram(
        "plus",
        host_target(),
        threads,
        (KernelThunk("plus", 0, (BufferSlice(0, 0, shape.nbytes), place), 1),),
        (KernelEntry((Phase("plus", 1, count * 1e-10),)),),
        (KernelCompiler(host_target()).object_code(module_text([f])),),
        interface,
    )
    return load(program)


def slice_seconds(call: Callable[[], object]) -> float:
    """Return the seconds of one call, from one slice."""
    start = perf_counter()
    for _ in range(CALLS):
        call()
    return (perf_counter() - start) / CALLS


def contestants(count: int, arguments: int) -> dict[str, Callable[[], object]]:
    """Return what is called, by name."""
    import jax
    import jax.numpy as jnp

    given = [np.ones(count, np.float32) for _ in range(arguments)]
    on_jax = [jnp.asarray(x) for x in given]
    jitted = jax.jit(lambda x, *rest: x + 1, keep_unused=True)
    found: dict[str, Callable[[], object]] = {}
    for threads in (1, 2):
        run = adding_one(count, arguments, threads)
        found[f"lowtide, {threads} threads"] = lambda run=run: run(*given)
    one = adding_one(count, arguments, 1)
    found["lowtide, arrays of JAX"] = lambda: one(*on_jax)
    found["jax.jit, NumPy"] = lambda: jitted(*given)
    found["jax.jit, arrays of JAX"] = lambda: jitted(*on_jax)
    found["jax.jit, and wait"] = lambda: jitted(*on_jax).block_until_ready()
    return found


def leaves() -> dict[str, Any]:
    """Return one leaf of each type, by name; the first is a plain array."""
    import jax
    import jax.numpy as jnp

    plain = np.ones((2, 3), np.float32)
    return {
        "NumPy array": plain,
        "array of JAX": jnp.asarray(plain),
        "committed array of JAX": jax.device_put(plain, jax.devices()[0]),
        "typed key": jax.random.key(0),
        "typed keys": jax.random.split(jax.random.key(0), 4),
        "key as numbers": jax.random.PRNGKey(0),
        "Python number": 2.5,
        "NumPy scalar": np.float32(2.5),
        "weak number of JAX": jnp.asarray(2.5),
        "bfloat16": jnp.asarray(plain, jnp.bfloat16),
        "float8": jnp.asarray(plain, jnp.float8_e4m3fn),
        "int4": jnp.asarray(plain, jnp.int4),
        "float0": np.zeros((2, 3), jax.dtypes.float0),
        "column-major NumPy array": np.asfortranarray(plain),
    }


def print_leaves(rounds: int) -> None:
    """Print the time of a call for each type of leaf."""
    for output in ("numpy", "jax"):
        function = lowtide.jit(lambda x, number: number + 1, output=output)
        number = np.float32(1)
        found = {}
        for name, leaf in leaves().items():
            call = partial(function, leaf, number)
            call()
            found[name] = min([slice_seconds(call) for _ in range(rounds)])
        print(f"a leaf of each type, results for {output}, us a call and ratio to an array:")
        base = found["NumPy array"]
        for name, seconds in found.items():
            print(f"  {name:26}{seconds * 1e6:9.2f}{seconds / base:7.2f}")


def main() -> None:
    """Print one line for each size and number of arguments."""
    parser = argparse.ArgumentParser(description="time of a call, beside jax.jit")
    parser.add_argument("--rounds", type=int, default=100)
    rounds = parser.parse_args().rounds
    for count, arguments in ((1, 1), (1024, 1), (1, 16), (1, 256)):
        calls = contestants(count, arguments)
        least = dict.fromkeys(calls, 1.0)
        for call in calls.values():
            call()
        for _ in range(max(rounds // arguments, 10)):
            for name, call in calls.items():
                least[name] = min(least[name], slice_seconds(call))
        print(f"{count} elements, {arguments} arguments, us a call:")
        for name, seconds in least.items():
            print(f"  {name:24}{seconds * 1e6:9.2f}")
    print_leaves(max(rounds // 10, 5))


if __name__ == "__main__":
    main()
