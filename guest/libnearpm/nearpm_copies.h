/*
 * Transactions that change copies: redo logs and shadow pages.
 *
 * Redo: new lines gather in ordinary memory. The commit writes them into a slot of the thread's redo log,
 * with a record that counts them: with the record and all of them durable, the transaction is committed,
 * and no order among them is needed. Then they go home, by stores or by devices that read them from the
 * slot, entry by entry; so an entry lies on the device of its target. With delayed synchronisation the
 * devices' own number of the last transaction that has ended says which records count no more.
 *
 * Shadow: a page is copied to a free one of its class, of the same devices, and the copy is changed. The
 * commit makes the new pages durable, then a record of where they are, and is committed; the table follows.
 * Each page's place in the table has a version, so that recovery takes the newer of table and record,
 * whichever thread's that is.
 *
 * Always true: a slot or record is written again only when what it held before is needed no more, whatever
 * the power does: it has ended, or devices have taken all of it. A page that is free is in no place of the
 * table, and in none of a record that recovery would take.
 */
#ifndef PERDURE_NEARPM_COPIES_H
#define PERDURE_NEARPM_COPIES_H

#include "nearpm_in_place.h"

/* ---- Redo logs -------------------------------------------------------------------------------- */

/* The page's copy, with the lines in it that the range has. */
static inline char *np_gather(struct np_thread *thread, struct np_page *page, const char *home, uint64_t lines)
{
    const uint64_t missing = lines & ~page->held;
    if (missing != 0) {
        np_copy_lines(thread, page->copy, np_home(thread->pool, page->number), missing);
        page->held |= missing;
    }
    return page->copy + (uintptr_t)home % NP_PAGE_BYTES;
}

static inline char *np_write_redo(struct np_thread *thread, char *home, uint64_t bytes)
{
    struct np_page *page = np_named_page(thread, np_page_number(thread->pool, home));
    const uint64_t lines = np_lines_of(home, bytes);
    page->written |= lines;
    return np_gather(thread, page, home, lines);
}

static inline const char *np_read_redo(struct np_thread *thread, const char *home, uint64_t bytes)
{
    struct np_page *page =
        thread->page_count == 0 ? NULL : np_found_page(thread, np_page_number(thread->pool, home));
    const uint64_t lines = page == NULL ? 0 : np_lines_of(home, bytes);
    return page == NULL || (lines & page->held) == 0 ? home : np_gather(thread, page, home, lines);
}

/* Entries that lie side by side: what one command applies. */
struct np_piece {
    char *start, *end;
};

/* The redo log of the running transaction as it is written. */
struct np_redo {
    struct np_tape tape[NEARPM_DEVICES_MAX];
    struct np_piece *last[NEARPM_DEVICES_MAX];
    struct np_piece piece[NP_TRANSACTION_PAGES * 8];
    uint64_t pieces, entries;
};

static inline void np_add_to_piece(struct np_redo *redo, unsigned device, char *entry, uint64_t bytes)
{
    struct np_piece *last = redo->last[device];
    if (last == NULL || last->end != entry || (uint64_t)(entry + bytes - last->start) > NEARPM_SIZE_MAX) {
        if (redo->pieces == sizeof redo->piece / sizeof redo->piece[0]) {
            np_end(NP_STATUS_REFUSED, "a redo log is in more than %" PRIu64 " pieces", redo->pieces);
        }
        last = redo->last[device] = &redo->piece[redo->pieces++];
        last->start = entry;
    }
    last->end = entry + bytes;
}

/* Writes the entries for a run of a page, and flushes them. */
static inline void np_write_entries(struct np_thread *thread, struct np_redo *redo, const struct np_page *page,
                                    struct np_run run)
{
    struct np_pool *pool = thread->pool;
    for (uint64_t at = run.at, size; at < run.at + run.bytes; at += size) {
        const char *target = np_home(pool, page->number) + at;
        size = np_entry_size(&pool->deal, target, run.at + run.bytes - at);
        const unsigned device = np_device_of(&pool->deal, target);
        char *place = np_take(&redo->tape[device], np_entry_bytes(size));
        if (place == NULL) {
            np_end(NP_STATUS_REFUSED, "the log of thread %u is too small for a transaction", thread->number);
        }
        struct np_entry *entry = (struct np_entry *)(void *)place;
        uint64_t begin = np_cycles();
        memcpy(entry->data, page->copy + at, size);
        np_count_movement(thread, begin);
        np_fill_header(pool, entry, NP_ENTRY_REDO, thread->transaction, target, size);
        begin = np_cycles();
        if (NP_MISTAKE != NP_OPERAND_NOT_WRITTEN_BACK) {
            np_flush(pool, entry, np_entry_bytes(size));
        }
        np_count_movement(thread, begin);
        np_add_to_piece(redo, device, place, np_entry_bytes(size));
        redo->entries++;
    }
}

