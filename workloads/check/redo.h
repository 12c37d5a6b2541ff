/*
 * Transactions by redo: words get their new values at home when all of them are in the log, durably.
 *
 *   store     into a write set in ordinary memory, in which the transaction's own loads look first.
 *   commit    entries with addresses and new values, flushed; fence; a record with the transaction's number
 *             and how many entries it has, flushed; fence: the transaction is committed. Then the words at
 *             home, flushed; fence; then the number as that of the last transaction that is over, flushed;
 *             fence: the log may be written again.
 *   recovery  if the record is of the number behind the last that is over, its entries are written home, and
 *             it is over.
 *
 * Always true: a record that counts has all of its entries. Recovery may be cut and done again. One thread.
 *
 * A program gives the log a place, and has REDO_BUGS among its own.
 */
#ifndef PERDURE_CHECK_REDO_H
#define PERDURE_CHECK_REDO_H

#define REDO_BUGS(BUG)                                                                                       \
    BUG(ENTRIES_NOT_FLUSHED, MISSING_FLUSH, "the record is durable while the entries are in the caches")     \
    BUG(ENTRIES_NOT_FENCED, MISSING_FENCE, "the record may be durable before the entries")                   \
    BUG(RECORD_NOT_FLUSHED, LOG_HEADER_NOT_FLUSHED, "words change at home while it is in the caches")        \
    BUG(FIRST_LINE_OF_ENTRIES, WRONG_LINE, "of the entries only the first line is flushed")                  \
    BUG(HOMES_BEFORE_RECORD, WRONG_ORDER, "words are written home, durably, before the record")              \
    BUG(OVER_BEFORE_HOMES, SEMANTIC, "the transaction is over, durably, before its words are written home")  \
    BUG(NUMBER_NOT_FLUSHED, MISSING_FLUSH, "the log is written again while its record counts")               \
    BUG(OVER_BEFORE_REDONE, RECOVERY_NOT_IDEMPOTENT, "recovery stores the number, and then writes words home")

/* How many words a transaction may change, and what its log takes. */
#define REDO_ENTRIES 32
#define REDO_LOG_BYTES (2 * 64 + 16 * REDO_ENTRIES)

#include "run.h"

struct redo_entry {
    uint64_t *word;
    uint64_t value;
};

struct redo_log {
    alignas(LINE_BYTES) struct {
        uint64_t number, count, check;
    } record;
    alignas(LINE_BYTES) uint64_t over; /* the last transaction that is all at home */
    alignas(LINE_BYTES) struct redo_entry entry[REDO_ENTRIES];
};

static_assert(sizeof(struct redo_log) == REDO_LOG_BYTES, "a log has no gaps");

static struct redo_log *redo_log;
static struct redo_entry redo_set[REDO_ENTRIES]; /* in ordinary memory: the running transaction's words */
static unsigned redo_count;

/* Where the word is in the write set, or would be. */
static unsigned redo_index(const uint64_t *word)
{
    unsigned index = 0;
    while (index < redo_count && redo_set[index].word != word) {
        index++;
    }
    return index;
}

/* A word as the running transaction sees it. */
static uint64_t redo_load(const uint64_t *word)
{
    const unsigned index = redo_index(word);
    return index < redo_count ? redo_set[index].value : *word;
}

static void redo_store(uint64_t *word, uint64_t value)
{
    const unsigned index = redo_index(word);
    if (index == REDO_ENTRIES) {
        die(STATUS_USAGE, "a transaction changes more than %d words", REDO_ENTRIES);
    }
    redo_set[index].word = word;
    redo_set[index].value = value;
    redo_count += index == redo_count;
}

static uint64_t redo_check(uint64_t number, uint64_t count)
{
    return mix(mix(number) + count);
}

static void redo_write_entries(void)
{
    const size_t bytes = redo_count * sizeof *redo_set;
    /* store: entries-not-flushed, entries-not-fenced, first-line-of-entries */
    memcpy(redo_log->entry, redo_set, bytes);
    if (planted(FIRST_LINE_OF_ENTRIES)) {
        flush(redo_log->entry); /* bug: first-line-of-entries */
    } else if (!planted(ENTRIES_NOT_FLUSHED)) {
        flush_range(redo_log->entry, bytes); /* bug: entries-not-flushed */
    }
    if (!planted(ENTRIES_NOT_FENCED)) {
        fence(); /* bug: entries-not-fenced */
    }
}

static void redo_write_record(void)
{
    redo_log->record.number = redo_log->over + 1;
    redo_log->record.count = redo_count;
    redo_log->record.check = redo_check(redo_log->over + 1, redo_count); /* store: record-not-flushed */
    if (!planted(RECORD_NOT_FLUSHED)) {
        flush(&redo_log->record); /* bug: record-not-flushed */
    }
    fence();
}

/* Writes every word where it belongs, durably, flushing each line once. */
static void redo_write_home(const struct redo_entry *entry, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        *entry[i].word = entry[i].value; /* store: over-before-homes, over-before-redone */
    }
    for (uint64_t i = 0; i < count; i++) {
        uint64_t first = 0;
        while (!same_line(entry[first].word, entry[i].word)) {
            first++;
        }
        if (first == i) {
            flush(entry[i].word);
        }
    }
    fence();
}

static void redo_over(void)
{
    redo_log->over++; /* store: number-not-flushed */
    if (!planted(NUMBER_NOT_FLUSHED)) {
        flush(&redo_log->over); /* bug: number-not-flushed */
    }
    fence();
}

static void redo_commit(void)
{
    redo_write_entries();
    if (planted(HOMES_BEFORE_RECORD)) {
        redo_write_home(redo_set, redo_count); /* bug: homes-before-record */
    }
    redo_write_record();
    if (planted(OVER_BEFORE_HOMES)) {
        redo_over(); /* bug: over-before-homes */
        redo_write_home(redo_set, redo_count);
    } else {
        redo_write_home(redo_set, redo_count);
        redo_over();
    }
    redo_count = 0;
}

static void redo_recover(struct redo_log *log)
{
    redo_log = log;
    const uint64_t number = log->record.number, count = log->record.count;
    if (number != log->over + 1 || count > REDO_ENTRIES || log->record.check != redo_check(number, count)) {
        return;
    }
    if (planted(OVER_BEFORE_REDONE)) {
        redo_over(); /* bug: over-before-redone */
        redo_write_home(log->entry, count);
    } else {
        redo_write_home(log->entry, count);
        redo_over();
    }
}

#endif
