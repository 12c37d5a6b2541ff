/*
 * What libnearpm has in a pool, and what each thread knows of it.
 *
 * The library's part of a pool is whole pages, in this order: a page with a line for each thread, which has
 * the number of the thread's last transaction that ended before the pool was opened, or, where the
 * processor ends transactions, so far; a page of records for each thread; a log area for each thread; redo
 * slots for each thread; the page table of shadow paging; the heap. The first three are there always, the
 * others where the mechanism has them.
 *
 * Always true: home addresses, which pointers in the pool are, are those of the heap as it would lie without
 * shadow paging. What a transaction names at once lies within a page. Transactions of different threads that
 * may name the same page (logs: the same line) are kept apart by the program's locks, from the first np_write
 * to np_durable.
 */
#ifndef PERDURE_NEARPM_POOL_H
#define PERDURE_NEARPM_POOL_H

#include <stdalign.h>

#include "nearpm_log.h"

/* Mistakes that can be built in, for tests of whoever has to find them. */
enum np_mistake {
    NP_CORRECT,
    NP_ENTRY_NOT_PERSISTED,      /* undo, checkpoint: the update may be durable before its entry */
    NP_HEADER_BEFORE_DATA,       /* undo, checkpoint: of the entry, the header alone is durable before it */
    NP_HOME_NOT_PERSISTED,       /* undo, checkpoint, redo: the log is deleted while homes are in the caches */
    NP_DELETED_BEFORE_HOME,      /* undo, checkpoint, redo: the log is deleted before homes are flushed */
    NP_HOME_BEFORE_RECORD,       /* redo: homes are written before the transaction's record is durable */
    NP_SWITCH_NOT_PERSISTED,     /* shadow: the table is switched page by page, and the record is not durable */
    NP_SHADOW_NOT_PERSISTED,     /* shadow: the switch may be durable before the new pages */
    NP_OLD_PAGE_REUSED,          /* shadow: an old page is free before the switch is durable */
    NP_NOT_ROLLED_BACK,          /* undo, checkpoint: recovery leaves what is half done */
    NP_NOT_REDONE,               /* redo, shadow: recovery drops what was committed */
    NP_TOLD_TOO_EARLY,           /* np_durable waits for nothing; on the processor, the end is not flushed */
    NP_OPERAND_NOT_WRITTEN_BACK, /* redo: entries may be in the caches when they are needed */
    NP_STALE_COPY,               /* devices: redo, shadow: what they write may be in the caches */
    NP_COMMIT_WITHOUT_WAIT       /* devices, synchronised by software: the end is recorded too early */
};

#ifndef NP_MISTAKE
#define NP_MISTAKE NP_CORRECT
#endif

enum np_mechanism { NP_UNDO, NP_REDO, NP_CHECKPOINT, NP_SHADOW };

enum {
    NP_PAGE_LINES = NP_PAGE_BYTES / NP_LINE_BYTES,
    NP_TRANSACTION_PAGES = 64, /* that a transaction may write */
    NP_SLOTS = 4 * NP_TRANSACTION_PAGES,
    NP_REDO_SLOTS = 8, /* transactions whose redo logs may be there at once */
    NP_CLASSES_MAX = 4,
    NP_GIVEN_MAX = 64, /* blocks that a transaction may give back */
    NP_ENTRY_BYTES_MAX = NP_HEADER_BYTES + NP_PAGE_BYTES,
    NP_LOGGED_PAGES_MAX = NP_TRANSACTION_PAGES * NP_ENTRY_BYTES_MAX, /* bytes of a log that is always enough */
    NP_LOGGED_LINES_MAX = 1 << 16,                                   /* of one that is with lines */
    NP_GRANULE_BYTES_MAX = 1 << 24                                   /* a log area has several */
};

/* What is decided before there is a pool. */
struct np_options {
    enum np_mechanism mechanism;
    bool on_devices;       /* else the processor does all of it */
    bool software_sync;    /* devices do not synchronise, or are not trusted to */
    unsigned pool_id;      /* for devices */
    unsigned first_tag;    /* by which devices know the first thread; no two of a program have the same */
    unsigned threads;
    uint64_t log_bytes;    /* for one transaction on one device; 0 is enough, as a rule */
    uint64_t heap_pages;
    const char *device_path;
    const struct perdure_primitive *primitive;
};

