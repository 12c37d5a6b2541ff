/*
 * For programs that run on the machine: cache-block operations and persistence fences.
 *
 * What it rests on, with its limits: a `clean` or `flush` that a fence with W in its
 * predecessor set follows is durable before any later write of the fence's successor
 * set becomes durable. A fence drains the cleans of its own hart only. Stores to one
 * cache line persist in the order in which they were made. Nothing else is promised:
 * without a clean, a line may become durable at any time, or never.
 *
 * The operations are those of Zicbom and Zicboz, written so that any assembler takes
 * them without the extensions in its -march. A machine without the extensions ends
 * the program with an illegal instruction.
 */
#ifndef PERDURE_H
#define PERDURE_H

#include <stddef.h>
#include <stdint.h>

#ifndef __riscv
#error "perdure.h is for RISC-V programs"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The size of a cache block, which every operation here works on, in bytes. */
#define PERDURE_BLOCK_BYTES ((uintptr_t)64)

/* cbo.inval: drops the block that holds the address from the caches. An unsaved change is lost,
 * unless the system executes the instruction as a flush, which it may. */
static inline void perdure_block_inval(const volatile void *address)
{
    __asm__ volatile(".insn i 0x0f, 2, x0, %0, 0" : : "r"(address) : "memory");
}

/* cbo.clean: writes the block that holds the address back, and keeps it cached. */
static inline void perdure_block_clean(const volatile void *address)
{
    __asm__ volatile(".insn i 0x0f, 2, x0, %0, 1" : : "r"(address) : "memory");
}

/* cbo.flush: writes the block that holds the address back, and drops it from the caches. */
static inline void perdure_block_flush(const volatile void *address)
{
    __asm__ volatile(".insn i 0x0f, 2, x0, %0, 2" : : "r"(address) : "memory");
}

/* cbo.zero: sets all bytes of the block that holds the address to zero. */
static inline void perdure_block_zero(volatile void *address)
{
    __asm__ volatile(".insn i 0x0f, 2, x0, %0, 4" : : "r"(address) : "memory");
}

/* Later stores become durable only after earlier stores that were cleaned, and after earlier
 * cleans themselves. */
static inline void perdure_persist_fence(void)
{
    __asm__ volatile("fence w, w" : : : "memory");
}

/* The same, and no later load or store is performed before: use it before telling anybody,
 * through memory or a system call, that something is durable. */
static inline void perdure_persist_fence_full(void)
{
    __asm__ volatile("fence rw, rw" : : : "memory");
}

/* Cleans every block that the range touches. A fence must follow to order it. */
static inline void perdure_clean_range(const volatile void *start, size_t bytes)
{
    const uintptr_t end = (uintptr_t)start + bytes;
    uintptr_t block = (uintptr_t)start & ~(PERDURE_BLOCK_BYTES - 1);
    for (; block < end; block += PERDURE_BLOCK_BYTES) {
        perdure_block_clean((const volatile void *)block);
    }
}

/* Makes the range durable before whatever this hart writes next. */
static inline void perdure_persist(const volatile void *start, size_t bytes)
{
    perdure_clean_range(start, bytes);
    perdure_persist_fence();
}

/* Something of interest happens here: starts a burst of short epochs, and with it of snapshots, if the
 * run has one (perdure run --burst-stores). An illegal instruction on any other machine. */
static inline void perdure_hint_burst(void)
{
    __asm__ volatile(".insn r 0x2b, 0, 0x7f, x0, x0, x0" : : : "memory");
}

#ifdef __cplusplus
}
#endif

#endif