/* Writes the redo log with its record, and flushes all of it. */
static inline void np_write_redo_log(struct np_thread *thread, struct np_redo *redo)
{
    struct np_pool *pool = thread->pool;
    for (unsigned device = 0; device < pool->deal.devices; device++) {
        redo->tape[device] = np_tape_of(&pool->deal, np_redo_slot(pool, thread->number, thread->transaction),
                                        pool->redo_bytes, device);
        redo->last[device] = NULL;
    }
    redo->pieces = redo->entries = 0;
    for (uint64_t i = 0; i < thread->page_count; i++) {
        for (uint64_t lines = thread->page[i].written; lines != 0;) {
            np_write_entries(thread, redo, &thread->page[i], np_next_run(&lines));
        }
    }
    struct np_redo_record *record = np_redo_record(pool, thread->number, thread->transaction);
    record->transaction = thread->transaction;
    record->entries = redo->entries;
    record->check = np_redo_check(record);
    np_flush(pool, record, sizeof *record);
}

static inline void np_bring_home(struct np_thread *thread)
{
    const struct np_pool *pool = thread->pool;
    for (uint64_t i = 0; i < thread->page_count; i++) {
        const struct np_page *page = &thread->page[i];
        char *home = np_home(pool, page->number);
        np_copy_lines(thread, home, page->copy, page->written);
        const uint64_t begin = np_cycles();
        if (NP_MISTAKE != NP_HOME_NOT_PERSISTED) {
            np_flush_lines(pool, home, page->written);
        }
        np_count_movement(thread, begin);
    }
    const uint64_t begin = np_cycles();
    np_fence(pool);
    np_count_movement(thread, begin);
}

/* What devices will write must not be in the caches. */
static inline void np_drop_homes(const struct np_thread *thread)
{
    for (uint64_t i = 0; i < thread->page_count && NP_MISTAKE != NP_STALE_COPY; i++) {
        for (uint64_t lines = thread->page[i].written; lines != 0;) {
            const struct np_run run = np_next_run(&lines);
            nearpm_drop(np_home(thread->pool, thread->page[i].number) + run.at, run.bytes);
        }
    }
}

/* The transaction that had the slot before: its commands may be posted, and no more. */
static inline void np_await_slot(struct np_thread *thread)
{
    if (thread->pool->options.on_devices && thread->transaction > thread->taken + NP_REDO_SLOTS) {
        np_await_taken(thread);
        thread->taken = thread->transaction - 1;
    }
}

static inline void np_commit_redo(struct np_thread *thread)
{
    const struct np_pool *pool = thread->pool;
    struct np_redo redo;
    np_await_slot(thread);
    if (NP_MISTAKE == NP_HOME_BEFORE_RECORD) {
        np_bring_home(thread);
    }
    np_write_redo_log(thread, &redo);
    if (!pool->options.on_devices) {
        const uint64_t begin = np_cycles();
        np_fence(pool);
        np_count_movement(thread, begin);
        if (NP_MISTAKE == NP_DELETED_BEFORE_HOME) {
            np_delete_log(thread);
        }
        np_bring_home(thread);
    } else {
        np_drop_homes(thread);
        np_fence(pool);
        /* All is durable; what NearPM_applylog does before it sends is done. */
        for (uint64_t i = 0; i < redo.pieces; i++) {
            const struct np_piece *piece = &redo.piece[i];
            nearpm_send(NEARPM_APPLYLOG, pool->options.pool_id, thread->tag, piece->start, 0,
                        (size_t)(piece->end - piece->start));
        }
    }
    if (NP_MISTAKE != NP_DELETED_BEFORE_HOME || pool->options.on_devices) {
        np_delete_log(thread);
    }
}

/* ---- Shadow pages ----------------------------------------------------------------------------- */

static inline char *np_seen_page(const struct np_pool *pool, uint64_t number)
{
    return np_physical_page(pool, pool->physical[number]);
}

