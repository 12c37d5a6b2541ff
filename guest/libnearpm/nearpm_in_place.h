/*
 * Transactions that change the heap in place: undo logs and checkpoints. And what all mechanisms share: which
 * pages the running transaction names, and what devices say.
 *
 * Undo: old lines go into the log before the first change. Checkpoint: old pages do. The commit makes what
 * was changed durable, and then deletes the log. A device makes the entries while the processor goes on,
 * and holds up what would change the lines until then.
 *
 * Always true: a line is held before np_write answers for it, and what is held is in the log, or was of
 * nobody when the transaction began.
 */
#ifndef PERDURE_NEARPM_IN_PLACE_H
#define PERDURE_NEARPM_IN_PLACE_H

#include "nearpm_pool.h"

/* ---- Pages of a transaction ------------------------------------------------------------------- */

/* The page's place among those of the running transaction, or where it would be. */
static inline uint64_t *np_slot(struct np_thread *thread, uint64_t number)
{
    uint64_t at = number * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    for (;; at++) {
        uint64_t *slot = &thread->slot[at % NP_SLOTS];
        if (*slot >> 32 != (uint32_t)thread->transaction ||
            thread->page[(uint32_t)*slot - 1].number == number) {
            return slot;
        }
    }
}

static inline struct np_page *np_found_page(struct np_thread *thread, uint64_t number)
{
    const uint64_t slot = *np_slot(thread, number);
    return slot >> 32 == (uint32_t)thread->transaction ? &thread->page[(uint32_t)slot - 1] : NULL;
}

/* The page, which the transaction names from now on. */
static inline struct np_page *np_named_page(struct np_thread *thread, uint64_t number)
{
    uint64_t *slot = np_slot(thread, number);
    if (*slot >> 32 != (uint32_t)thread->transaction) {
        if (thread->page_count == NP_TRANSACTION_PAGES) {
            np_end(NP_STATUS_REFUSED, "a transaction writes more than %d pages", NP_TRANSACTION_PAGES);
        }
        struct np_page *page = &thread->page[thread->page_count];
        *page = (struct np_page){.number = number};
        page->copy = thread->copies == NULL ? NULL : thread->copies + thread->page_count * NP_PAGE_BYTES;
        *slot = thread->transaction << 32 | ++thread->page_count;
    }
    return &thread->page[(uint32_t)*slot - 1];
}

static inline uint64_t np_page_number(const struct np_pool *pool, const void *home)
{
    const uint64_t number = (uint64_t)((uintptr_t)home - (uintptr_t)pool->heap) / NP_PAGE_BYTES;
    if ((uintptr_t)home < (uintptr_t)pool->heap || number >= pool->options.heap_pages) {
        np_end(NP_STATUS_WRONG, "%p is not in the heap", home);
    }
    return number;
}

/* The lines of a range within their page, as bits. */
static inline uint64_t np_lines_of(const void *home, uint64_t bytes)
{
    const uint64_t at = (uintptr_t)home % NP_PAGE_BYTES, first = at / NP_LINE_BYTES;
    const uint64_t last = (at + bytes - 1) / NP_LINE_BYTES;
    if (bytes == 0 || last >= NP_PAGE_LINES) {
        np_end(NP_STATUS_REFUSED, "%" PRIu64 " bytes at %p are not within a page", bytes, home);
    }
    return (UINT64_MAX >> (NP_PAGE_LINES - 1 - last)) & (UINT64_MAX << first);
}

/* A run of lines. */
struct np_run {
    uint64_t at, bytes; /* in the page */
};

/* Takes the first run out of the lines. */
static inline struct np_run np_next_run(uint64_t *lines)
{
    const unsigned first = (unsigned)__builtin_ctzll(*lines);
    const uint64_t from = *lines >> first;
    const unsigned count = from == UINT64_MAX ? NP_PAGE_LINES : (unsigned)__builtin_ctzll(~from);
    *lines &= first + count == NP_PAGE_LINES ? 0 : ~(uint64_t)0 << (first + count);
    return (struct np_run){first * NP_LINE_BYTES, count * NP_LINE_BYTES};
}

