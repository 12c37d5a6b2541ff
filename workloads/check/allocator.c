/*
 * allocator POOL [OPTION]...: an allocator of one to three units of a line, and handles that blocks hang
 * from.
 *
 * A bitmap says which units are in use. To put fills a block that is free and makes it durable; then the
 * bits of the new block, those of the key's old one and the handle have to change together: a record in the
 * log, one line, says the new values of these words. When it is durable the words are written, and when
 * they are, the record is cleared. To erase does the same without a new block.
 *
 * Always true of what is durable: unless the record counts, the bits are those of the blocks that handles
 * lead to. If it counts, writing its words again makes that so, however often power fails meanwhile.
 */
#define PROGRAM "allocator"
#define BUGS(BUG)                                                                                            \
    BUG(BLOCK_NOT_FLUSHED, MISSING_FLUSH, "a block that a handle leads to is not flushed")                   \
    BUG(HOMES_NOT_FLUSHED, MISSING_FLUSH, "the record is cleared while its words are in the caches")         \
    BUG(RECORD_NOT_FLUSHED, LOG_HEADER_NOT_FLUSHED, "words are written while their record is in the caches") \
    BUG(RECORD_NOT_FENCED, MISSING_FENCE, "words may be durable before their record")                        \
    BUG(FIRST_LINE_OF_BLOCK, WRONG_LINE, "of a block only the first unit is flushed")                        \
    BUG(BITS_BEFORE_RECORD, LEAK, "a block's bits are set, durably, before the record that leads to it")     \
    BUG(BITS_AFTER_RECORD, LEAK, "a block's bits are cleared after the record that takes its handle away")   \
    BUG(CLEARED_BEFORE_DONE, RECOVERY_NOT_IDEMPOTENT, "recovery clears the record, and then writes its words")
#define SLOTS 128
#define BESIDE_BYTES (8 * (KEYS + 1))
#include "run.h"

enum { WORDS_MAX = 3, UNITS_MAX = 3, WORD_BITS = 64, BITMAP_WORDS = SLOTS / WORD_BITS };

struct record {
    alignas(LINE_BYTES) uint64_t count;
    struct {
        uint64_t *home;
        uint64_t value;
    } word[WORDS_MAX];
    uint64_t check; /* over all of these; written last */
};

static_assert(sizeof(struct record) == LINE_BYTES, "a record is a line");

struct unit {
    alignas(LINE_BYTES) uint64_t word[LINE_BYTES / 8];
};

static struct unit *const units = (struct unit *)(POOL_ADDRESS + PAGE_BYTES);

/* The words of the running operation, in ordinary memory. */
static struct record changes;

static struct record *log_record(void)
{
    return (struct record *)&pool->root[0];
}

static uint64_t *bitmap(void)
{
    return &pool->root[1].word;
}

/* Of a key: the number of its block's first unit << 8 | how many units it has, or 0. */
static uint64_t *handle(uint64_t key)
{
    return (uint64_t *)beside_slots() + key;
}

static uint64_t check_of(const struct record *record)
{
    uint64_t check = mix(record->count + 1);
    for (uint64_t i = 0; i < WORDS_MAX; i++) {
        check = mix(mix(check + (uintptr_t)record->word[i].home) + record->word[i].value);
    }
    return check;
}

/* Zeros are an empty one. */
static void structure_make(void)
{
}

/* ---- The log ---------------------------------------------------------------------------------- */

/* The word will have those bits set or cleared. */
static void change(uint64_t *home, uint64_t set, uint64_t clear)
{
    for (uint64_t i = 0; i < changes.count; i++) {
        if (changes.word[i].home == home) {
            changes.word[i].value = (changes.word[i].value | set) & ~clear;
            return;
        }
    }
    changes.word[changes.count].home = home;
    changes.word[changes.count++].value = (*home | set) & ~clear;
}

static void write_homes(const struct record *record)
{
    const uint64_t count = record->count;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t *home = record->word[i].home;
        *home = record->word[i].value; /* store: record-not-fenced, homes-not-flushed, cleared-before-done */
        if (!planted(HOMES_NOT_FLUSHED) && (i + 1 == count || !same_line(home, record->word[i + 1].home))) {
            flush(home); /* bug: homes-not-flushed */
        }
    }
    fence();
}

static void clear_record(void)
{
    log_record()->check = 0;
    persist(log_record());
}

/* Makes all changes together. */
static void commit(void)
{
    struct record *record = log_record();
    record->count = changes.count;
    memcpy(record->word, changes.word, sizeof record->word);
    order_stores();
    record->check = check_of(record); /* store: record-not-flushed */
    if (!planted(RECORD_NOT_FLUSHED)) {
        flush(record); /* bug: record-not-flushed */
    }
    if (!planted(RECORD_NOT_FENCED)) {
        fence(); /* bug: record-not-fenced */
    }
    write_homes(record);
    clear_record();
    memset(&changes, 0, sizeof changes);
}