/* A free page on the same devices. */
static inline uint32_t np_take_page(struct np_thread *thread, unsigned class)
{
    struct np_list *list = &thread->free_pages[class];
    if (list->count == 0) {
        np_end(NP_STATUS_REFUSED, "thread %u has no free page on device %u", thread->number, class);
    }
    return list->number[--list->count];
}

static inline void np_give_page(struct np_thread *thread, uint32_t physical)
{
    np_push(&thread->free_pages[np_page_class(thread->pool, physical)], physical);
}

static inline void np_copy_page(struct np_thread *thread, const char *from, char *to)
{
    const struct np_options *options = &thread->pool->options;
    if (!options->on_devices) {
        np_copy_lines(thread, to, from, UINT64_MAX);
    } else if (NP_MISTAKE == NP_STALE_COPY) {
        nearpm_send(NEARPM_SHADOWCPY, options->pool_id, thread->tag, from, (uintptr_t)to, NP_PAGE_BYTES);
    } else {
        NearPM_shadowcpy(options->pool_id, thread->tag, from, to, NP_PAGE_BYTES);
    }
}

static inline char *np_write_shadow(struct np_thread *thread, char *home, uint64_t bytes)
{
    struct np_pool *pool = thread->pool;
    struct np_page *page = np_named_page(thread, np_page_number(pool, home));
    if (page->held == 0) {
        page->held = UINT64_MAX;
        page->before = pool->physical[page->number];
        const uint32_t shadow = np_take_page(thread, np_page_class(pool, page->before));
        np_copy_page(thread, np_physical_page(pool, page->before), np_physical_page(pool, shadow));
        pool->physical[page->number] = shadow;
        if (NP_MISTAKE == NP_OLD_PAGE_REUSED) {
            np_give_page(thread, page->before);
        }
    }
    page->written |= np_lines_of(home, bytes);
    return np_seen_page(pool, page->number) + (uintptr_t)home % NP_PAGE_BYTES;
}

/* New pages are durable. The processor copied all of a page, a device all that was not written since: a load
   from there comes back when it has taken the copy; and if several have parts of a page, only they know. */
static inline void np_persist_shadows(struct np_thread *thread)
{
    const struct np_pool *pool = thread->pool;
    const struct np_options *options = &pool->options;
    const uint64_t begin = np_cycles();
    for (uint64_t i = 0; i < thread->page_count && NP_MISTAKE != NP_SHADOW_NOT_PERSISTED; i++) {
        const char *shadow = np_seen_page(pool, thread->page[i].number);
        if (options->on_devices) {
            (void)*(const volatile char *)shadow;
        }
        np_flush_lines(pool, shadow, options->on_devices ? thread->page[i].written : UINT64_MAX);
    }
    np_fence(pool);
    if (!options->on_devices) {
        np_count_movement(thread, begin);
    }
    if (options->on_devices && options->software_sync) {
        np_await_completed(thread);
    } else if (options->on_devices && pool->deal.granule_bytes < NP_PAGE_BYTES) {
        np_await_taken(thread);
    }
}

/* The record, durable: the transaction is committed. */
static inline const struct np_switch_record *np_write_switch(struct np_thread *thread)
{
    const struct np_pool *pool = thread->pool;
    struct np_switch_record *record = np_switch_record(pool, thread->number, thread->transaction);
    record->transaction = thread->transaction;
    record->count = thread->page_count;
    for (uint64_t i = 0; i < record->count; i++) {
        const uint64_t number = thread->page[i].number, version = np_table(pool)[number] >> 32;
        record->page[i] = (struct np_switch){number, pool->physical[number] | (version + 1) << 32};
    }
    record->check = np_switch_check(record);
    if (NP_MISTAKE != NP_SWITCH_NOT_PERSISTED) {
        np_flush(pool, record, sizeof *record - sizeof record->page + record->count * sizeof record->page[0]);
    }
    np_fence(pool);
    return record;
}

static inline void np_commit_shadow(struct np_thread *thread)
{
    const struct np_pool *pool = thread->pool;
    np_persist_shadows(thread);
    const struct np_switch_record *record = np_write_switch(thread);
    for (uint64_t i = 0; i < record->count; i++) {
        np_word *place = &np_table(pool)[record->page[i].page];
        *place = record->page[i].to;
        np_flush(pool, place, sizeof *place); /* the next record's fences come before this one is gone */
        if (NP_MISTAKE != NP_OLD_PAGE_REUSED) {
            np_give_page(thread, thread->page[i].before);
        }
    }
}

#endif
