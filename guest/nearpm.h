/*
 * NearPM: near-memory units that copy persistent data, and make and delete logs, inside the memory modules.
 *
 * The calls of the paper's table 2 have their names and arguments there: a pool, a thread, an operand. Each
 * writes the caches' copies of what it reads back, drops those of what it writes, and posts one command; the
 * memory controller hands that to every device over which the operand lies. The rest is ours: copying as
 * such, log areas, asking what has become of commands, and the mapping of pools.
 *
 * What it rests on: a device's stores and loads to memory, and its commands, take effect in the order of the
 * program that made them where they meet in an address. What a device has taken it completes, whatever the
 * power does; what is posted may still be lost. So NearPM_taken comes before anybody is told that something
 * is durable, and NearPM_wait is for those who do not trust devices to synchronise.
 *
 * Devices see memory and no caches. Which range a call writes is up to its caller to leave alone until the
 * call has returned; behind it, loads find the new bytes, and wait for them.
 *
 * A thread number is for one thread at a time, a pool number for one mapping of it. A mapping is the kernel
 * thread's that made it. Errors of posted commands are found by NearPM_taken, NearPM_wait, NearPM_status.
 */
#ifndef PERDURE_NEARPM_H
#define PERDURE_NEARPM_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "perdure.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    NEARPM_DEVICES_MAX = 8,
    NEARPM_POOLS_MAX = 16,
    NEARPM_THREADS_MAX = 16,
    NEARPM_PAGE_BYTES = 4096,
    NEARPM_SIZE_MAX = 65536 /* of the operand of a command that copies */
};

enum nearpm_opcode {
    NEARPM_UNDOLOG_CREATE = 0x02,
    NEARPM_COMMIT_LOG = 0x03,
    NEARPM_CKPOINT_CREATE = 0x04,
    NEARPM_SHADOWCPY = 0x05,
    NEARPM_COPY = 0x06,
    NEARPM_APPLYLOG = 0x09,
    NEARPM_RECOVER = 0x0a,
    NEARPM_LOG_RESET = 0x0b,
    NEARPM_LOG_ATTACH = 0x0c,
    NEARPM_PAGE_CRC = 0x10
};

/* Of a command: why it did nothing. */
enum nearpm_error {
    NEARPM_NO_ERROR,
    NEARPM_UNKNOWN_OPCODE,
    NEARPM_POOL_NOT_MAPPED,
    NEARPM_OUTSIDE_POOL,
    NEARPM_SIZE,
    NEARPM_LOG_FULL,
    NEARPM_NO_LOG_AREA,
    NEARPM_CROSSES_DEVICES,
    NEARPM_OVERLAP,
    NEARPM_RECOVERED_ALREADY,
    NEARPM_DAMAGED_REDO
};

/* How devices agree on when a transaction is done. */
enum nearpm_sync { NEARPM_DELAYED, NEARPM_BY_SOFTWARE, NEARPM_NOT_AT_ALL };

/* Of NearPM_map_pool: why a page cannot be reached by devices. */
enum nearpm_refusal { NEARPM_MAPPED, NEARPM_NOT_CONTIGUOUS, NEARPM_NOT_ON_DEVICE, NEARPM_OUT_OF_RANGE };

/* The devices of the machine, once for the program. */
struct nearpm_devices {
    unsigned count;
    unsigned units;         /* of each device */
    uint64_t granule_bytes; /* device by device, the region is dealt out in granules of so many bytes */
    enum nearpm_sync sync;
    bool is_coherent; /* commands see the caches */
    volatile uint64_t *page[NEARPM_DEVICES_MAX];
};

__attribute__((weak)) struct nearpm_devices nearpm;

static inline const char *nearpm_error_text(unsigned error)
{
    static const char *const texts[] = {
        "no error",
        "unknown opcode",
        "the pool is not mapped by this thread",
        "an operand lies outside of its pool",
        "a size that no command takes",
        "the log is full",
        "the thread has no log area",
        "source and destination lie on different devices",
        "source and destination overlap",
        "the devices have recovered already",
        "a damaged redo record",
    };
    return error < sizeof texts / sizeof texts[0] ? texts[error] : "an error without a name";
}

static inline const char *nearpm_refusal_text(unsigned refusal)
{
    static const char *const texts[] = {
        "mapped",
        "the pool is not contiguous in physical memory",
        "the pool does not lie on NearPM devices",
        "a pool or thread number is out of range",
    };
    return refusal < sizeof texts / sizeof texts[0] ? texts[refusal] : "a refusal without a name";
}

/* ---- Devices and pools ------------------------------------------------------------------------ */

