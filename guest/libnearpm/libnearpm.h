/*
 * libnearpm: failure-atomic transactions over pools, on the processor or on NearPM's devices. This file opens
 * pools and recovers them; what a transaction is stands in nearpm_tx.h.
 *
 *   np_lay_out        says how long a pool must be; before it exists, and of one that exists
 *   np_declare_blocks for each class of blocks, in an order that stays
 *   np_make           writes the library's part into a new pool of zeros
 *   np_open           maps the pool for devices, and recovers it; from here on the heap is as it should be
 *   np_find_blocks    finds what is free
 *   np_begin_thread   by each thread, and np_end_thread at its end
 *
 * Recovery. In place: entries of transactions that have not ended go back, the newest first. Redo: those
 * with a record that have not ended go home, the oldest first. Shadow: of each record, pages that are newer
 * than the table go into the table. Then the numbers of all these are behind us, durably, and none is used
 * again: what else a cut has left of them fits nothing.
 *
 * Always true: recovery may be cut and done again; no transaction begins before the logs of all threads are
 * empty.
 */
#ifndef PERDURE_LIBNEARPM_H
#define PERDURE_LIBNEARPM_H

#include "nearpm_tx.h"

/* ---- Before there is a pool ------------------------------------------------------------------- */

/* Gives each thread so many blocks of a size in whole lines, on pages of the heap from `first_page` on. Says
 * where the class's pages end; np_lay_out must leave room for them. */
static inline uint64_t np_declare_blocks(struct np_pool *pool, unsigned threads, uint64_t block_bytes,
                                         uint64_t blocks, uint64_t first_page)
{
    if (pool->class_count == NP_CLASSES_MAX || block_bytes == 0 || block_bytes % NP_LINE_BYTES != 0 ||
        block_bytes > NP_PAGE_BYTES) {
        np_end(NP_STATUS_REFUSED, "blocks of %" PRIu64 " bytes cannot be declared", block_bytes);
    }
    struct np_class *class = &pool->classes[pool->class_count++];
    class->block_bytes = block_bytes;
    class->per_page = NP_PAGE_BYTES / block_bytes;
    class->pages = (blocks + class->per_page - 1) / class->per_page;
    class->blocks = class->pages * class->per_page;
    class->first_page = first_page;
    return first_page + class->pages * threads;
}

/* Where the pool is mapped. */
static inline void np_place(struct np_pool *pool, void *base)
{
    pool->base = (char *)base;
    pool->deal.base = pool->base;
    pool->heap = pool->base + pool->heap_at;
}

/* Writes the library's part of a pool of zeros; the caller makes it durable. Until it is open, the program
 * lays its structures down at their homes. */
static inline void np_make(struct np_pool *pool, void *base)
{
    np_place(pool, base);
    for (uint64_t page = 0; page < pool->options.heap_pages && pool->options.mechanism == NP_SHADOW; page++) {
        np_table(pool)[page] = page;
    }
}

/* ---- Recovery --------------------------------------------------------------------------------- */

static inline bool np_is_home(const struct np_pool *pool, uint64_t target, uint64_t size)
{
    const uint64_t heap_end = pool->heap_at + pool->options.heap_pages * NP_PAGE_BYTES;
    return target >= pool->heap_at && target <= heap_end && size <= heap_end - target;
}

/* Writes an entry's data where they belong, durable at the next fence. */
static inline void np_put_home(const struct np_pool *pool, const struct np_entry *entry)
{
    char *target = pool->base + entry->target;
    if (!np_is_home(pool, entry->target, entry->size)) {
        np_end(NP_STATUS_WRONG, "an entry of transaction %" PRIu64 " leads out of the heap", entry->transaction);
    }
    memcpy(target, entry->data, entry->size);
    np_flush(pool, target, entry->size);
}

