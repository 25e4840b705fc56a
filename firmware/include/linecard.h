/* The modelled sending side, as its core sees it; see linecard.inc. */
#ifndef LINECARD_H
#define LINECARD_H

#include <stdint.h>

#define REGISTER(address) (*(volatile uint32_t *)(address))

/* Sending buffer, on the local bus, in the network's byte order. */
#define SB_WORD(offset) REGISTER(0x10000000u + (offset))
#define SB_HALF(offset) (*(volatile uint16_t *)(0x10000000u + (offset)))

/* Host mailbox. */
#define KIND REGISTER(0x30000000u)
#define HEADER_END REGISTER(0x30000004u)
#define LENGTH REGISTER(0x30000008u)
#define MTU REGISTER(0x3000000cu)
#define MSS REGISTER(0x30000010u)
#define LAST_FLAGS REGISTER(0x30000014u)
enum { KIND_TCP = 1, KIND_FRAGMENTS = 2 };

/* DMA. START is written with the end of the payload. */
#define SHAP REGISTER(0x40000000u)
#define EHAP REGISTER(0x40000004u)
#define SPP REGISTER(0x40000008u)
#define START REGISTER(0x40000010u)

/* Header fields. */
enum { IP_LENGTH = 2, IP_ID = 4, TCP_SEQ = 24, TCP_FLAGS = 32 };

static inline void wait_for_message(void) { __asm__ volatile("wfi" ::: "memory"); }

#endif
