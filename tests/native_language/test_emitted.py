"""Machine code is written as text where kernels are generated and by two compilers only."""

import pytest
from tests.architecture import PACKAGE
from tests.native_language.emitted import builds_functions, emitted_lines

COMPILERS = {
    *[f"native/{x}.py" for x in ("arithmetic", "lowering", "module", "primitives", "values")],
    "native/writer.py",
    *[f"llvm/{x}.py" for x in ("callee", "function", "given_numbers", "sharing")],
    *[f"llvm/{x}.py" for x in ("short_vectors", "strength")],
}
"""What writes the text of native functions, and what writes and changes that of kernels."""


def test_code_is_emitted_by_code_generation_and_compilers_only() -> None:
    found = set()
    for path in PACKAGE.rglob("*.py"):
        source = path.read_text()
        if any(emitted_lines(source)) or builds_functions(source):
            found.add(path.relative_to(PACKAGE).as_posix())
    assert {x for x in found if not x.startswith("codegen/")} == COMPILERS


def test_compilers_have_no_functions_of_their_own() -> None:
    """What they write is what they are given: no function is there with a name of its own."""
    for name in COMPILERS:
        for _, line in emitted_lines((PACKAGE / name).read_text()):
            assert not (line.startswith("define ") and "@0" not in line and "@" in line), line


@pytest.mark.parametrize(
    "source",
    [
        'TEXT = """\ndefine void @f() {\n  ret void\n}\n"""',
        'x = f"  %r{i} = load {t}, ptr %p{i}, align 4"',
        'lines.append("  call void @gpu_wait(i64 0)")',
        'x = "head " + f"{name}: " + f"br label %{there}"',
        "f(f\"{one('store i64 0, ptr %p')}\")",
        'x = "  ld.global.u8 %r1, [%rd4];"',
        'x = ".visible .entry f()"',
        'x = "movq %rax, %rbx"',
    ],
)
def test_emitted_code_is_found(source: str) -> None:
    assert [line for line, _ in emitted_lines(source)]


@pytest.mark.parametrize(
    "source",
    [
        '"""  ret void, as documentation has it: call void @f()"""',
        'x = re.compile(r"^  call void @(\\w+)")',
        'raise ValueError("add a target, or load it with --file")',
    ],
)
def test_other_texts_are_none(source: str) -> None:
    assert not [*emitted_lines(source)]


def test_a_writer_of_functions_is_found() -> None:
    assert builds_functions("from lowtide.llvm.function import Function, module_text")
    assert not builds_functions("from lowtide.llvm.function import Loop")