/* Puts the transaction's entries home, the last one first. */
static inline void np_roll_back(const struct np_pool *pool, struct np_tape *tape, enum np_kind kind,
                                uint64_t transaction)
{
    const struct np_entry **found = NULL, *entry;
    uint64_t count = 0;
    while ((entry = np_next_entry(tape, kind, transaction)) != NULL) {
        if (count % 64 == 0) {
            found = (const struct np_entry **)realloc((void *)found, (count + 64) * sizeof *found);
            if (found == NULL) {
                np_end(NP_STATUS_REFUSED, "no memory for the entries of a log");
            }
        }
        found[count++] = entry;
    }
    while (count > 0 && NP_MISTAKE != NP_NOT_ROLLED_BACK) {
        np_put_home(pool, found[--count]);
    }
    np_fence(pool);
    free((void *)found);
}

/* The last transaction that a device has ended; 0 if it has no log there. */
static inline uint64_t np_device_ended(const struct np_pool *pool, unsigned thread, unsigned device)
{
    const struct np_tape tape = np_tape_of(&pool->deal, np_log_area(pool, thread), pool->log_bytes, device);
    const np_word *header = (const np_word *)(const void *)tape.at;
    return header != NULL && header[0] == NP_LOG_MAGIC ? header[1] : 0;
}

/* Undo logs and checkpoints of a thread: the last transaction that may have used a number. */
static inline uint64_t np_recover_in_place(const struct np_pool *pool, unsigned thread)
{
    const enum np_kind kind = pool->options.mechanism == NP_UNDO ? NP_ENTRY_UNDO : NP_ENTRY_CHECKPOINT;
    uint64_t newest = 0;
    for (unsigned device = 0; device < pool->deal.devices; device++) {
        const uint64_t ended = np_most(*np_ended(pool, thread), np_device_ended(pool, thread, device));
        newest = np_most(newest, ended + 2);
    }
    for (uint64_t transaction = newest; transaction + 3 > newest && transaction > 0; transaction--) {
        for (unsigned device = 0; device < pool->deal.devices; device++) {
            const uint64_t ended = np_most(*np_ended(pool, thread), np_device_ended(pool, thread, device));
            struct np_tape tape = np_half_of(&pool->deal, np_log_area(pool, thread), pool->log_bytes, device,
                                             transaction);
            if (transaction > ended) {
                np_roll_back(pool, &tape, kind, transaction);
            }
        }
    }
    return newest;
}

/* How many valid entries a transaction has in its slot; with `puts_home`, they go home. */
static inline uint64_t np_read_redo_log(const struct np_pool *pool, unsigned thread, uint64_t transaction,
                                        bool puts_home)
{
    uint64_t entries = 0;
    for (unsigned device = 0; device < pool->deal.devices; device++) {
        struct np_tape tape = np_tape_of(&pool->deal, np_redo_slot(pool, thread, transaction), pool->redo_bytes,
                                         device);
        const struct np_entry *entry;
        while ((entry = np_next_entry(&tape, NP_ENTRY_REDO, transaction)) != NULL) {
            entries++;
            if (puts_home) {
                np_put_home(pool, entry);
            }
        }
    }
    return entries;
}

static inline bool np_is_committed(const struct np_pool *pool, unsigned thread, uint64_t transaction)
{
    const struct np_redo_record *record = np_redo_record(pool, thread, transaction);
    return record->transaction == transaction && record->check == np_redo_check(record) &&
           np_read_redo_log(pool, thread, transaction, false) == record->entries;
}

static inline uint64_t np_recover_redo(const struct np_pool *pool, unsigned thread)
{
    uint64_t ended = UINT64_MAX;
    for (unsigned device = 0; device < pool->deal.devices; device++) {
        ended = np_least(ended, np_device_ended(pool, thread, device));
    }
    ended = np_most(ended, *np_ended(pool, thread));
    uint64_t next = ended + 1;
    for (; np_is_committed(pool, thread, next) && NP_MISTAKE != NP_NOT_REDONE; next++) {
        np_read_redo_log(pool, thread, next, true);
    }
    np_fence(pool);
    return next;
}

