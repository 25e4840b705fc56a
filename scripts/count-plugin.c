/* A plugin of QEMU (since 6.0, also where its header is not installed) that counts the instructions of the functions
 * in which scripts/count-instructions.sh counts, too: those called `collected_*`, with all that they call. Each return from
 * the function `counted` prints the count so far, and begins at 0 again. For programs with one thread. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* From QEMU's qemu-plugin.h, version 1. */
typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, void (*)(unsigned, void *), int, void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
const char *qemu_plugin_insn_symbol(const struct qemu_plugin_insn *);
__attribute__((visibility("default"))) int qemu_plugin_version = 1;

/* A translated block: instructions without a jump between them. */
struct block {
    uint64_t first, end, count;
    int function; /* index in `functions`, or -1 */
};

/* A function, and where a call of it that is not over returns to: the end of the block before, which called it. */
static struct { const char *name; uint64_t entry, back; bool runs; } functions[] = {
    {"collected_receive", 0, 0, false}, {"collected_send", 0, 0, false}, {"7counted17h", 0, 0, false},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions, COUNTED = FUNCTIONS - 1 };

static uint64_t total, before;

static void executed(unsigned cpu, void *data) {
    const struct block *block = data;
    (void)cpu;
    for (int i = 0; i < FUNCTIONS; i++) {
        if (functions[i].runs && block->first == functions[i].back) {
            functions[i].runs = false;
            if (i == COUNTED) {
                fprintf(stderr, "counted\t%" PRIu64 "\n", total);
                total = 0;
            }
        }
    }
    int function = block->function;
    if (function >= 0 && !functions[function].runs) {
        functions[function].runs = true;
        functions[function].back = before;
    }
    for (int i = 0; i < COUNTED; i++)
        if (functions[i].runs) {
            total += block->count;
            break;
        }
    before = block->end;
}

static void translated(plugin_id id, struct qemu_plugin_tb *tb) {
    struct block *block = malloc(sizeof *block);
    size_t count = qemu_plugin_tb_n_insns(tb);
    const struct qemu_plugin_insn *first = qemu_plugin_tb_get_insn(tb, 0);
    const struct qemu_plugin_insn *last = qemu_plugin_tb_get_insn(tb, count - 1);
    const char *symbol = qemu_plugin_insn_symbol(first);
    (void)id;
    if (!block)
        abort();
    *block = (struct block){
        .first = qemu_plugin_insn_vaddr(first),
        .end = qemu_plugin_insn_vaddr(last) + qemu_plugin_insn_size(last),
        .count = count,
        .function = -1,
    };
    for (int i = 0; symbol && i < FUNCTIONS; i++)
        if (strstr(symbol, functions[i].name)) {
            /* The first block of a function that runs is its entry. */
            if (functions[i].entry == 0)
                functions[i].entry = block->first;
            if (functions[i].entry == block->first)
                block->function = i;
        }
    qemu_plugin_register_vcpu_tb_exec_cb(tb, executed, 0, block);
}

__attribute__((visibility("default"))) int
qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv) {
    (void)info, (void)argc, (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    return 0;
}