/* Where a device's page has what it tells, in bytes. */
enum {
    NEARPM_AT_DEVICES = 0x008,
    NEARPM_AT_GRANULE = 0x010,
    NEARPM_AT_UNITS = 0x018,
    NEARPM_AT_SYNC = 0x020,      /* how devices synchronise: a value of nearpm_sync */
    NEARPM_AT_COHERENT = 0x028,  /* 1 if commands see the caches, so that programs need not flush for them */
    NEARPM_AT_STATUS = 0x400, /* a word for each thread */
    NEARPM_AT_POOL = 0x800    /* a word for each thread and pool */
};

static inline uint64_t nearpm_load(unsigned device, unsigned offset)
{
    return nearpm.page[device][offset / sizeof(uint64_t)];
}

static inline int nearpm_map_device(const char *path, unsigned device)
{
    const int file = open(path, O_RDWR);
    if (file < 0) {
        return errno;
    }
    void *page = mmap(NULL, NEARPM_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    const int refusal = page == MAP_FAILED ? errno : 0;
    close(file);
    nearpm.page[device] = (volatile uint64_t *)page;
    return refusal;
}

/* Maps the command interface: the page of the first device, whose path is given and ends `0.device`, and
 * those of its siblings. 0, or an error number of the system's; ENXIO if no machine has so many devices. */
static inline int NearPM_init_device(const char *device_path)
{
    static const char first[] = "0.device";
    char path[256];
    const size_t length = strlen(device_path), stem = length - (sizeof first - 1);
    if (length < sizeof first - 1 || length >= sizeof path || strcmp(device_path + stem, first) != 0) {
        return EINVAL;
    }
    int refusal = nearpm_map_device(device_path, 0);
    if (refusal != 0) {
        return refusal;
    }
    const uint64_t count = nearpm_load(0, NEARPM_AT_DEVICES);
    if (count == 0 || count > NEARPM_DEVICES_MAX) {
        return ENXIO;
    }
    for (unsigned device = 1; device < count && refusal == 0; device++) {
        snprintf(path, sizeof path, "%.*s%u.device", (int)stem, device_path, device);
        refusal = nearpm_map_device(path, device);
    }
    nearpm.count = (unsigned)count;
    nearpm.granule_bytes = nearpm_load(0, NEARPM_AT_GRANULE);
    nearpm.units = (unsigned)nearpm_load(0, NEARPM_AT_UNITS);
    nearpm.sync = (enum nearpm_sync)nearpm_load(0, NEARPM_AT_SYNC);
    nearpm.is_coherent = nearpm_load(0, NEARPM_AT_COHERENT) != 0;
    return refusal;
}

/* Tells the devices where the next page of a pool lies, or the first, for commands of this thread: a value of
 * nearpm_refusal. An illegal instruction on a machine without devices, as is the next. */
static inline uint64_t perdure_nearpm_map(unsigned pool_id, unsigned thread_id, const volatile void *page,
                                          bool is_first)
{
    const uint64_t virtual_page = (uintptr_t)page / NEARPM_PAGE_BYTES;
    const uint64_t entry = pool_id | (uint64_t)thread_id << 8 | (uint64_t)is_first << 16 | virtual_page << 24;
    uint64_t refusal;
    __asm__ volatile(".insn r 0x2b, 0, 0x14, %0, %1, %2"
                     : "=r"(refusal)
                     : "r"(page), "r"(entry)
                     : "memory");
    return refusal;
}

/* The devices forget the pool, for commands of this thread. */
static inline uint64_t perdure_nearpm_unmap(unsigned pool_id, unsigned thread_id)
{
    const uint64_t entry = pool_id | (uint64_t)thread_id << 8;
    uint64_t refusal;
    __asm__ volatile(".insn r 0x2b, 1, 0x14, %0, x0, %1" : "=r"(refusal) : "r"(entry) : "memory");
    return refusal;
}

/* Lets this thread, and no other, command the devices over a pool of whole pages at `base`. */
static inline enum nearpm_refusal NearPM_map_pool(unsigned pool_id, unsigned thread_id, const void *base,
                                                  size_t bytes)
{
    uint64_t refusal = NEARPM_MAPPED;
    for (size_t at = 0; at < bytes && refusal == NEARPM_MAPPED; at += NEARPM_PAGE_BYTES) {
        refusal = perdure_nearpm_map(pool_id, thread_id, (const char *)base + at, at == 0);
    }
    return (enum nearpm_refusal)refusal;
}

/* Once this thread has sent a command: how far a pool that it mapped lies behind the beginning of the
 * devices' region: granule g of that is on device g modulo their number. */
static inline uint64_t NearPM_pool_offset(unsigned pool_id, unsigned thread_id)
{
    const unsigned entry = thread_id * NEARPM_POOLS_MAX + pool_id;
    return nearpm_load(0, NEARPM_AT_POOL + (unsigned)sizeof(uint64_t) * entry);
}

/* ---- Commands --------------------------------------------------------------------------------- */

/* Posts a command: 24 bytes {opcode, pool, thread, 0, address, second address, size}, little end first, by
 * eight stores of three bytes each below the thread's number. */
static inline void nearpm_send(enum nearpm_opcode opcode, unsigned pool_id, unsigned thread_id,
                               const volatile void *address, uint64_t second, size_t size)
{
    const uint64_t a = (uintptr_t)address, s = size;
    const uint64_t word0 = (uint64_t)opcode | (uint64_t)pool_id << 8 | (uint64_t)thread_id << 16 | a << 32;
    const uint64_t word1 = a >> 32 | second << 32, word2 = second >> 32 | s << 32;
    const uint64_t thirds[] = {word0,      word0 >> 24, word0 >> 48 | word1 << 16, word1 >> 8,
                               word1 >> 32, word1 >> 56 | word2 << 8, word2 >> 16, word2 >> 40};
    volatile uint32_t *port = (volatile uint32_t *)nearpm.page[0];
    __asm__ volatile("" : : : "memory");
    for (unsigned i = 0; i < sizeof thirds / sizeof thirds[0]; i++) {
        *port = (uint32_t)(thirds[i] & 0xffffff) | (uint32_t)thread_id << 24;
    }
    __asm__ volatile("" : : : "memory");
}

/* Writes back what a command will read. A fence must follow. */
static inline void nearpm_write_back(const volatile void *start, size_t bytes)
{
    const uintptr_t end = (uintptr_t)start + bytes;
    for (uintptr_t block = (uintptr_t)start & ~(PERDURE_BLOCK_BYTES - 1); block < end;
         block += PERDURE_BLOCK_BYTES) {
        perdure_clwb((const volatile void *)block);
    }
}

/* Drops from the caches what a command will write. A fence must follow. */
static inline void nearpm_drop(const volatile void *start, size_t bytes)
{
    const uintptr_t end = (uintptr_t)start + bytes;
    for (uintptr_t block = (uintptr_t)start & ~(PERDURE_BLOCK_BYTES - 1); block < end;
         block += PERDURE_BLOCK_BYTES) {
        perdure_clflushopt((const volatile void *)block);
    }
}

/* What every command does before it is sent: devices find in memory what they read, and caches have nothing
 * of what they write. On a coherent link the command sees to that. */
static inline void nearpm_prepare(const volatile void *source, const volatile void *destination, size_t size)
{
    if (nearpm.is_coherent) {
        return;
    }
    nearpm_write_back(source, size);
    if (destination != NULL) {
        nearpm_drop(destination, size);
    }
    perdure_sfence();
}

/* Undo logging: metadata and the old data go into the thread's log. */
static inline void NearPM_undolog_create(unsigned pool_id, unsigned thread_id, const void *old_data_ptr,
                                         size_t size)
{
    nearpm_prepare(old_data_ptr, NULL, size);
    nearpm_send(NEARPM_UNDOLOG_CREATE, pool_id, thread_id, old_data_ptr, 0, size);
}

/* Checkpointing: metadata and the existing data go into the thread's log before an update. */
static inline void NearPM_ckpoint_create(unsigned pool_id, unsigned thread_id, const void *old_data_ptr,
                                         size_t size)
{
    nearpm_prepare(old_data_ptr, NULL, size);
    nearpm_send(NEARPM_CKPOINT_CREATE, pool_id, thread_id, old_data_ptr, 0, size);
}

/* Redo logging: the data of a redo log go where they belong. Its entries, which the caller wrote, are on the
 * devices of their targets, and the caches have no copies of these (nearpm_drop). */
static inline void NearPM_applylog(unsigned pool_id, unsigned thread_id, const void *redolog_ptr, size_t size)
{
    nearpm_prepare(redolog_ptr, NULL, size);
    nearpm_send(NEARPM_APPLYLOG, pool_id, thread_id, redolog_ptr, 0, size);
}

/* Undo logging, redo logging and checkpoints: ends the thread's transaction, and deletes its logs. What the
 * transaction stored must be durable. */
static inline void NearPM_commit_log(unsigned pool_id, unsigned thread_id)
{
    nearpm_send(NEARPM_COMMIT_LOG, pool_id, thread_id, NULL, 0, 0);
}

static inline void nearpm_copy_with(enum nearpm_opcode opcode, unsigned pool_id, unsigned thread_id,
                                    const void *source, void *destination, size_t size)
{
    nearpm_prepare(source, destination, size);
    nearpm_send(opcode, pool_id, thread_id, source, (uintptr_t)destination, size);
}

/* Shadow paging: copies an existing page before an update. */
static inline void NearPM_shadowcpy(unsigned pool_id, unsigned thread_id, const void *page_ptr,
                                    void *shadow_ptr, size_t size)
{
    nearpm_copy_with(NEARPM_SHADOWCPY, pool_id, thread_id, page_ptr, shadow_ptr, size);
}

/* Copies; both ranges lie on the same devices, piece by piece. */
static inline void NearPM_copy(unsigned pool_id, unsigned thread_id, const void *source, void *destination,
                               size_t size)
{
    nearpm_copy_with(NEARPM_COPY, pool_id, thread_id, source, destination, size);
}

/* The CRC-32C of a page, or of what else lies together on one device, goes into four bytes on that device. */
static inline void NearPM_page_crc(unsigned pool_id, unsigned thread_id, const void *page, size_t size,
                                   uint32_t *crc)
{
    if (!nearpm.is_coherent) {
        nearpm_drop(crc, sizeof *crc);
    }
    nearpm_prepare(page, NULL, size);
    nearpm_send(NEARPM_PAGE_CRC, pool_id, thread_id, page, (uintptr_t)crc, size);
}

/* ---- Log areas -------------------------------------------------------------------------------- */

/* Gives the thread whole pages of the pool for its log, empty. The last transaction that has ended is
 * number `ended`, and the next one has the next number. */
static inline void NearPM_log_reset(unsigned pool_id, unsigned thread_id, const void *area, size_t bytes,
                                    uint64_t ended)
{
    nearpm_drop(area, bytes);
    perdure_sfence();
    nearpm_send(NEARPM_LOG_RESET, pool_id, thread_id, area, ended, bytes);
}

/* Gives the thread the log that is in the area. */
static inline void NearPM_log_attach(unsigned pool_id, unsigned thread_id, const void *area, size_t bytes)
{
    nearpm_drop(area, bytes);
    perdure_sfence();
    nearpm_send(NEARPM_LOG_ATTACH, pool_id, thread_id, area, 0, bytes);
}

/* ---- What has become of commands -------------------------------------------------------------- */

/* Of a thread on a device. When it is loaded, the device has taken all that the thread posted before. */
static inline uint64_t NearPM_status(unsigned device, unsigned thread_id)
{
    return nearpm_load(device, NEARPM_AT_STATUS + (unsigned)sizeof(uint64_t) * thread_id);
}

/* Commands that are not completed. */
static inline uint32_t nearpm_pending(uint64_t status)
{
    return (uint32_t)status;
}

/* The first error since they were cleared, and the opcode at fault. */
static inline enum nearpm_error nearpm_error_of(uint64_t status)
{
    return (enum nearpm_error)(status >> 32 & 0xff);
}

static inline unsigned nearpm_opcode_at_fault(uint64_t status)
{
    return (unsigned)(status >> 40 & 0xff);
}

/* Waits until all devices have taken what the thread posted: the power can no longer undo it. What the first
 * device says that has seen an error, or else the last. */
static inline uint64_t NearPM_taken(unsigned thread_id)
{
    uint64_t told = 0;
    for (unsigned device = 0; device < nearpm.count; device++) {
        const uint64_t status = NearPM_status(device, thread_id);
        told = nearpm_error_of(told) == NEARPM_NO_ERROR ? status : told;
    }
    return told;
}

/* Waits until all devices have completed what the thread posted: synchronisation by software. As before. */
static inline uint64_t NearPM_wait(unsigned thread_id)
{
    uint64_t told = 0;
    for (unsigned device = 0; device < nearpm.count; device++) {
        uint64_t status;
        do {
            status = NearPM_status(device, thread_id);
        } while (nearpm_pending(status) != 0);
        told = nearpm_error_of(told) == NEARPM_NO_ERROR ? status : told;
    }
    return told;
}

static inline void NearPM_clear_error(unsigned thread_id)
{
    nearpm.page[0][NEARPM_AT_STATUS / sizeof(uint64_t) + thread_id] = 0;
}

/* After a power cut, before logs are read: has the devices recover, which they do once. Their first error. */
static inline enum nearpm_error NearPM_recover(unsigned pool_id, unsigned thread_id)
{
    nearpm_send(NEARPM_RECOVER, pool_id, thread_id, NULL, 0, 0);
    const enum nearpm_error error = nearpm_error_of(NearPM_wait(thread_id));
    NearPM_clear_error(thread_id);
    return error;
}

#ifdef __cplusplus
}
#endif

#endif
