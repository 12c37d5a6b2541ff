/*
 * What libpmem makes durable, by the machine's flushes and fences. Debian's libpmem has none for RISC-V.
 *
 * A program that is linked with -rdynamic, and includes this in one of its files, has these functions instead
 * of those of the library, and so has libpmemobj: the loader looks in the program first. They do as on x86:
 * clwb and sfence, and what is asked to go around the caches is flushed as it is written.
 */
#ifndef PMEM_FLUSH_H
#define PMEM_FLUSH_H

#include <stddef.h>
#include <string.h>

#include <libpmem.h>

#include "perdure.h"

void pmem_flush(const void *start, size_t bytes)
{
    perdure_flush_range(perdure_primitive_named("clwb"), start, bytes);
}

void pmem_drain(void)
{
    perdure_sfence();
}

void pmem_persist(const void *start, size_t bytes)
{
    pmem_flush(start, bytes);
    pmem_drain();
}

int pmem_msync(const void *start, size_t bytes)
{
    pmem_persist(start, bytes);
    return 0;
}

/* What was written is flushed, and waited for, as far as the flags want it. */
static void *written(void *start, size_t bytes, unsigned flags)
{
    if ((flags & PMEM_F_MEM_NOFLUSH) == 0) {
        pmem_flush(start, bytes);
        if ((flags & PMEM_F_MEM_NODRAIN) == 0) {
            pmem_drain();
        }
    }
    return start;
}

void *pmem_memmove(void *to, const void *from, size_t bytes, unsigned flags)
{
    return written(memmove(to, from, bytes), bytes, flags);
}

void *pmem_memcpy(void *to, const void *from, size_t bytes, unsigned flags)
{
    return written(memcpy(to, from, bytes), bytes, flags);
}

void *pmem_memset(void *to, int byte, size_t bytes, unsigned flags)
{
    return written(memset(to, byte, bytes), bytes, flags);
}

void *pmem_memcpy_persist(void *to, const void *from, size_t bytes)
{
    return pmem_memcpy(to, from, bytes, 0);
}

#endif