/* Numbers of things, in ordinary memory. */
struct np_list {
    uint64_t count, capacity;
    uint32_t *number;
};

/* Blocks of one size: so many for each thread, from a page of the heap on. */
struct np_class {
    uint64_t block_bytes, per_page, blocks, pages, first_page;
};

struct np_pool {
    struct np_options options;
    struct np_deal deal;
    char *base; /* of the mapping, which devices know from here on, and its length */
    uint64_t bytes;
    /* Where the parts are, behind the library's start, and how long one is. */
    uint64_t start, records_at, logs_at, log_bytes, redo_at, redo_bytes, table_at, heap_at, heap_pages_all;
    char *heap;
    uint32_t *physical; /* shadow: of each page of the heap, the one where it lies; as in the pool's table */
    struct np_class classes[NP_CLASSES_MAX];
    unsigned class_count;
    struct np_thread *threads[NEARPM_THREADS_MAX];
};

/* A page that the running transaction names, and which of its lines. */
struct np_page {
    uint64_t number;  /* in the heap */
    uint64_t held;    /* logged, or in the copy */
    uint64_t written; /* to be made durable */
    char *copy;       /* redo: the new data */
    uint32_t before;  /* shadow: where the page lay */
};

/* A thread of the program, with its transactions. */
struct np_thread {
    alignas(NP_LINE_BYTES) struct np_pool *pool;
    unsigned number;        /* in the pool */
    unsigned tag;           /* by which devices know it */
    uint64_t transaction;   /* the running one, or the next */
    uint64_t taken;         /* redo: the devices have all of the transactions up to this one */
    bool has_tapes;         /* of the running transaction */
    struct np_tape tape[NEARPM_DEVICES_MAX];
    uint64_t page_count;
    struct np_page page[NP_TRANSACTION_PAGES];
    uint64_t slot[NP_SLOTS]; /* which page is where: transaction << 32 | index + 1; others are empty */
    char *copies;
    struct np_list free_pages[NEARPM_DEVICES_MAX];
    struct np_list free_blocks[NP_CLASSES_MAX];
    uint64_t given_count;
    struct {
        uint32_t class, number;
    } given[NP_GIVEN_MAX];
    uint64_t consistency_cycles, copy_cycles, wait_cycles;
};

/* The running transaction of a thread. That the mechanism is a constant makes reads cost nothing. */
struct np_transaction {
    enum np_mechanism mechanism;
    struct np_thread *thread;
};

static inline uint64_t np_cycles(void)
{
    uint64_t cycles;
    __asm__ volatile("csrr %0, cycle" : "=r"(cycles) : : "memory");
    return cycles;
}

static inline void np_push(struct np_list *list, uint64_t number)
{
    if (list->count == list->capacity) {
        list->capacity = list->capacity == 0 ? 64 : 2 * list->capacity;
        list->number = (uint32_t *)realloc(list->number, list->capacity * sizeof *list->number);
        if (list->number == NULL) {
            np_end(NP_STATUS_REFUSED, "no memory for a list of %" PRIu64 " numbers", list->capacity);
        }
    }
    list->number[list->count++] = (uint32_t)number;
}

/* ---- Flushes and fences ----------------------------------------------------------------------- */

static inline void np_flush(const struct np_pool *pool, const volatile void *start, uint64_t bytes)
{
    perdure_flush_range(pool->options.primitive, start, bytes);
}

/* The compiler keeps the order of stores here even if the primitive has no fence. */
static inline void np_fence(const struct np_pool *pool)
{
    pool->options.primitive->fence();
    __asm__ volatile("" : : : "memory");
}

/* ---- Parts ------------------------------------------------------------------------------------ */

/* The number of the thread's last transaction that has ended, as the processor knows it. */
static inline np_word *np_ended(const struct np_pool *pool, unsigned thread)
{
    return (np_word *)(void *)(pool->base + pool->start + (uint64_t)thread * NP_LINE_BYTES);
}

static inline void np_set_ended(const struct np_pool *pool, unsigned thread, uint64_t transaction)
{
    *np_ended(pool, thread) = transaction;
    if (NP_MISTAKE != NP_TOLD_TOO_EARLY) {
        np_flush(pool, np_ended(pool, thread), sizeof(np_word));
    }
    np_fence(pool);
}