/* ---- Blocks ----------------------------------------------------------------------------------- */

static uint64_t units_for(uint64_t value)
{
    return 1 + value % UNITS_MAX;
}

static uint64_t bits_of(uint64_t block)
{
    return ((UINT64_C(1) << (block & 0xff)) - 1) << (block >> 8) % WORD_BITS;
}

static uint64_t *bitmap_word(uint64_t block)
{
    return &bitmap()[(block >> 8) / WORD_BITS];
}

static struct unit *unit_of(uint64_t block)
{
    return &units[block >> 8];
}

/* Units that are free now; nobody else takes them. */
static uint64_t find_block(uint64_t count)
{
    for (uint64_t first = 0; first < SLOTS; first++) {
        const uint64_t block = first << 8 | count;
        if (first % WORD_BITS + count <= WORD_BITS && (*bitmap_word(block) & bits_of(block)) == 0) {
            return block;
        }
    }
    die(STATUS_USAGE, "no %" PRIu64 " units are free", count);
}

static void fill(uint64_t block, uint64_t key, uint64_t value)
{
    uint64_t *word = unit_of(block)->word;
    for (uint64_t i = 0; i < (block & 0xff) * 8; i++) {
        word[i] = mix(value + i); /* store: block-not-flushed, first-line-of-block */
    }
    word[0] = key;
    word[1] = value;
    if (planted(FIRST_LINE_OF_BLOCK)) {
        flush(word); /* bug: first-line-of-block */
    } else if (!planted(BLOCK_NOT_FLUSHED)) {
        flush_range(word, (block & 0xff) * LINE_BYTES); /* bug: block-not-flushed */
    }
    fence();
}

/* Lets go of the key's old block, whose handle gets a new value. */
static void release(uint64_t key)
{
    const uint64_t old = *handle(key);
    if (old != 0 && !planted(BITS_AFTER_RECORD)) {
        change(bitmap_word(old), 0, bits_of(old));
    }
}

/* The mistake: a step of its own. */
static void release_late(uint64_t old)
{
    if (old != 0 && planted(BITS_AFTER_RECORD)) {
        *bitmap_word(old) &= ~bits_of(old); /* bug: bits-after-record */
        persist(bitmap_word(old));
    }
}

static void structure_put(uint64_t key, uint64_t value)
{
    const uint64_t block = find_block(units_for(value)), old = *handle(key);
    fill(block, key, value);
    if (planted(BITS_BEFORE_RECORD)) {
        *bitmap_word(block) |= bits_of(block); /* bug: bits-before-record */
        persist(bitmap_word(block));
    }
    change(bitmap_word(block), bits_of(block), 0);
    release(key);
    change(handle(key), block, ~block);
    commit();
    release_late(old);
}

static void structure_erase(uint64_t key)
{
    const uint64_t old = *handle(key);
    if (old != 0) {
        release(key);
        change(handle(key), 0, UINT64_MAX);
        commit();
        release_late(old);
    }
}

static uint64_t structure_get(uint64_t key)
{
    return *handle(key) == 0 ? 0 : unit_of(*handle(key))->word[1];
}

/* ---- Recovery --------------------------------------------------------------------------------- */

static void recover_block(uint64_t key)
{
    const uint64_t block = *handle(key), first = block >> 8, count = block & 0xff;
    for (uint64_t i = 0; i < count; i++) {
        claim(&units[first + i]);
    }
    const uint64_t *word = unit_of(block)->word;
    for (uint64_t i = 2; i < count * 8; i++) {
        if (word[i] != mix(word[1] + i)) {
            die(STATUS_WRONG, "the block of key %" PRIu64 " is not what was written there", key);
        }
    }
    if (word[0] != key || count != units_for(word[1])) {
        die(STATUS_WRONG, "the handle of key %" PRIu64 " leads to another's block", key);
    }
    found_item(key, word[1]);
}

static void structure_recover(void)
{
    const struct record *record = log_record();
    if (record->check != 0 && record->count <= WORDS_MAX && record->check == check_of(record)) {
        if (planted(CLEARED_BEFORE_DONE)) {
            clear_record(); /* bug: cleared-before-done */
        }
        write_homes(record);
        clear_record();
    }
    for (uint64_t key = 1; key <= KEYS; key++) {
        if (*handle(key) != 0) {
            recover_block(key);
        }
    }
    for (uint64_t i = 0; i < SLOTS; i++) {
        const bool used = (bitmap()[i / WORD_BITS] >> i % WORD_BITS & 1) != 0;
        if (used != (claimed[i] != 0)) {
            die(STATUS_WRONG, used ? "unit %" PRIu64 " is in use, and nothing leads to it"
                                   : "unit %" PRIu64 " is free, but a handle leads to it", i);
        }
    }
}

int main(int argc, char **argv)
{
    return run(argc, argv);
}
