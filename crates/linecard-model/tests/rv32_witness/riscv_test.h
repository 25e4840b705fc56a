/* Environment of the official tests for the modelled core: user level, alone in its memories, without traps.
   A test ends with ebreak: a7 says that it has come to an end, a0 is 0, or the number of the case that failed. */

#ifndef LINECARD_RISCV_TEST_H
#define LINECARD_RISCV_TEST_H

#define TESTNUM gp
#define ENDED 93

#define RVTEST_RV32U

#define RVTEST_CODE_BEGIN                                               \
        .text;                                                          \
        .globl _start;                                                  \
_start:

#define RVTEST_CODE_END                                                 \
        unimp

#define RVTEST_PASS                                                     \
        li      a0, 0;                                                  \
        li      a7, ENDED;                                              \
        ebreak

#define RVTEST_FAIL                                                     \
        mv      a0, TESTNUM;                                            \
        li      a7, ENDED;                                              \
        ebreak

#define RVTEST_DATA_BEGIN                                               \
        .align  4

#define RVTEST_DATA_END                                                 \
        .align  4

#endif