static inline char *np_records(const struct np_pool *pool, unsigned thread)
{
    return pool->base + pool->records_at + (uint64_t)thread * NP_PAGE_BYTES;
}

static inline char *np_log_area(const struct np_pool *pool, unsigned thread)
{
    return pool->base + pool->logs_at + thread * pool->log_bytes;
}

static inline char *np_redo_slot(const struct np_pool *pool, unsigned thread, uint64_t transaction)
{
    const uint64_t slot = (uint64_t)thread * NP_REDO_SLOTS + transaction % NP_REDO_SLOTS;
    return pool->base + pool->redo_at + slot * pool->redo_bytes;
}

/* A committed transaction of redo logging: how many entries there are of it. */
struct np_redo_record {
    alignas(NP_LINE_BYTES) uint64_t transaction, entries, check;
};

/* A page of the heap: where it lies from the transaction on. The version is one more than before. */
struct np_switch {
    uint64_t page, to; /* physical page | version << 32, as in the table */
};

enum { NP_SWITCH_RECORDS = 2, NP_SWITCH_RECORD_BYTES = NP_PAGE_BYTES / NP_SWITCH_RECORDS };

/* A committed transaction of shadow paging. */
struct np_switch_record {
    alignas(NP_LINE_BYTES) uint64_t transaction, count, check;
    struct np_switch page[NP_TRANSACTION_PAGES];
};

_Static_assert(NP_REDO_SLOTS * sizeof(struct np_redo_record) <= NP_PAGE_BYTES, "a page has all records");
_Static_assert(sizeof(struct np_switch_record) <= NP_SWITCH_RECORD_BYTES, "a page has all records");

static inline struct np_redo_record *np_redo_record(const struct np_pool *pool, unsigned thread,
                                                    uint64_t transaction)
{
    struct np_redo_record *records = (struct np_redo_record *)(void *)np_records(pool, thread);
    return &records[transaction % NP_REDO_SLOTS];
}

static inline uint64_t np_redo_check(const struct np_redo_record *record)
{
    struct np_check check = np_begin_check();
    np_check_words(&check, (const np_word *)&record->transaction, 2);
    return np_end_check(&check);
}

static inline struct np_switch_record *np_switch_record(const struct np_pool *pool, unsigned thread,
                                                        uint64_t transaction)
{
    char *records = np_records(pool, thread);
    records += transaction % NP_SWITCH_RECORDS * NP_SWITCH_RECORD_BYTES;
    return (struct np_switch_record *)(void *)records;
}

static inline uint64_t np_switch_check(const struct np_switch_record *record)
{
    const np_word begin[NP_LANES] = {record->transaction, record->count};
    struct np_check check = np_begin_check();
    np_check_words(&check, begin, NP_LANES);
    np_check_words(&check, (const np_word *)&record->page[0].page, 2 * record->count);
    return np_end_check(&check);
}

static inline np_word *np_table(const struct np_pool *pool)
{
    return (np_word *)(void *)(pool->base + pool->table_at);
}

static inline char *np_physical_page(const struct np_pool *pool, uint64_t physical)
{
    return pool->heap + physical * NP_PAGE_BYTES;
}

/* Pages of one class lie on the same devices, byte by byte: granules are pages, or parts or multiples of
   one. */
static inline unsigned np_page_class(const struct np_pool *pool, uint64_t physical)
{
    return np_device_of(&pool->deal, np_physical_page(pool, physical));
}

/* ---- Layout ----------------------------------------------------------------------------------- */

/* How much of a granule entries of at most a page can fill. */
static inline uint64_t np_filled(uint64_t granule_bytes)
{
    return granule_bytes > 4 * NP_ENTRY_BYTES_MAX ? granule_bytes - NP_ENTRY_BYTES_MAX : granule_bytes / 2;
}

/* An area with so many whole granules of each device, wherever it begins. */
static inline uint64_t np_area_bytes(const struct np_deal *deal, uint64_t granules)
{
    return np_round_up(deal->devices * deal->granule_bytes * (granules + 1), NP_PAGE_BYTES);
}

