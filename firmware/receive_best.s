# receive.s with all of COM beside the transfer that need not come before it.
.equ ALL_BESIDE, 1
.include "receive.s"