/* The newest record that there is. */
static inline uint64_t np_recover_shadow(const struct np_pool *pool, unsigned thread)
{
    uint64_t newest = *np_ended(pool, thread);
    for (uint64_t slot = 0; slot < NP_SWITCH_RECORDS; slot++) {
        const struct np_switch_record *record = np_switch_record(pool, thread, slot);
        if (record->count > NP_TRANSACTION_PAGES || record->check != np_switch_check(record) ||
            NP_MISTAKE == NP_NOT_REDONE) {
            continue;
        }
        newest = np_most(newest, record->transaction);
        for (uint64_t i = 0; i < record->count; i++) {
            const struct np_switch *page = &record->page[i];
            if (page->page >= pool->options.heap_pages || (uint32_t)page->to >= pool->heap_pages_all) {
                np_end(NP_STATUS_WRONG, "a record of transaction %" PRIu64 " leads out of the heap",
                       record->transaction);
            }
            np_word *place = &np_table(pool)[page->page];
            if (page->to >> 32 > *place >> 32) {
                *place = page->to;
                np_flush(pool, place, sizeof *place);
            }
        }
    }
    np_fence(pool);
    return newest + 1;
}

/* What devices wrote must not be read from the caches. */
static inline void np_drop_logs(const struct np_pool *pool)
{
    nearpm_drop(pool->base + pool->logs_at, pool->redo_at - pool->logs_at);
    np_fence(pool);
}

static inline void np_recover_thread(struct np_pool *pool, unsigned thread)
{
    const struct np_options *options = &pool->options;
    uint64_t newest;
    if (options->mechanism == NP_REDO) {
        newest = np_recover_redo(pool, thread);
    } else if (options->mechanism == NP_SHADOW) {
        newest = np_recover_shadow(pool, thread);
    } else {
        newest = np_recover_in_place(pool, thread);
    }
    *np_ended(pool, thread) = newest;
    np_flush(pool, np_ended(pool, thread), sizeof(np_word));
    np_fence(pool);
}

/* ---- Opening ---------------------------------------------------------------------------------- */

static inline void np_map_for(const struct np_pool *pool, unsigned tag)
{
    const unsigned refusal = NearPM_map_pool(pool->options.pool_id, tag, pool->base, pool->bytes);
    if (refusal != NEARPM_MAPPED) {
        np_end(NP_STATUS_REFUSED, "devices cannot have the pool: %s", nearpm_refusal_text(refusal));
    }
}

/* Devices must have recovered before logs are read. That they have before is as good. */
static inline void np_open_devices(struct np_pool *pool)
{
    const struct np_options *options = &pool->options;
    np_map_for(pool, options->first_tag);
    const enum nearpm_error error = NearPM_recover(options->pool_id, options->first_tag);
    pool->deal.offset = NearPM_pool_offset(options->pool_id, options->first_tag);
    if (error != NEARPM_NO_ERROR && error != NEARPM_RECOVERED_ALREADY) {
        np_end(NP_STATUS_WRONG, "devices do not recover: %s", nearpm_error_text(error));
    }
    np_drop_logs(pool);
}

/* Empties the devices' logs of all threads: numbers go on behind what the processor knows. */
static inline void np_reset_logs(struct np_pool *pool)
{
    const unsigned pool_id = pool->options.pool_id;
    for (unsigned number = 0; number < pool->options.threads; number++) {
        const struct np_thread *thread = pool->threads[number];
        np_map_for(pool, thread->tag);
        NearPM_log_reset(pool_id, thread->tag, np_log_area(pool, number), pool->log_bytes,
                         *np_ended(pool, number));
        np_judge(thread, NearPM_wait(thread->tag));
        perdure_nearpm_unmap(pool_id, thread->tag);
    }
}

