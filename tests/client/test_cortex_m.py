"""Objects for Cortex-M: made anywhere, and run in firmware under QEMU where its tools are there."""

import shutil
import subprocess

import numpy as np
import pytest
from tests.support import HANG_SECONDS

import lowtide
from lowtide.client.aot import AotRequest, compile_aot, write_aot
from lowtide.llvm.elf import undefined_symbols

FLOATS = """HloModule net
ENTRY e {
  x = f32[3,20] parameter(0)
  w = f32[20,7] parameter(1)
  d = f32[3,7] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = f32[3,7] tanh(d)
}"""
BYTES = """HloModule net
ENTRY e {
  x = s8[1,6,7,5] parameter(0)
  w = s8[3,3,5,9] parameter(1)
  ROOT c = s32[1,6,7,9] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
}"""
BOARDS = {"cortex-m4": ("fpv4-sp-d16", "mps2-an386"), "cortex-m7": ("fpv5-d16", "mps2-an500")}

START = """
extern unsigned stack_top, bss_begin, bss_end;
int main(void);
static int host(int op, const void *arg) {
    register int r0 __asm("r0") = op;
    register const void *r1 __asm("r1") = arg;
    __asm volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}
static void leave(void) { host(0x18, (void *)0x20026); for (;;); }
void reset(void) {
    *(volatile unsigned *)0xE000ED88 |= 0xF << 20;  /* The coprocessor of floats. */
    __asm volatile("dsb; isb");
    for (unsigned *p = &bss_begin; p < &bss_end; p++) *p = 0;
    main();
    leave();
}
void fault(void) { host(4, "fault\\n"); leave(); }
__attribute__((section(".vectors"), used)) void *const vectors[16] = {
    &stack_top, reset, fault, fault, fault, fault, fault};
void *memcpy(void *to, const void *from, unsigned n) {
    char *a = to; const char *b = from;
    while (n--) *a++ = *b++;
    return to;
}
#include "net.h"
_Alignas(NET_ARENA_ALIGNMENT) static unsigned char arena[NET_ARENA_BYTES + 1];
_Alignas(64) static unsigned char result[NET_RESULT_0_BYTES];
_Alignas(64) static const unsigned char x[] = {X}, w[] = {W};
int main(void) {
    const void *args[NET_ARGUMENTS] = {x, w};
    void *results[NET_RESULTS] = {result};
    if (net_run(arena, args, results)) host(4, "failed\\n");
    for (unsigned i = 0; i < sizeof result; i++) {
        const char *digits = "0123456789abcdef";
        char text[3] = {digits[result[i] >> 4], digits[result[i] & 15], 0};
        host(4, text);
    }
    return 0;
}
"""
MEMORY = """
MEMORY {
  CODE (rx) : ORIGIN = 0x00000000, LENGTH = 4M
  DATA (rwx) : ORIGIN = 0x20000000, LENGTH = 4M
}
SECTIONS {
  .text : { KEEP(*(.vectors)) *(.text*) *(.rodata*) } >CODE
  .ARM.exidx : { *(.ARM.ex*) } >CODE
  .got : { *(.got*) } >CODE
  .data : { *(.data*) } >DATA
  .bss : { bss_begin = .; *(.bss*) *(COMMON) . = ALIGN(4); bss_end = .; } >DATA
  stack_top = ORIGIN(DATA) + LENGTH(DATA);
}
"""


@pytest.mark.parametrize("cpu", BOARDS)
def test_objects_need_nothing_from_outside_but_what_compilers_have(cpu: str) -> None:
    made = compile_aot(lowtide.parse_hlo(BYTES), AotRequest(cpu, "net"))
    assert set(undefined_symbols(made.program.object)) <= {"memcpy", "__umoddi3", "__udivdi3"}
    again = compile_aot(lowtide.parse_hlo(BYTES), AotRequest(cpu, "net"))
    assert made.program.object == again.program.object


@pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="it takes arm-none-eabi-gcc and qemu-system-arm",
)
@pytest.mark.parametrize("cpu", BOARDS)
@pytest.mark.parametrize("text", [FLOATS, BYTES], ids=["floats", "bytes"])
def test_firmware_gives_what_the_module_means(cpu: str, text: str, tmp_path) -> None:
    module = lowtide.parse_hlo(text)
    rng = np.random.default_rng(2)
    shapes = [x.shape.dimensions for x in module.entry.parameters]
    if text is FLOATS:
        given = [rng.normal(size=x).astype(np.float32) for x in shapes]
    else:
        given = [rng.integers(-128, 128, x).astype(np.int8) for x in shapes]
    write_aot(compile_aot(module, AotRequest(cpu, "net")).program, tmp_path)
    listed = [", ".join(map(str, x.tobytes())) for x in given]
    source = START.replace("{X}", f"{{{listed[0]}}}").replace("{W}", f"{{{listed[1]}}}")
    (tmp_path / "main.c").write_text(source)
    (tmp_path / "memory.ld").write_text(MEMORY)
    unit, board = BOARDS[cpu]
    code = ["arm-none-eabi-gcc", "-O1", f"-mcpu={cpu}", "-mfloat-abi=softfp", f"-mfpu={unit}"]
    code += ["-mthumb", "-nostdlib", "-ffreestanding", "-fno-tree-loop-distribute-patterns"]
    code += ["-T", "memory.ld", "main.c", "net.o", "-lgcc", "-o", "net.elf"]
    subprocess.run(code, cwd=tmp_path, check=True, capture_output=True)
    machine = ["qemu-system-arm", "-M", board, "-nographic", "-semihosting", "-kernel", "net.elf"]
    done = subprocess.run(
        machine,
        cwd=tmp_path,
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=HANG_SECONDS,
    )
    expected = np.asarray(lowtide.evaluate(module, given))
    found = np.frombuffer(bytes.fromhex(done.stdout.strip()), expected.dtype)
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-5, atol=1e-6)