static inline char *np_home(const struct np_pool *pool, uint64_t number)
{
    return pool->heap + number * NP_PAGE_BYTES;
}

/* Flushes what the transaction has written of a page that lies at `place`. */
static inline void np_flush_lines(const struct np_pool *pool, const char *place, uint64_t lines)
{
    while (lines != 0) {
        const struct np_run run = np_next_run(&lines);
        np_flush(pool, place + run.at, run.bytes);
    }
}

/* Since then, the processor has moved data for a mechanism: copied them, or written a copy back. */
static inline void np_count_movement(struct np_thread *thread, uint64_t begin)
{
    thread->copy_cycles += np_cycles() - begin;
}

/* Copies lines of a page. */
static inline void np_copy_lines(struct np_thread *thread, char *to, const char *from, uint64_t lines)
{
    const uint64_t begin = np_cycles();
    while (lines != 0) {
        const struct np_run run = np_next_run(&lines);
        memcpy(to + run.at, from + run.at, run.bytes);
    }
    np_count_movement(thread, begin);
}

/* ---- What devices say ------------------------------------------------------------------------- */

static inline void np_judge(const struct np_thread *thread, uint64_t status)
{
    const unsigned error = nearpm_error_of(status);
    if (error != NEARPM_NO_ERROR) {
        np_end(NP_STATUS_WRONG, "a command of thread %u with opcode %#x has failed: %s", thread->tag,
               nearpm_opcode_at_fault(status), nearpm_error_text(error));
    }
}

/* Devices have taken all that the thread has posted. */
static inline void np_await_taken(struct np_thread *thread)
{
    const uint64_t begin = np_cycles();
    np_judge(thread, NearPM_taken(thread->tag));
    thread->wait_cycles += np_cycles() - begin;
}

/* They have completed it. */
static inline void np_await_completed(struct np_thread *thread)
{
    if (NP_MISTAKE != NP_COMMIT_WITHOUT_WAIT) {
        const uint64_t begin = np_cycles();
        np_judge(thread, NearPM_wait(thread->tag));
        thread->wait_cycles += np_cycles() - begin;
    }
}

/* ---- Undo logs and checkpoints ---------------------------------------------------------------- */

/* The place of the running transaction's next entry on a device. */
static inline char *np_take_entry(struct np_thread *thread, unsigned device, uint64_t size)
{
    struct np_pool *pool = thread->pool;
    for (unsigned i = 0; i < pool->deal.devices && !thread->has_tapes; i++) {
        thread->tape[i] = np_half_of(&pool->deal, np_log_area(pool, thread->number), pool->log_bytes, i,
                                     thread->transaction);
    }
    thread->has_tapes = true;
    char *place = np_take(&thread->tape[device], np_entry_bytes(size));
    if (place == NULL) {
        np_end(NP_STATUS_REFUSED, "the log of thread %u is too small for a transaction", thread->number);
    }
    return place;
}

/* How much of a range one entry can have. */
static inline uint64_t np_entry_size(const struct np_deal *deal, const char *target, uint64_t bytes)
{
    return np_least(np_within_granule(deal, target, bytes), deal->granule_bytes - NP_HEADER_BYTES);
}

static inline void np_fill_header(const struct np_pool *pool, struct np_entry *entry, enum np_kind kind,
                                  uint64_t transaction, const char *target, uint64_t size)
{
    *entry = (struct np_entry){.kind = np_entry_kind(kind), .transaction = transaction, .size = size};
    entry->target = (uint64_t)(target - pool->base);
    entry->check = np_entry_check(entry);
}

