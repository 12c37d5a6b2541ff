/*
 * A redo log: failure-atomic transactions over the words of a pool, in software alone.
 *
 * What a transaction stores goes into a write set in ordinary memory, gathered line by line, and its loads
 * look there first; nothing in the pool changes before the commit, with which the next one begins. The commit
 * has four steps, and after each the fence that the next one rests on:
 *
 *   entries     the write set goes into the log, and is flushed.
 *       fence A: all entries are durable before the record can be.
 *   record      the number of the transaction and the length of its entries; flushed.
 *       fence B: the record is durable before anything at home can be. The transaction is committed.
 *   home        every word goes where it belongs; every line is flushed once.
 *       fence C: all of that is durable before the truncation can be.
 *   truncation  the number again, by which the record counts no more; flushed.
 *       fence D: this is durable before the log is written again, and before the caller gives up a lock
 *       under which another log's transaction may write the same words.
 *
 * Recovery does a committed transaction again that is not truncated, and gives up one that is not committed.
 * It may itself be cut and done again: the words of a transaction are its own values, and a number that was
 * in use is never used again, so that entries and records of different attempts are told apart.
 *
 * Always true of what is durable: the number of a record that counts is the truncation's and one. Then each
 * entry of it fits its check, or the log is damaged. A log belongs to one thread. Transactions that may meet
 * in a word are kept apart by the program's own locks, from begin to the end of the commit.
 *
 * The log is laid down as zeros. Its format, in words of eight bytes: a line with the record {number, words
 * of entries, check}, a line with the truncation, and entries {offset of a line in the pool | which of its
 * eight words << 56, those words, check}.
 *
 * With WAL_MISTAKE one of the mistakes below is built in, for tests of whoever has to find it.
 */
#ifndef PERDURE_WAL_H
#define PERDURE_WAL_H

#include <stdalign.h>
#include <stdbool.h>
#include <stdlib.h>

#include "perdure.h"

enum wal_mistake {
    WAL_CORRECT,
    WAL_RECORD_BEFORE_ENTRIES,  /* entries are flushed behind the record */
    WAL_RECORD_NOT_FLUSHED,     /* homes are written while the record is in the caches */
    WAL_HOME_BEFORE_RECORD,     /* homes are written before the record, and may be durable first */
    WAL_HOME_NOT_FLUSHED,       /* the record ceases to count while homes are in the caches */
    WAL_TRUNCATED_BEFORE_HOME,  /* the record ceases to count before homes are written */
    WAL_TRUNCATION_NOT_FLUSHED, /* the log is written again while its record counts */
    WAL_UNCOMMITTED_APPLIED,    /* recovery takes every entry that it finds, without a record */
    WAL_COMMITTED_DROPPED       /* recovery takes no entry, whatever the record says */
};

#ifndef WAL_MISTAKE
#define WAL_MISTAKE WAL_CORRECT
#endif

enum { WAL_LINE_WORDS = 8, WAL_ENTRY_WORDS_MAX = WAL_LINE_WORDS + 2, WAL_MASK_SHIFT = 56 };

/* A word of the pool, whatever the program keeps there. */
typedef uint64_t __attribute__((may_alias)) wal_word;

/* The log, in persistent memory. */
struct wal_log {
    alignas(64) struct wal_record {
        uint64_t number, words, check;
    } record;
    alignas(64) uint64_t truncated;
    alignas(64) uint64_t word[];
};

/* A line of the pool that the running transaction writes, and which words of it. */
struct wal_line {
    wal_word *home;
    uint64_t mask;
    uint64_t word[WAL_LINE_WORDS];
};

/* One thread's log and the write set of its running transaction. */
struct wal {
    struct wal_log *log;
    char *base; /* of the pool, with its length */
    uint64_t bytes;
    const struct perdure_primitive *primitive;
    uint64_t number; /* of the running transaction, or the next one */
    uint64_t count;  /* of lines in the write set */
    uint64_t lines_max;
    struct wal_line *lines;
    /* Which line of the write set is whose, by a hash of its address: number << 32 | index + 1. What has
       another number is empty. */
    uint64_t *slots;
    unsigned slots_shift;
};

/* What a log for transactions over up to `lines_max` lines takes, in whole lines. */
static inline size_t wal_bytes(size_t lines_max)
{
    const size_t words = lines_max * WAL_ENTRY_WORDS_MAX;
    return sizeof(struct wal_log) + (words * sizeof(uint64_t) + 63) / 64 * 64;
}

/* Begins to use a log, which was laid down for as many lines, over a pool of `bytes` at `base`. Recovery must
 * follow. False if there is no memory for the write set. */
