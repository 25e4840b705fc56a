# Where a core begins: all registers are 0. The linker counts on gp; C counts on a stack.
    .globl _start
_start:
    .option push
    .option norelax
    la gp, __global_pointer$
    .option pop
    lui sp, 0x20
    j begin