/* The processor deals nothing out: a granule is what a transaction may log. */
static inline void np_deal_to_processor(struct np_pool *pool, uint64_t log_bytes)
{
    const uint64_t granule = np_round_up(log_bytes + NP_HEADER_BYTES, NP_PAGE_BYTES);
    pool->deal = (struct np_deal){.devices = 1, .granule_bytes = granule};
    pool->log_bytes = 2 * granule;
    pool->redo_bytes = granule;
}

static inline void np_deal_to_devices(struct np_pool *pool, uint64_t log_bytes)
{
    const char *path = pool->options.device_path;
    const int refusal = nearpm.count == 0 ? NearPM_init_device(path) : 0;
    if (refusal != 0) {
        np_end(NP_STATUS_REFUSED, "cannot use the device at %s: %s", path, strerror(refusal));
    }
    const uint64_t granule = nearpm.granule_bytes;
    if (granule < 2 * NP_LINE_BYTES || (granule % NP_PAGE_BYTES != 0 && NP_PAGE_BYTES % granule != 0) ||
        granule > NP_GRANULE_BYTES_MAX) {
        np_end(NP_STATUS_REFUSED, "devices with granules of %" PRIu64 " bytes are not for this library",
               granule);
    }
    const uint64_t filled = np_filled(granule), granules = (log_bytes + filled - 1) / filled;
    pool->deal = (struct np_deal){.devices = nearpm.count, .granule_bytes = granule};
    /* Devices keep nothing of a redo log in their area but how far they are. */
    pool->log_bytes = np_area_bytes(&pool->deal, pool->options.mechanism == NP_REDO ? 2 : 2 * granules);
    pool->redo_bytes = np_area_bytes(&pool->deal, granules);
}

/* Pages that the heap has beside those that the program sees. */
static inline uint64_t np_spare_pages(const struct np_pool *pool)
{
    const struct np_deal *deal = &pool->deal;
    const uint64_t round = np_round_up(deal->devices * deal->granule_bytes, NP_PAGE_BYTES) / NP_PAGE_BYTES;
    const uint64_t spare = (uint64_t)pool->options.threads * deal->devices * NP_TRANSACTION_PAGES;
    /* As many of each class. */
    return deal->devices == 1 ? spare : np_round_up(spare, round);
}

/* Decides where everything is that lies from `start` on in a pool, and says where it ends. */
static inline uint64_t np_lay_out(struct np_pool *pool, const struct np_options *options, uint64_t start)
{
    const uint64_t threads = options->threads;
    const bool has_log = options->mechanism != NP_SHADOW, has_redo = options->mechanism == NP_REDO;
    const bool has_table = options->mechanism == NP_SHADOW;
    pool->options = *options;
    if (threads == 0 || threads > NEARPM_THREADS_MAX) {
        np_end(NP_STATUS_REFUSED, "there are %" PRIu64 " threads, but must be 1 to %d", threads,
               NEARPM_THREADS_MAX);
    }
    uint64_t log_bytes = options->log_bytes;
    if (log_bytes == 0) {
        log_bytes = options->mechanism == NP_CHECKPOINT ? NP_LOGGED_PAGES_MAX : NP_LOGGED_LINES_MAX;
    }
    if (options->on_devices) {
        np_deal_to_devices(pool, log_bytes);
    } else {
        np_deal_to_processor(pool, log_bytes);
    }
    pool->start = np_round_up(start, NP_PAGE_BYTES);
    pool->records_at = pool->start + NP_PAGE_BYTES;
    pool->logs_at = pool->records_at + threads * NP_PAGE_BYTES;
    pool->redo_at = pool->logs_at + (has_log ? threads * pool->log_bytes : 0);
    pool->table_at = pool->redo_at + (has_redo ? threads * NP_REDO_SLOTS * pool->redo_bytes : 0);
    pool->heap_at = pool->table_at;
    pool->heap_pages_all = options->heap_pages;
    if (has_table) {
        pool->heap_at += np_round_up(options->heap_pages * sizeof(np_word), NP_PAGE_BYTES);
        pool->heap_pages_all += np_spare_pages(pool);
    }
    pool->bytes = pool->heap_at + pool->heap_pages_all * NP_PAGE_BYTES;
    if (!options->on_devices) {
        /* Areas begin with a granule. */
        pool->deal.offset = pool->deal.granule_bytes - pool->logs_at % pool->deal.granule_bytes;
    }
    return pool->bytes;
}

#endif
