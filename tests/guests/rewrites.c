/* Code that changes where it lies, a few instructions at a time: what is decoded of the rest of a line must
 * not stand for what has changed. FENCE.I and riscv_flush_icache take turns, and so do two mappings of the
 * same memory. Functions are of random lengths, so that instructions lie across lines, and loop, so that they
 * are compiled. What each should give is reckoned in C.
 *
 * usage: rewrites [ROUNDS [MAPPINGS]]: by default 1 time 60 rounds, and two mappings; qemu-user knows of
 * changes through the one alone that is executed. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { FUNCTIONS = 60, LOOPS = 40, BYTES = 8192, ADDS_MAX = 6 };

struct function {
    uint16_t *start;
    unsigned adds;
    uint16_t *add[ADDS_MAX];
    unsigned value[ADDS_MAX];
};

typedef uint64_t body(void);

static struct function functions[FUNCTIONS];
static uint64_t state = 88172645463325252;

static unsigned below(unsigned bound)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (unsigned)(state >> 32) % bound;
}

static uint16_t *put(uint16_t *at, uint32_t instruction)
{
    at[0] = (uint16_t)instruction, at[1] = (uint16_t)(instruction >> 16);
    return at + 2;
}

static uint32_t add_immediate(unsigned to, unsigned from, unsigned value)
{
    return 0x13 | to << 7 | from << 15 | (value & 0xfff) << 20;
}

/* li t0, LOOPS; li a0, 0; 1: addi a0, a0, V…; addi t0, t0, -1; bnez t0, 1b; ret, with c.nop between. */
static uint16_t *compose(struct function *it, uint16_t *at)
{
    for (unsigned pad = below(4); pad > 0; pad--) *at++ = 0x0001;
    it->start = at;
    at = put(at, add_immediate(5, 0, LOOPS));
    at = put(at, add_immediate(10, 0, 0));
    const uint16_t *loop = at;
    it->adds = 1 + below(ADDS_MAX);
    for (unsigned add = 0; add < it->adds; add++) {
        if (below(3) == 0) *at++ = 0x0001;
        it->add[add] = at;
        it->value[add] = below(2000);
        at = put(at, add_immediate(10, 10, it->value[add]));
    }
    at = put(at, add_immediate(5, 5, 0xfff));
    const uint32_t back = (uint32_t)((loop - at) * 2);
    at = put(at, 0x1063 | 5 << 15 | (back >> 12 & 1) << 31 | (back >> 5 & 0x3f) << 25 |
                     (back >> 1 & 0xf) << 8 | (back >> 11 & 1) << 7);
    return put(at, 0x00008067);
}

static uint64_t expected(const struct function *it)
{
    uint64_t sum = 0;
    for (unsigned add = 0; add < it->adds; add++) sum += it->value[add];
    return LOOPS * sum;
}

int main(int count, char **words)
{
    const unsigned rounds = 60 * (count > 1 ? (unsigned)strtoul(words[1], NULL, 10) : 1);
    const unsigned mappings = count > 2 ? (unsigned)strtoul(words[2], NULL, 10) : 2;
    const int file = memfd_create("code", 0);
    const int all = PROT_READ | PROT_WRITE | PROT_EXEC;
    if (file < 0) return 2;
    const long grown = posix_fallocate(file, 0, BYTES);
    uint16_t *code = mmap(NULL, BYTES, all, MAP_SHARED, file, 0);
    uint16_t *other = mmap(NULL, BYTES, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
    if (grown != 0 || code == MAP_FAILED || other == MAP_FAILED) return 2;
    uint16_t *end = code;
    for (unsigned number = 0; number < FUNCTIONS; number++) {
        end = compose(&functions[number], end);
    }
    uint64_t sum = 0;
    unsigned wrong = 0;
    for (unsigned round = 0; round < rounds; round++) {
        if (round % 2 == 0) {
            __asm__ volatile("fence.i" ::: "memory");
        } else {
            __builtin___clear_cache((char *)code, (char *)end);
        }
        for (unsigned call = 0; call < FUNCTIONS; call++) {
            const struct function *it = &functions[below(FUNCTIONS)];
            const uint16_t *at = below(mappings) == 0 ? it->start : other + (it->start - code);
            const uint64_t result = ((body *)(uintptr_t)at)();
            sum += result;
            wrong += result != expected(it);
        }
        for (unsigned change = 1 + below(FUNCTIONS); change > 0; change--) {
            struct function *it = &functions[below(FUNCTIONS)];
            const unsigned add = below(it->adds);
            it->value[add] = below(2000);
            put(it->add[add], add_immediate(10, 10, it->value[add]));
        }
    }
    printf("%u rounds, %u wrong, sum %" PRIu64 "\n", rounds, wrong, sum);
    return wrong != 0;
}