static inline bool wal_open(struct wal *wal, void *log, size_t lines_max, void *base, size_t bytes,
                            const struct perdure_primitive *primitive)
{
    unsigned bits = 4;
    while ((size_t)1 << bits < 2 * lines_max) {
        bits++;
    }
    *wal = (struct wal){.log = (struct wal_log *)log,
                        .base = (char *)base,
                        .bytes = bytes,
                        .primitive = primitive,
                        .lines_max = lines_max,
                        .slots_shift = 64 - bits};
    wal->lines = (struct wal_line *)calloc(lines_max, sizeof *wal->lines);
    wal->slots = (uint64_t *)calloc((size_t)1 << bits, sizeof *wal->slots);
    return wal->lines != NULL && wal->slots != NULL;
}

/* ---- The write set ---------------------------------------------------------------------------- */

static inline wal_word *wal_home(const void *address)
{
    return (wal_word *)((uintptr_t)address & ~(PERDURE_BLOCK_BYTES - 1));
}

static inline uint64_t wal_index(const void *address)
{
    return (uintptr_t)address / sizeof(uint64_t) % WAL_LINE_WORDS;
}

/* Where the line's slot is, or would be. */
static inline uint64_t *wal_slot(const struct wal *wal, const wal_word *home)
{
    const uint64_t last = (UINT64_C(1) << (64 - wal->slots_shift)) - 1;
    uint64_t at = (uintptr_t)home / 64 * UINT64_C(0x9e3779b97f4a7c15) >> wal->slots_shift;
    while (wal->slots[at] >> 32 == (uint32_t)wal->number &&
           wal->lines[(uint32_t)wal->slots[at] - 1].home != home) {
        at = (at + 1) & last;
    }
    return &wal->slots[at];
}

/* A word as the running transaction sees it. */
static inline uint64_t wal_load(const struct wal *wal, const void *address)
{
    if (wal->count != 0) {
        const uint64_t slot = *wal_slot(wal, wal_home(address));
        if (slot >> 32 == (uint32_t)wal->number) {
            const struct wal_line *line = &wal->lines[(uint32_t)slot - 1];
            if ((line->mask >> wal_index(address) & 1) != 0) {
                return line->word[wal_index(address)];
            }
        }
    }
    return *(const wal_word *)address;
}

/* Stores a word at the commit. False, and it is not stored, if the transaction has too many lines. */
static inline bool wal_store(struct wal *wal, void *address, uint64_t value)
{
    wal_word *home = wal_home(address);
    uint64_t *slot = wal_slot(wal, home);
    if (*slot >> 32 != (uint32_t)wal->number) {
        if (wal->count == wal->lines_max) {
            return false;
        }
        wal->lines[wal->count].home = home;
        wal->lines[wal->count].mask = 0;
        *slot = wal->number << 32 | ++wal->count;
    }
    struct wal_line *line = &wal->lines[(uint32_t)*slot - 1];
    line->mask |= UINT64_C(1) << wal_index(address);
    line->word[wal_index(address)] = value;
    return true;
}

/* ---- The steps -------------------------------------------------------------------------------- */

static inline void wal_flush(const struct wal *wal, const volatile void *start, size_t bytes)
{
    perdure_flush_range(wal->primitive, start, bytes);
}

/* The compiler keeps the order of stores here even if the primitive has no fence. */
static inline void wal_fence(const struct wal *wal)
{
    wal->primitive->fence();
    __asm__ volatile("" : : : "memory");
}

/* Of `count` words that belong to a transaction. */
static inline uint64_t wal_check(uint64_t number, const uint64_t *words, uint64_t count)
{
    uint64_t check = number * UINT64_C(0x9e3779b97f4a7c15) + count;
    for (uint64_t i = 0; i < count; i++) {
        check = (check ^ words[i]) * UINT64_C(0xbf58476d1ce4e5b9);
        check ^= check >> 29;
    }
    return check;
}

/* Writes the entries into the log; how many words they have. */
static inline uint64_t wal_write_entries(const struct wal *wal)
{
    uint64_t *word = wal->log->word;
    for (uint64_t i = 0; i < wal->count; i++) {
        const struct wal_line *line = &wal->lines[i];
        uint64_t *entry = word;
        *word++ = (uint64_t)((char *)line->home - wal->base) | line->mask << WAL_MASK_SHIFT;
        for (unsigned j = 0; j < WAL_LINE_WORDS; j++) {
            if ((line->mask >> j & 1) != 0) {
                *word++ = line->word[j];
            }
        }
        *word = wal_check(wal->number, entry, (uint64_t)(word - entry));
        word++;
    }
    return (uint64_t)(word - wal->log->word);
}

