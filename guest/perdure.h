/*
 * For programs that run on the machine: cache-block operations and persistence fences.
 *
 * What it rests on, with its limits: a `clean` or `flush` that a fence with W in its predecessor
 * set follows is durable before any later write of the fence's successor set becomes durable. A
 * fence drains the cleans of its own hart only. Stores to one cache line (with the domain `media`,
 * to one word of eight bytes) persist in the order in which they were made. Nothing else is
 * promised: without a clean, a line may become durable at any time, or never.
 *
 * perdure_block_* are those of Zicbom and Zicboz, written so that any assembler takes
 * them without the extensions in its -march. What is named after instructions of x86
 * and Arm does what these do, by functions of custom-1 that Perdure has under every
 * design. Elsewhere, a program that executes one ends with an illegal instruction.
 */
#ifndef PERDURE_H
#define PERDURE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

/* clflush: writes the block back and drops it; durable before anything later. */
static inline void perdure_clflush(const volatile void *address)
{
    __asm__ volatile(".insn r 0x2b, 0, 0x40, x0, %0, x0" : : "r"(address) : "memory");
}

/* clflushopt: writes the block back and drops it; durable at the next fence. */
static inline void perdure_clflushopt(const volatile void *address)
{
    __asm__ volatile(".insn r 0x2b, 1, 0x40, x0, %0, x0" : : "r"(address) : "memory");
}

/* clwb: writes the block back and keeps it; durable at the next fence. */
static inline void perdure_clwb(const volatile void *address)
{
    __asm__ volatile(".insn r 0x2b, 2, 0x40, x0, %0, x0" : : "r"(address) : "memory");
}

/* movnt: stores around the caches; others see it, and it is durable, at the next fence. */
static inline void perdure_movnt64(void *address, uint64_t value)
{
    __asm__ volatile(".insn r 0x2b, 3, 0x40, x0, %0, %1" : : "r"(address), "r"(value) : "memory");
}

/* sfence: waits for stores, flushes and stores around the caches. */
static inline void perdure_sfence(void)
{
    __asm__ volatile(".insn r 0x2b, 4, 0x40, x0, x0, x0" : : : "memory");
}

/* mfence: the same, and no later load is performed before. */
static inline void perdure_mfence(void)
{
    __asm__ volatile(".insn r 0x2b, 5, 0x40, x0, x0, x0" : : : "memory");
}

/* dc civac: writes the block back and drops it; durable at the next dsb. */
static inline void perdure_dc_civac(const volatile void *address)
{
    __asm__ volatile(".insn r 0x2b, 0, 0x41, x0, %0, x0" : : "r"(address) : "memory");
}

/* dc cvac: writes the block back to the point of coherence and keeps it; durable at the next dsb. */
static inline void perdure_dc_cvac(const volatile void *address)
{
    __asm__ volatile(".insn r 0x2b, 1, 0x41, x0, %0, x0" : : "r"(address) : "memory");
}

/* dc cvap: writes the block back to the point of persistence and keeps it; durable at the next dsb. */
static inline void perdure_dc_cvap(const volatile void *address)
{
    __asm__ volatile(".insn r 0x2b, 2, 0x41, x0, %0, x0" : : "r"(address) : "memory");
}

/* dmb ish: orders loads and stores, and does not wait for dc. */
static inline void perdure_dmb_ish(void)
{
    __asm__ volatile(".insn r 0x2b, 4, 0x41, x0, x0, x0" : : : "memory");
}

/* dsb ish: waits for loads, stores and dc. */
static inline void perdure_dsb_ish(void)
{
    __asm__ volatile(".insn r 0x2b, 5, 0x41, x0, x0, x0" : : : "memory");
}

/* A way to make something durable: what flushes a block, and what waits for it. */
struct perdure_primitive {
    const char *name;
    void (*flush)(const volatile void *address);
    void (*fence)(void);
};

static inline void perdure_no_flush(const volatile void *address)
{
    (void)address;
}

static inline void perdure_no_fence(void)
{
}

/* The primitive of a name, or NULL. With `none`, nothing is flushed and nothing waited for; with the name
 * of a fence, that alone. A program that never calls the fence has the flush alone. */
static inline const struct perdure_primitive *perdure_primitive_named(const char *name)
{
    static const struct perdure_primitive primitives[] = {
        {"none", perdure_no_flush, perdure_no_fence},
        {"clflush", perdure_clflush, perdure_sfence},
        {"clflushopt", perdure_clflushopt, perdure_sfence},
        {"clwb", perdure_clwb, perdure_sfence},
        {"civac", perdure_dc_civac, perdure_dsb_ish},
        {"cvac", perdure_dc_cvac, perdure_dsb_ish},
        {"cvap", perdure_dc_cvap, perdure_dsb_ish},
        {"cbo.clean", perdure_block_clean, perdure_persist_fence_full},
        {"cbo.flush", perdure_block_flush, perdure_persist_fence_full},
        {"sfence", perdure_no_flush, perdure_sfence},
        {"mfence", perdure_no_flush, perdure_mfence},
        {"dsb", perdure_no_flush, perdure_dsb_ish},
    };
    for (size_t row = 0; row < sizeof primitives / sizeof primitives[0]; row++) {
        if (strcmp(primitives[row].name, name) == 0) {
            return &primitives[row];
        }
    }
    return NULL;
}

