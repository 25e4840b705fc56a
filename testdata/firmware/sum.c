/* Adds numbers up, tells the sum to a device, and stops. */

static volatile unsigned *const DEVICE = (unsigned *)0x80000000;

unsigned numbers[4] = {1, 2, 3, 4};
unsigned calls;

static inline unsigned add(unsigned a, unsigned b)
{
    return a + b;
}

__attribute__((noinline)) unsigned sum(const unsigned *from, unsigned count)
{
    unsigned total = 0;
    for (unsigned i = 0; i < count; i++)
        total = add(total, from[i]);
    calls++;
    return total;
}

void begin(void)
{
    *DEVICE = sum(numbers, 4);
    __asm__ volatile("ebreak");
}
