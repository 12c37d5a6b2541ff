/*
 * What stands for guest/perdure.h when a program of workloads/check is compiled for the host, to be recorded.
 *
 * Always true: the program's flushes, fences and copies of memory, and the mapping of its pool, go through
 * record.c; its stores do by the compiler's instrumentation.
 */
#ifndef PERDURE_H
#define PERDURE_H

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PERDURE_BLOCK_BYTES ((uintptr_t)64)

struct perdure_primitive {
    const char *name;
    void (*flush)(const volatile void *address);
    void (*fence)(void);
};

void record_flush(const volatile void *address);
void record_fence(void);
void *record_memset(void *to, int byte, size_t bytes);
void *record_memcpy(void *to, const void *from, size_t bytes);
char *record_strncpy(char *to, const char *from, size_t bytes);
int record_open(const char *path, int flags, ...);
void *record_mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset);

static inline const struct perdure_primitive *perdure_primitive_named(const char *name)
{
    static const struct perdure_primitive recorded = {"clwb", record_flush, record_fence};
    return strcmp(name, recorded.name) == 0 ? &recorded : NULL;
}

static inline void perdure_flush_range(const struct perdure_primitive *primitive, const volatile void *start,
                                       size_t bytes)
{
    const uintptr_t end = (uintptr_t)start + bytes;
    for (uintptr_t block = (uintptr_t)start & ~(PERDURE_BLOCK_BYTES - 1); block < end; block += 64) {
        primitive->flush((const volatile void *)block);
    }
}

static inline void perdure_op_begin(uint64_t number)
{
    (void)number;
}

static inline void perdure_op_end(void)
{
}

static inline void perdure_atomic(const volatile void *start, size_t bytes)
{
    (void)start;
    (void)bytes;
}

#ifdef __cplusplus
}
#endif

#define memset record_memset
#define memcpy record_memcpy
#define strncpy record_strncpy
#define open record_open
#define mmap record_mmap

#endif