/* Writes every word where it belongs, and flushes every line. */
static inline void wal_write_home(const struct wal *wal)
{
    for (uint64_t i = 0; i < wal->count; i++) {
        const struct wal_line *line = &wal->lines[i];
        for (unsigned j = 0; j < WAL_LINE_WORDS; j++) {
            if ((line->mask >> j & 1) != 0) {
                line->home[j] = line->word[j];
            }
        }
        if (WAL_MISTAKE != WAL_HOME_NOT_FLUSHED) {
            wal->primitive->flush(line->home);
        }
    }
}

static inline void wal_write_record(const struct wal *wal, uint64_t words)
{
    struct wal_record *record = &wal->log->record;
    record->number = wal->number;
    record->words = words;
    record->check = wal_check(wal->number, &record->words, 1);
    if (WAL_MISTAKE != WAL_RECORD_NOT_FLUSHED) {
        wal_flush(wal, record, sizeof *record);
    }
}

/* The number is behind us, whatever became of it: the next transaction has the next one. */
static inline void wal_truncate(struct wal *wal)
{
    wal->log->truncated = wal->number;
    if (WAL_MISTAKE != WAL_TRUNCATION_NOT_FLUSHED) {
        wal_flush(wal, &wal->log->truncated, sizeof wal->log->truncated);
    }
    wal_fence(wal); /* D */
    wal->number++;
    wal->count = 0;
}

/* ---- Commit and recovery ---------------------------------------------------------------------- */

/* Ends the transaction: all that it stored is durable when this returns, if flushes and fences do what
 * they promise. A transaction that stored nothing costs nothing. */
static inline void wal_commit(struct wal *wal)
{
    if (wal->count == 0) {
        return;
    }
    const uint64_t words = wal_write_entries(wal);
    if (WAL_MISTAKE == WAL_HOME_BEFORE_RECORD) {
        wal_write_home(wal);
    }
    if (WAL_MISTAKE != WAL_RECORD_BEFORE_ENTRIES) {
        wal_flush(wal, wal->log->word, words * sizeof(uint64_t));
    }
    wal_fence(wal); /* A */
    wal_write_record(wal, words);
    wal_fence(wal); /* B */
    if (WAL_MISTAKE == WAL_RECORD_BEFORE_ENTRIES) {
        wal_flush(wal, wal->log->word, words * sizeof(uint64_t));
    }
    if (WAL_MISTAKE == WAL_TRUNCATED_BEFORE_HOME) {
        wal->log->truncated = wal->number;
        wal_flush(wal, &wal->log->truncated, sizeof wal->log->truncated);
        wal_fence(wal);
    }
    wal_write_home(wal);
    wal_fence(wal); /* C */
    wal_truncate(wal);
}

/* Puts the entries of the number into the write set. False if one does not fit. */
static inline bool wal_read_entries(struct wal *wal, uint64_t words)
{
    const uint64_t *entry = wal->log->word, *end = entry + words;
    while (entry < end) {
        const uint64_t mask = entry[0] >> WAL_MASK_SHIFT;
        const uint64_t offset = entry[0] & ((UINT64_C(1) << WAL_MASK_SHIFT) - 1);
        const uint64_t count = 1 + (uint64_t)__builtin_popcountll(mask);
        if (count == 1 || count >= (uint64_t)(end - entry) || offset % 64 != 0 ||
            offset + 64 > wal->bytes || entry[count] != wal_check(wal->number, entry, count)) {
            return false;
        }
        const uint64_t *value = &entry[1];
        for (unsigned j = 0; j < WAL_LINE_WORDS; j++) {
            if ((mask >> j & 1) != 0 &&
                !wal_store(wal, (wal_word *)(wal->base + offset) + j, *value++)) {
                return false;
            }
        }
        entry += count + 1;
    }
    return true;
}

/* What must come before the first transaction, of a new log, too: does again what was committed. False,
 * and nothing is changed, if the log is damaged. */
static inline bool wal_recover(struct wal *wal)
{
    const struct wal_record *record = &wal->log->record;
    const uint64_t words_max = wal->lines_max * WAL_ENTRY_WORDS_MAX;
    wal->number = wal->log->truncated + 1;
    if (WAL_MISTAKE == WAL_UNCOMMITTED_APPLIED) {
        wal_read_entries(wal, words_max);
    } else if (WAL_MISTAKE != WAL_COMMITTED_DROPPED && record->number == wal->number &&
               record->check == wal_check(record->number, &record->words, 1) &&
               (record->words > words_max || !wal_read_entries(wal, record->words))) {
        return false;
    }
    wal_write_home(wal);
    wal_fence(wal); /* C */
    wal_truncate(wal);
    return true;
}

#endif
