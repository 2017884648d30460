"""The files of a program compiled ahead of time: headers for C and C++, and one for CMake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from lowtide.backends.aot.backend import AotProgram
from lowtide.ir.literal import DTYPES
from lowtide.ir.shape import Shape
from lowtide.runtime.cpu.arena import LINE
from lowtide.runtime.cpu.arguments import alignment

_OF_LIBC: Final = frozenset({"memcpy", "memmove", "memset"})


def aot_files(program: AotProgram) -> Mapping[str, bytes]:
    """Return the contents of a program's files by name: what a C or C++ program needs to use it."""
    name = program.name
    files = {
        f"{name}.o": program.object,
        f"{name}.h": _c_header(program).encode(),
        f"{name}.hpp": _cpp_header(program).encode(),
        "CMakeLists.txt": _cmake(program).encode(),
    }
    if program.weights is not None:
        files[f"{name}.weights"] = program.weights
    return files


def _c_header(program: AotProgram) -> str:
    name, upper = program.name, program.name.upper()
    arguments, results = program.interface.arguments, program.interface.results
    count = len(arguments) + (program.weights is not None)
    lines = [
        f"/* {program.module}, compiled by lowtide for {program.target.triple}, "
        f"{program.target.cpu}. */",
        f"#ifndef LOWTIDE_{upper}_H",
        f"#define LOWTIDE_{upper}_H",
        "",
        "/* The memory of a run, which may hold anything before and after it. */",
        f"#define {upper}_ARENA_BYTES {program.arena_bytes}",
        f"#define {upper}_ARENA_ALIGNMENT {LINE}",
        "",
        "/* How long args and results are. */",
        f"#define {upper}_ARGUMENTS {count}",
        f"#define {upper}_RESULTS {len(results)}",
        *_arrays(f"{upper}_ARGUMENT", [x.shape for x in arguments], program.argument_names),
        *_arrays(f"{upper}_RESULT", [x.shape for x in results], program.result_names),
    ]
    if program.weights is not None:
        lines += [
            "",
            f"/* What {name}.weights holds, read or mapped, is args[{len(arguments)}]. */",
            f"#define {upper}_WEIGHTS {len(arguments)}",
            f"#define {upper}_WEIGHTS_BYTES {len(program.weights)}",
            f"#define {upper}_WEIGHTS_ALIGNMENT {LINE}",
        ]
    lines += [
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        "/* Runs on the thread that calls it and returns 0. The arrays of results overlap no other",
        "   ones. Calls that have arenas and results of their own may run at the same time. */",
        f"int {name}_run(void *arena, const void *const args[], void *const results[]);",
        "",
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "#endif",
        "",
    ]
    return "\n".join(lines)


def _arrays(prefix: str, shapes: Sequence[Shape], names: Sequence[str]) -> list[str]:
    """The sizes of arrays, each with its shape: row major, or in the layout that it names.

    `names` are those of the model, as many as there are arrays, or none.
    """
    lines = []
    for number, shape in enumerate(shapes):
        lines += ["", f"/* {shape} */"]
        if len(names) == len(shapes):
            lines.append(f"#define {prefix}_{number}_NAME {_c_string(names[number])}")
        lines += [
            f"#define {prefix}_{number}_BYTES {_nbytes(shape)}",
            f"#define {prefix}_{number}_ALIGNMENT {alignment(shape)}",
        ]
    return lines


def _c_string(text: str) -> str:
    """A text as a string of C: what is no plain character is three octal digits a byte."""
    plain = [
        chr(x) if 32 <= x < 127 and chr(x) not in '"\\?' else f"\\{x:03o}" for x in text.encode()
    ]
    return f'"{"".join(plain)}"'


def _nbytes(shape: Shape) -> int:
    return DTYPES[shape.element_type].itemsize * shape.element_count


def _cpp_header(program: AotProgram) -> str:
    name, upper = program.name, program.name.upper()
    return f"""/* {program.module} as a class of C++ that holds the arena. */
#ifndef LOWTIDE_{upper}_HPP
#define LOWTIDE_{upper}_HPP

#include <array>
#include <cstddef>

#include "{name}.h"

namespace lowtide {{

/* One object serves one run at a time. */
class {name} {{
public:
    using arguments = std::array<const void *, {upper}_ARGUMENTS>;
    using results = std::array<void *, {upper}_RESULTS>;

    int run(const arguments &args, const results &outs) {{
        return {name}_run(arena_, args.data(), outs.data());
    }}

private:
    alignas({upper}_ARENA_ALIGNMENT) std::byte arena_[{upper}_ARENA_BYTES + 1];
}};

}}
#endif
"""


def _cmake(program: AotProgram) -> str:
    name = program.name
    libraries = [x for x in program.needs if x not in _OF_LIBC]
    lines = [
        f"# add_subdirectory(this folder), then target_link_libraries(your_program {name}).",
        "cmake_minimum_required(VERSION 3.15)",
        f"project({name} LANGUAGES C)",
        f"add_library({name} OBJECT IMPORTED GLOBAL)",
        f"set_target_properties({name} PROPERTIES",
        f'  IMPORTED_OBJECTS "${{CMAKE_CURRENT_LIST_DIR}}/{name}.o"',
        '  INTERFACE_INCLUDE_DIRECTORIES "${CMAKE_CURRENT_LIST_DIR}")',
    ]
    if libraries:
        lines.append(f"target_link_libraries({name} INTERFACE m)  # {', '.join(libraries)}")
    return "\n".join([*lines, ""])
