/*
 * Transactions over lines of a pool, with a redo log, an undo log or none.
 *
 * An entry of a log is a line's address and its value, in a line each. Between begin and commit a line is
 * read where `reading` says, and written where `writing` says.
 *
 * Always true: a line has one entry in a transaction, and entries lie one behind the other. Undo: the entry
 * has the line's old value and is durable before the line changes. Redo: it has the new one; no line
 * changes before all entries and their number are durable. A transaction is committed when its number is
 * durable. Numbers begin with 1.
 */
#ifndef PERDURE_FLUSH_TRANSACTIONS_H
#define PERDURE_FLUSH_TRANSACTIONS_H

#include "flush.h"

enum log { NO_LOG, UNDO, REDO };
enum { WORDS = LINE_BYTES / sizeof(uint64_t) };

static const char *const LOGS[] = {"none", "undo", "redo", NULL};

struct line {
    alignas(LINE_BYTES) uint64_t word[WORDS];
};

struct entry {
    alignas(LINE_BYTES) struct line *home;
    uint64_t transaction;
    uint64_t check; /* of an undo log, where an entry may be there in part */
    struct line value;
};

/* Which log, where it is, and how long it can be; whether an undo log's entries are stored around the
   caches. */
static uint64_t log_kind, log_around;
static struct entry *log_entries;
static uint64_t log_entries_max;
/* Of the running transaction: its number and its entries. */
static uint64_t transaction, entry_count;
/* Of each line before the log: which entry is its own, if that entry is the running transaction's. */
static uint64_t *entry_of;

static uint64_t *committed(void)
{
    return &pool->root[2].word;
}

/* Of a redo log: the transaction whose entries are all durable, and how many there are. */
static uint64_t *to_be_applied(void)
{
    return &pool->root[3].word;
}

/* Before the first transaction: which lines there are. */
static void prepare_log(uint64_t kind, struct entry *entries, uint64_t entries_max)
{
    log_kind = kind;
    log_entries = entries;
    log_entries_max = entries_max;
    entry_of = ordinary(((uintptr_t)entries - POOL_ADDRESS) / LINE_BYTES, sizeof *entry_of);
}

static uint64_t *line_entry(const void *address)
{
    return &entry_of[((uintptr_t)address - POOL_ADDRESS) / LINE_BYTES];
}

static uint64_t check_of(const struct entry *entry)
{
    uint64_t check = mix(entry->transaction) + mix((uintptr_t)entry->home);
    for (unsigned i = 0; i < WORDS; i++) {
        check = mix(check) + entry->value.word[i];
    }
    return mix(check);
}

static void begin_transaction(uint64_t number)
{
    transaction = number;
    entry_count = 0;
}

/* The line's entry in the running transaction; NULL if it has none. */
static struct entry *logged(const void *address)
{
    const uint64_t index = *line_entry(address);
    struct entry *entry = &log_entries[index];
    return index < entry_count && (void *)entry->home == address ? entry : NULL;
}

/* Where to read a line, in a pointer to what is in it. */
static const void *reading(const void *line)
{
    const struct entry *entry = log_kind == REDO ? logged(line) : NULL;
    return entry == NULL ? line : &entry->value;
}

/* Stores a whole entry around the caches: it needs no flush. */
static void store_around(struct entry *entry, const struct entry *from)
{
    const uint64_t *words = (const uint64_t *)from;
    for (unsigned i = 0; i < sizeof *from / sizeof *words; i++) {
        perdure_movnt64((uint64_t *)entry + i, words[i]);
    }
}

/* Writes a line's entry of an undo log, durably. */
static void write_undo(struct entry *entry, struct line *line)
{
    struct entry made = {.home = line, .transaction = transaction, .value = *line};
    made.check = check_of(&made);
    if (log_around != 0) {
        fence();
        store_around(entry, &made);
    } else {
        *entry = made;
        fence();
        flush_bytes(entry, sizeof *entry);
    }
    fence();
}

/* Where to write a line. */
static void *writing(void *line)
{
    if (log_kind == NO_LOG) {
        return line;
    }
    struct entry *entry = logged(line);
    if (entry == NULL) {
        entry = &log_entries[entry_count];
        *line_entry(line) = entry_count++;
        if (log_kind == UNDO) {
            write_undo(entry, line);
        } else {
            *entry = (struct entry){
                .home = line, .transaction = transaction, .value = *(struct line *)line};
        }
    }
    return log_kind == REDO ? &entry->value : line;
}

/* Makes all lines that have an entry durable. */
static void flush_homes(void)
{
    fence();
    for (uint64_t i = 0; i < entry_count; i++) {
        flush_line(log_entries[i].home);
    }
    fence();
}

static void write_home(void)
{
    for (uint64_t i = 0; i < entry_count; i++) {
        *log_entries[i].home = log_entries[i].value;
    }
    flush_homes();
}

static void set_durably(uint64_t *word, uint64_t value)
{
    *word = value;
    persist(word);
}

static void finish_redo(void)
{
    write_home();
    set_durably(committed(), transaction);
}

static void commit(void)
{
    if (log_kind == REDO) {
        fence();
        flush_bytes(log_entries, entry_count * sizeof(struct entry));
        fence();
        set_durably(to_be_applied(), transaction << 32 | entry_count);
        finish_redo();
    } else if (log_kind == UNDO) {
        flush_homes();
        set_durably(committed(), transaction);
    } else {
        *committed() = transaction;
    }
}

/* What an interrupted transaction left: its entries, if they count. */
static uint64_t entries_left(void)
{
    if (log_kind == REDO) {
        const bool is_whole = *to_be_applied() >> 32 == transaction;
        return is_whole ? *to_be_applied() & UINT32_MAX : 0;
    }
    uint64_t count = 0;
    /* Those behind, of an attempt that an earlier cut ended, are of the same transaction, and had the
       same old values. */
    while (log_kind == UNDO && count < log_entries_max &&
           log_entries[count].transaction == transaction &&
           log_entries[count].check == check_of(&log_entries[count])) {
        count++;
    }
    return count;
}

/* Undoes the transaction that was interrupted, or does it again. */
static void recover_log(void)
{
    begin_transaction(*committed() + 1);
    entry_count = entries_left();
    if (entry_count > log_entries_max) {
        die(STATUS_WRONG, "the log has %" PRIu64 " entries", entry_count);
    }
    for (uint64_t i = 0; i < entry_count; i++) {
        const struct line *home = log_entries[i].home;
        if (home != (void *)&pool->root[0] && home != (void *)&pool->root[1]) {
            check_pointer(home);
        }
    }
    if (log_kind == REDO && entry_count > 0) {
        finish_redo();
    } else if (log_kind == UNDO) {
        write_home();
    }
}

#endif