/* Flushes every block that the range touches. Whoever needs it durable has to fence. */
static inline void perdure_flush_range(const struct perdure_primitive *primitive,
                                       const volatile void *start, size_t bytes)
{
    const uintptr_t end = (uintptr_t)start + bytes;
    uintptr_t block = (uintptr_t)start & ~(PERDURE_BLOCK_BYTES - 1);
    for (; block < end; block += PERDURE_BLOCK_BYTES) {
        primitive->flush((const volatile void *)block);
    }
}

/* The memory type of a mapping, or-ed into the flags of mmap: at most one of them (EINVAL), none for
 * write-back. Linux takes no notice of them, unless asked to (MAP_SHARED_VALIDATE). Write-through: caches
 * keep what is there, and memory gets every store. Uncached: every load and store goes to memory.
 * Write-combining: every load does; stores are gathered line by line, and seen by others at a fence. */
enum {
    PERDURE_MAP_WRITE_THROUGH = 0x200000,
    PERDURE_MAP_UNCACHED = 0x400000,
    PERDURE_MAP_WRITE_COMBINING = 0x800000
};

/* Something of interest happens here: starts a burst of short epochs, and with it of snapshots, if the
 * run has one (perdure run --burst-stores). An illegal instruction on any other machine. */
static inline void perdure_hint_burst(void)
{
    __asm__ volatile(".insn r 0x2b, 0, 0x7f, x0, x0, x0" : : : "memory");
}

/* What `perdure check` is told of a program. None of the three changes anything, under any design, and each
 * takes the time of one ordinary instruction; on any other machine each is an illegal one.
 *
 * An operation of this thread begins, which the caller numbers: after a power cut it has happened as a whole,
 * or not at all. */
static inline void perdure_op_begin(uint64_t number)
{
    __asm__ volatile(".insn r 0x2b, 0, 0x7e, x0, %0, x0" : : "r"(number) : "memory");
}

/* The thread's operation is over, and is durable: what comes after may tell others of it. */
static inline void perdure_op_end(void)
{
    __asm__ volatile(".insn r 0x2b, 1, 0x7e, x0, x0, x0" : : : "memory");
}

/* From here on these bytes of persistent memory, once recovered, are as they were before the operation in
 * which power failed, or as they are behind it, and nothing between. */
static inline void perdure_atomic(const volatile void *start, size_t bytes)
{
    __asm__ volatile(".insn r 0x2b, 2, 0x7e, x0, %0, %1" : : "r"(start), "r"(bytes) : "memory");
}

/* Ends the thread's strand and begins its next: what the thread stored into persistent memory since the
 * one before is committed as a whole, or is gone. An illegal instruction under a design without strands,
 * as is the next. */
static inline void perdure_new_strand(void)
{
    __asm__ volatile(".insn r 0x2b, 0, 0x10, x0, x0, x0" : : : "memory");
}

/* Ends the thread's strand, if that has stored anything, and waits until all strands that the thread has
 * ended are committed: use it before telling anybody that something is durable. */
static inline void perdure_strand_sync(void)
{
    uint64_t missing;
    do {
        __asm__ volatile(".insn r 0x2b, 1, 0x10, %0, x0, x0" : "=r"(missing) : : "memory");
    } while (missing != 0);
}

/* Opens a wrap: what the thread records until it closes it is durable as a whole, or is gone. Within a wrap,
 * it opens nothing. Illegal under a design without wraps, as are the next two; guest/hlog.h uses them. */
static inline void perdure_wrap_open(void)
{
    __asm__ volatile(".insn r 0x2b, 0, 0x12, x0, x0, x0" : : : "memory");
}

/* Sends a log record around the caches: the word at `address`, which is aligned, is `value`. The store must
 * come before. Outside of a wrap it is one by itself. */
static inline void perdure_wrap_record(void *address, uint64_t value)
{
    __asm__ volatile(".insn r 0x2b, 1, 0x12, x0, %0, %1" : : "r"(address), "r"(value) : "memory");
}

/* Closes the wrap, and waits until it is durable. */
static inline void perdure_wrap_close(void)
{
    __asm__ volatile(".insn r 0x2b, 2, 0x12, x0, x0, x0" : : : "memory");
}

#ifdef __cplusplus
}
#endif

#endif
