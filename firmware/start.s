# Before C: a stack, and main for ever.
        .section .text._start
        .globl  _start
_start: la      sp, __stack_top
        call    main
        ebreak