/* The processor's entry for a range: durable when this returns. */
static inline void np_log_by_processor(struct np_thread *thread, enum np_kind kind, const char *target,
                                       uint64_t bytes)
{
    struct np_pool *pool = thread->pool;
    const uint64_t most = pool->deal.granule_bytes - NP_HEADER_BYTES;
    for (uint64_t size; bytes != 0; target += size, bytes -= size) {
        size = np_least(bytes, most);
        struct np_entry *entry = (struct np_entry *)(void *)np_take_entry(thread, 0, size);
        uint64_t begin = np_cycles();
        memcpy(entry->data, target, size);
        np_count_movement(thread, begin);
        np_fill_header(pool, entry, kind, thread->transaction, target, size);
        begin = np_cycles();
        if (NP_MISTAKE != NP_ENTRY_NOT_PERSISTED) {
            np_flush(pool, entry, NP_MISTAKE == NP_HEADER_BEFORE_DATA ? NP_HEADER_BYTES : np_entry_bytes(size));
        }
        np_count_movement(thread, begin);
    }
    const uint64_t begin = np_cycles();
    np_fence(pool);
    np_count_movement(thread, begin);
}

/* Logs a range of home before it is changed. */
static inline void np_log(struct np_thread *thread, enum np_kind kind, const char *target, uint64_t bytes)
{
    const struct np_pool *pool = thread->pool;
    if (!pool->options.on_devices) {
        np_log_by_processor(thread, kind, target, bytes);
        return;
    }
    /* That it fits must be known before; a device would say so too late. */
    for (uint64_t at = 0, size; at < bytes; at += size) {
        size = np_entry_size(&pool->deal, target + at, bytes - at);
        np_take_entry(thread, np_device_of(&pool->deal, target + at), size);
    }
    if (kind == NP_ENTRY_UNDO) {
        NearPM_undolog_create(pool->options.pool_id, thread->tag, target, bytes);
    } else {
        NearPM_ckpoint_create(pool->options.pool_id, thread->tag, target, bytes);
    }
}

/* Ends the transaction, whose home or record is durable. */
static inline void np_delete_log(struct np_thread *thread)
{
    const struct np_pool *pool = thread->pool;
    const struct np_options *options = &pool->options;
    if (options->on_devices && options->software_sync) {
        np_await_completed(thread);
    }
    if (!options->on_devices || options->software_sync) {
        np_set_ended(pool, thread->number, thread->transaction);
    }
    if (options->on_devices) {
        NearPM_commit_log(options->pool_id, thread->tag);
    }
}

static inline void np_commit_in_place(struct np_thread *thread)
{
    const struct np_pool *pool = thread->pool;
    if (NP_MISTAKE == NP_DELETED_BEFORE_HOME) {
        np_delete_log(thread);
    }
    for (uint64_t i = 0; i < thread->page_count && NP_MISTAKE != NP_HOME_NOT_PERSISTED; i++) {
        np_flush_lines(pool, np_home(pool, thread->page[i].number), thread->page[i].written);
    }
    np_fence(pool);
    if (NP_MISTAKE != NP_DELETED_BEFORE_HOME) {
        np_delete_log(thread);
    }
}

static inline char *np_write_undo(struct np_thread *thread, char *home, uint64_t bytes)
{
    const struct np_pool *pool = thread->pool;
    struct np_page *page = np_named_page(thread, np_page_number(pool, home));
    uint64_t lines = np_lines_of(home, bytes) & ~page->held;
    page->written |= lines;
    page->held |= lines;
    while (lines != 0) {
        const struct np_run run = np_next_run(&lines);
        np_log(thread, NP_ENTRY_UNDO, np_home(pool, page->number) + run.at, run.bytes);
    }
    return home;
}

static inline char *np_write_checkpoint(struct np_thread *thread, char *home, uint64_t bytes)
{
    const struct np_pool *pool = thread->pool;
    struct np_page *page = np_named_page(thread, np_page_number(pool, home));
    if (page->held == 0) {
        page->held = UINT64_MAX;
        np_log(thread, NP_ENTRY_CHECKPOINT, np_home(pool, page->number), NP_PAGE_BYTES);
    }
    page->written |= np_lines_of(home, bytes);
    return home;
}

#endif
