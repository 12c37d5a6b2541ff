/*
 * Transactions by undo: the old value of a word is in the log, durably, before the word changes in place.
 *
 *   store     an entry with the word's address, its old value, the transaction's number and a check, flushed;
 *             fence; then the word itself, which may become durable at any time.
 *   commit    all words are flushed; fence; then the number is stored as that of the last transaction that is
 *             over, and flushed: the transaction is committed.
 *   recovery  the number behind the last that is over may have begun: its entries, up to the first that does
 *             not fit, are undone from the last to the first, flushed, fenced; then this number is over, too.
 *
 * Always true: no number is used twice, so that an entry says by itself which transaction it is of.
 * Recovery may be cut and done again. A transaction logs a word once. One thread.
 *
 * A program gives the log a place, and has UNDO_BUGS among its own.
 */
#ifndef PERDURE_CHECK_UNDO_H
#define PERDURE_CHECK_UNDO_H

#define UNDO_BUGS(BUG)                                                                                       \
    BUG(ENTRY_NOT_FLUSHED, MISSING_FLUSH, "a word changes while its entry is in the caches")                 \
    BUG(ENTRY_NOT_FENCED, MISSING_FENCE, "a word may be durable before its entry")                           \
    BUG(COMMITTED_BEFORE_DATA, SEMANTIC, "the transaction is over, durably, before its words are flushed")   \
    BUG(NUMBER_NOT_FLUSHED, LOG_HEADER_NOT_FLUSHED, "the number that is over is not flushed")                \
    BUG(WORD_BEFORE_ENTRY, WRONG_ORDER, "a word changes, durably, before its entry is written")              \
    BUG(OVER_BEFORE_UNDONE, RECOVERY_NOT_IDEMPOTENT, "recovery stores the number, and then undoes")

/* How many words a transaction may change, and what its log takes. */
#define UNDO_ENTRIES 32
#define UNDO_LOG_BYTES (64 + 32 * UNDO_ENTRIES)

#include "run.h"

struct undo_log {
    alignas(LINE_BYTES) uint64_t over; /* the last transaction that was committed, or undone */
    alignas(LINE_BYTES) struct undo_entry {
        uint64_t *word;
        uint64_t old, number, check;
    } entry[UNDO_ENTRIES];
};

static_assert(sizeof(struct undo_log) == UNDO_LOG_BYTES, "a log has no gaps");

static struct undo_log *undo_log;
static unsigned undo_count; /* entries of the running transaction */

static uint64_t undo_check(const struct undo_entry *entry)
{
    return mix(mix(mix((uintptr_t)entry->word) + entry->old) + entry->number);
}

/* An entry with what the word was is durable behind this, if the transaction had none. */
static void undo_log_word(uint64_t *word, uint64_t old)
{
    for (unsigned i = 0; i < undo_count; i++) {
        if (undo_log->entry[i].word == word) {
            return;
        }
    }
    if (undo_count == UNDO_ENTRIES) {
        die(STATUS_USAGE, "a transaction changes more than %d words", UNDO_ENTRIES);
    }
    struct undo_entry *entry = &undo_log->entry[undo_count++];
    entry->word = word;
    entry->old = old;
    entry->number = undo_log->over + 1;
    entry->check = undo_check(entry); /* store: entry-not-flushed */
    if (!planted(ENTRY_NOT_FLUSHED)) {
        flush(entry); /* bug: entry-not-flushed */
    }
    if (!planted(ENTRY_NOT_FENCED)) {
        fence(); /* bug: entry-not-fenced */
    }
}

/* Changes a word of the pool in the running transaction. */
static void undo_store(uint64_t *word, uint64_t value)
{
    const uint64_t old = *word;
    if (planted(WORD_BEFORE_ENTRY)) {
        *word = value; /* bug: word-before-entry */
        persist(word);
    }
    undo_log_word(word, old);
    *word = value; /* store: entry-not-fenced, committed-before-data */
}

static void undo_over(void)
{
    undo_log->over++; /* store: number-not-flushed */
    if (!planted(NUMBER_NOT_FLUSHED)) {
        flush(&undo_log->over); /* bug: number-not-flushed */
    }
    fence();
    undo_count = 0;
}

/* Makes the words of the first entries durable, flushing each line once. */
static void undo_persist_words(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        unsigned first = 0;
        while (!same_line(undo_log->entry[first].word, undo_log->entry[i].word)) {
            first++;
        }
        if (first == i) {
            flush(undo_log->entry[i].word);
        }
    }
    fence();
}

static void undo_commit(void)
{
    const unsigned count = undo_count;
    if (planted(COMMITTED_BEFORE_DATA)) {
        undo_over(); /* bug: committed-before-data */
    }
    undo_persist_words(count);
    if (!planted(COMMITTED_BEFORE_DATA)) {
        undo_over();
    }
}

/* Whether there is an entry that counts. */
static bool undo_fits(unsigned index)
{
    const struct undo_entry *entry = &undo_log->entry[index];
    return index < UNDO_ENTRIES && entry->number == undo_log->over + 1 && entry->check == undo_check(entry);
}

static void undo_recover(struct undo_log *log)
{
    undo_log = log;
    unsigned count = 0;
    while (undo_fits(count)) {
        count++;
    }
    if (count == 0) {
        return;
    }
    if (planted(OVER_BEFORE_UNDONE)) {
        undo_over(); /* bug: over-before-undone */
    }
    for (unsigned i = count; i-- > 0;) {
        *undo_log->entry[i].word = undo_log->entry[i].old; /* store: over-before-undone */
    }
    undo_persist_words(count);
    if (!planted(OVER_BEFORE_UNDONE)) {
        undo_over();
    }
}

#endif
