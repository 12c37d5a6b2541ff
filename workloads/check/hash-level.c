/*
 * hash-level POOL [OPTION]...: level hashing (Zuo, Hua and Wu, OSDI 2018), without its resizing.
 *
 * A top level has twice as many buckets as a bottom level; a key has two buckets in each, by two hash
 * functions. A bucket has four entries, and a word in a line of its own says by a token for each which of
 * them count. To put writes an entry that does not count, and then its token; a key that is there gets its
 * new value in place, 8 bytes. If both buckets of the top are full, an entry of one is moved: copied to its
 * other bucket, and then its first token cleared. Between the two it is there twice. Only then the bottom
 * is used, where the paper moves last.
 *
 * Always true of what is durable: entries that count are in one of their key's buckets; no key is there twice
 * but one that was being moved, whose second copy recovery drops. The table is large enough for all keys.
 */
#define PROGRAM "hash-level"
#define BUGS(BUG)                                                                                            \
    BUG(ENTRY_NOT_FLUSHED, MISSING_FLUSH, "an entry is not flushed")                                         \
    BUG(VALUE_NOT_FLUSHED, MISSING_FLUSH, "a value that is written in place is not flushed")                 \
    BUG(ENTRY_NOT_FENCED, MISSING_FENCE, "the token may be durable before the entry that it makes count")    \
    BUG(TOKENS_FLUSHED, WRONG_LINE, "the line of the tokens is flushed in place of the entry's")             \
    BUG(TOKEN_BEFORE_ENTRY, WRONG_ORDER, "an entry counts, durably, before it is written")                   \
    BUG(CLEARED_BEFORE_COPIED, SEMANTIC, "an entry that moves ceases to count before its copy counts")       \
    BUG(COPIES_KEPT, SEMANTIC, "recovery finds an entry that was being moved, and keeps it twice")
#define SLOT_BYTES 128
#define SLOTS 12
#define KEYS 44
#include "run.h"

enum { TOP = SLOTS * 2 / 3, ENTRIES = 4, WAYS = 4 };

struct bucket {
    alignas(LINE_BYTES) uint64_t tokens;
    alignas(LINE_BYTES) struct entry {
        uint64_t key, value;
    } entry[ENTRIES];
};

static_assert(sizeof(struct bucket) == SLOT_BYTES, "a bucket is a slot");

/* One entry that counts, or no bucket. */
struct place {
    struct bucket *bucket;
    unsigned index;
};

static struct bucket *const top = (struct bucket *)(POOL_ADDRESS + PAGE_BYTES);

/* The buckets of a key: two of the top level, then two of the bottom level. */
static struct bucket *bucket_of(uint64_t key, unsigned way)
{
    const uint64_t hash = mix(way % 2 == 0 ? key : ~key) >> 32;
    return way < 2 ? &top[hash % TOP] : &top[TOP + hash % (TOP / 2)];
}

static struct place find(uint64_t key)
{
    for (unsigned way = 0; way < WAYS; way++) {
        struct bucket *bucket = bucket_of(key, way);
        for (unsigned i = 0; i < ENTRIES; i++) {
            if ((bucket->tokens >> i & 1) != 0 && bucket->entry[i].key == key) {
                return (struct place){bucket, i};
            }
        }
    }
    return (struct place){NULL, 0};
}

/* Zeros are an empty one. */
static void structure_make(void)
{
}

static bool is_full(const struct bucket *bucket)
{
    return bucket->tokens == (1U << ENTRIES) - 1;
}

static void store_tokens(struct bucket *bucket, uint64_t tokens)
{
    bucket->tokens = tokens;
    persist(&bucket->tokens);
}

/* Puts an entry into a bucket that has room. */
static void add(struct bucket *bucket, uint64_t key, uint64_t value)
{
    const unsigned index = (unsigned)__builtin_ctzll(~bucket->tokens);
    const uint64_t tokens = bucket->tokens | UINT64_C(1) << index;
    struct entry *entry = &bucket->entry[index];
    if (planted(TOKEN_BEFORE_ENTRY)) {
        store_tokens(bucket, tokens); /* bug: token-before-entry */
    }
    entry->key = key;
    entry->value = value; /* store: entry-not-flushed, entry-not-fenced, tokens-flushed, token-before-entry */
    if (planted(TOKENS_FLUSHED)) {
        flush(&bucket->tokens); /* bug: tokens-flushed */
    } else if (!planted(ENTRY_NOT_FLUSHED)) {
        flush(entry); /* bug: entry-not-flushed */
    }
    if (!planted(ENTRY_NOT_FENCED)) {
        fence(); /* bug: entry-not-fenced */
    }
    store_tokens(bucket, tokens);
}