/* Gives each thread its share of the pages that are in no place of the table. */
static inline void np_find_pages(struct np_pool *pool)
{
    unsigned char *is_used = (unsigned char *)np_ordinary(pool->heap_pages_all, 1);
    uint64_t given[NEARPM_DEVICES_MAX] = {0};
    pool->physical = (uint32_t *)np_ordinary(pool->options.heap_pages, sizeof *pool->physical);
    for (uint64_t page = 0; page < pool->options.heap_pages; page++) {
        const uint32_t physical = (uint32_t)np_table(pool)[page];
        if (physical >= pool->heap_pages_all || is_used[physical] != 0) {
            np_end(NP_STATUS_WRONG, "page %" PRIu64 " lies in %" PRIu32 ", which cannot be", page, physical);
        }
        is_used[physical] = 1;
        pool->physical[page] = physical;
    }
    for (uint64_t physical = pool->heap_pages_all; physical-- > 0;) {
        if (is_used[physical] == 0) {
            const unsigned class = np_page_class(pool, physical);
            np_push(&pool->threads[given[class]++ % pool->options.threads]->free_pages[class], physical);
        }
    }
    free(is_used);
}

/* Opens a pool that was made, at the place where it is mapped, and recovers it. */
static inline void np_open(struct np_pool *pool, void *base)
{
    np_place(pool, base);
    if (pool->options.on_devices) {
        np_open_devices(pool);
    }
    for (unsigned number = 0; number < pool->options.threads; number++) {
        np_recover_thread(pool, number);
        struct np_thread *thread = aligned_alloc(alignof(struct np_thread), sizeof *thread);
        if (thread == NULL) {
            np_end(NP_STATUS_REFUSED, "no memory for a thread");
        }
        memset(thread, 0, sizeof *thread);
        thread->pool = pool;
        thread->number = number;
        thread->tag = pool->options.first_tag + number;
        thread->transaction = *np_ended(pool, number) + 1;
        thread->taken = *np_ended(pool, number);
        if (pool->options.mechanism == NP_REDO) {
            thread->copies = (char *)np_ordinary(NP_TRANSACTION_PAGES, NP_PAGE_BYTES);
        }
        pool->threads[number] = thread;
    }
    if (pool->options.on_devices && pool->options.mechanism != NP_SHADOW) {
        np_reset_logs(pool);
    }
    if (pool->options.mechanism == NP_SHADOW) {
        np_find_pages(pool);
    }
}

/* The word of a block that says whether it is in use, outside of transactions. */
static inline uint64_t np_is_used(const struct np_pool *pool, unsigned class, uint64_t number)
{
    const struct np_transaction none = {pool->options.mechanism, pool->threads[0]};
    return *(const np_word *)np_read(none, np_block_at(pool, class, number), sizeof(np_word));
}

/* Finds the blocks that are free. */
static inline void np_find_blocks(struct np_pool *pool)
{
    for (unsigned class = 0; class < pool->class_count; class++) {
        const uint64_t blocks = pool->classes[class].blocks;
        for (uint64_t number = blocks * pool->options.threads; number-- > 0;) {
            if (np_is_used(pool, class, number) == 0) {
                np_push(&pool->threads[number / blocks]->free_blocks[class], number);
            }
        }
    }
}

/* The calling thread is thread `number` of the pool from here on. */
static inline struct np_thread *np_begin_thread(struct np_pool *pool, unsigned number)
{
    struct np_thread *thread = pool->threads[number];
    if (pool->options.on_devices) {
        np_map_for(pool, thread->tag);
        if (pool->options.mechanism != NP_SHADOW) {
            NearPM_log_attach(pool->options.pool_id, thread->tag, np_log_area(pool, number), pool->log_bytes);
        }
        np_judge(thread, NearPM_wait(thread->tag));
    }
    return thread;
}

/* All that the thread has committed is done. */
static inline void np_end_thread(struct np_thread *thread)
{
    if (thread->pool->options.on_devices) {
        np_judge(thread, NearPM_wait(thread->tag));
        perdure_nearpm_unmap(thread->pool->options.pool_id, thread->tag);
    }
}

#endif