/* Moves some entry of a full bucket to another of its key's first `ways` buckets, if one has room. */
static bool make_room(struct bucket *bucket, unsigned ways)
{
    for (unsigned i = 0; i < ENTRIES; i++) {
        const struct entry entry = bucket->entry[i];
        for (unsigned way = 0; way < ways; way++) {
            struct bucket *other = bucket_of(entry.key, way);
            if (is_full(other)) {
                continue;
            }
            if (planted(CLEARED_BEFORE_COPIED)) {
                store_tokens(bucket, bucket->tokens & ~(UINT64_C(1) << i)); /* bug: cleared-before-copied */
            }
            add(other, entry.key, entry.value);
            store_tokens(bucket, bucket->tokens & ~(UINT64_C(1) << i));
            return true;
        }
    }
    return false;
}

/* One of the key's first `ways` buckets, with room that it may take a move to make. */
static struct bucket *find_room(uint64_t key, unsigned ways)
{
    for (unsigned way = 0; way < ways; way++) {
        if (!is_full(bucket_of(key, way))) {
            return bucket_of(key, way);
        }
    }
    for (unsigned way = 0; way < ways; way++) {
        if (make_room(bucket_of(key, way), ways)) {
            return bucket_of(key, way);
        }
    }
    return NULL;
}

static void structure_put(uint64_t key, uint64_t value)
{
    const struct place there = find(key);
    if (there.bucket != NULL) {
        there.bucket->entry[there.index].value = value; /* store: value-not-flushed */
        if (!planted(VALUE_NOT_FLUSHED)) {
            flush(&there.bucket->entry[there.index]); /* bug: value-not-flushed */
        }
        fence();
        return;
    }
    struct bucket *bucket = find_room(key, WAYS / 2);
    bucket = bucket != NULL ? bucket : find_room(key, WAYS);
    if (bucket == NULL) {
        die(STATUS_USAGE, "the table is too full for key %" PRIu64, key);
    }
    add(bucket, key, value);
}

static void structure_erase(uint64_t key)
{
    const struct place there = find(key);
    if (there.bucket != NULL) {
        store_tokens(there.bucket, there.bucket->tokens & ~(UINT64_C(1) << there.index));
    }
}

static uint64_t structure_get(uint64_t key)
{
    const struct place there = find(key);
    return there.bucket == NULL ? 0 : there.bucket->entry[there.index].value;
}

static bool belongs(const struct bucket *bucket, uint64_t key)
{
    for (unsigned way = 0; way < WAYS; way++) {
        if (bucket_of(key, way) == bucket) {
            return true;
        }
    }
    return false;
}

/* An entry that counts is dropped if the same one counts elsewhere, which is found first. */
static void recover_entry(struct bucket *bucket, unsigned index)
{
    const struct entry *entry = &bucket->entry[index];
    const struct place first = find(entry->key);
    if (!belongs(bucket, entry->key)) {
        die(STATUS_WRONG, "key %" PRIu64 " is in another's bucket", entry->key);
    }
    if ((first.bucket != bucket || first.index != index) && !planted(COPIES_KEPT) &&
        first.bucket->entry[first.index].value == entry->value) {
        store_tokens(bucket, bucket->tokens & ~(UINT64_C(1) << index)); /* bug: copies-kept */
    } else {
        found_item(entry->key, entry->value);
    }
}

static void structure_recover(void)
{
    for (struct bucket *bucket = top; bucket < top + SLOTS; bucket++) {
        if (bucket->tokens >> ENTRIES != 0) {
            die(STATUS_WRONG, "a bucket has %" PRIu64 " as its tokens", bucket->tokens);
        }
        for (unsigned i = 0; i < ENTRIES; i++) {
            if ((bucket->tokens >> i & 1) != 0) {
                recover_entry(bucket, i);
            }
        }
    }
}

int main(int argc, char **argv)
{
    return run(argc, argv);
}
