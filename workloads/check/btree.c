/*
 * btree POOL [OPTION]...: a B+tree whose leaves are persistent.
 *
 * As in FPTree (Oukid and others, SIGMOD 2016), a leaf has unsorted entries and says by one word which of
 * them count; the inner part, here one sorted node, is in ordinary memory, and recovery makes it from the
 * list of leaves. The word has the successor, too, by number, so that one store of 8 bytes splits a leaf or
 * merges two: what is new is durable in a leaf that nothing leads to, or in entries that do not count,
 * before it.
 *
 * Always true of what is durable: the leaves' keys increase from leaf to leaf, and no key is there twice; no
 * leaf is empty but the first, which is the first slot. Recovery has nothing to mend.
 */
#define PROGRAM "btree"
#define BUGS(BUG)                                                                                            \
    BUG(ENTRY_NOT_FLUSHED, MISSING_FLUSH, "an entry is not flushed")                                         \
    BUG(ENTRY_NOT_FENCED, MISSING_FENCE, "the word may be durable before the entry that it makes count")     \
    BUG(WORD_BEFORE_ENTRY, WRONG_ORDER, "an entry counts, durably, before it is written")                    \
    BUG(FIRST_LINE_OF_LEAF, WRONG_LINE, "of the new leaf of a split only the first line is flushed")         \
    BUG(SPLIT_IN_TWO, NON_ATOMIC_CHANGE, "a split links the new leaf, and then lets the moved entries go")   \
    BUG(MERGE_IN_TWO, NON_ATOMIC_CHANGE, "a merge unlinks the right leaf, and then lets its entries count")  \
    BUG(UPDATE_IN_TWO, SEMANTIC, "the old entry of a key ceases to count before the new one counts")
#define SLOT_BYTES 128
#define SLOTS 32
#include "run.h"

enum { ENTRIES = 7, MERGED_ENTRIES = 4 };

struct leaf {
    alignas(LINE_BYTES) uint64_t word; /* number of the next leaf, or 0, << 32 | a bit for each entry */
    uint64_t unused;
    struct entry {
        uint64_t key, value;
    } entry[ENTRIES];
};

static_assert(sizeof(struct leaf) == SLOT_BYTES, "a leaf is a slot");

static struct leaf *const leaves = (struct leaf *)(POOL_ADDRESS + PAGE_BYTES);

/* The inner node: the first key that each leaf is for, and the leaf. */
static struct {
    uint64_t key;
    struct leaf *leaf;
} inner[SLOTS];
static unsigned leaf_count;

static struct leaf *next_of(const struct leaf *leaf)
{
    return leaf->word >> 32 == 0 ? NULL : &leaves[leaf->word >> 32];
}

static bool counts(const struct leaf *leaf, unsigned index)
{
    return (leaf->word >> index & 1) != 0;
}

static uint64_t bits_of(const struct leaf *leaf)
{
    return leaf->word & ((1U << ENTRIES) - 1);
}

static uint64_t word_of(const struct leaf *next, uint64_t bits)
{
    return (next == NULL ? 0 : (uint64_t)(next - leaves) << 32) | bits;
}

/* Which leaf of the inner node a key belongs to. */
static unsigned position_of(uint64_t key)
{
    unsigned at = leaf_count - 1;
    while (inner[at].key > key) {
        at--;
    }
    return at;
}

/* Of a leaf: the entry of a key, or ENTRIES. */
static unsigned find(const struct leaf *leaf, uint64_t key)
{
    unsigned index = 0;
    while (index < ENTRIES && (!counts(leaf, index) || leaf->entry[index].key != key)) {
        index++;
    }
    return index;
}

/* Zeros are an empty one. */
static void structure_make(void)
{
}

static void store_word(struct leaf *leaf, uint64_t word)
{
    leaf->word = word;
    persist(&leaf->word);
}

static void write_entry(struct leaf *leaf, unsigned index, uint64_t key, uint64_t value)
{
    leaf->entry[index].key = key;
    leaf->entry[index].value = value; /* store: entry-not-flushed, entry-not-fenced, word-before-entry */
    if (!planted(ENTRY_NOT_FLUSHED)) {
        flush_range(&leaf->entry[index], sizeof leaf->entry[index]); /* bug: entry-not-flushed */
    }
    if (!planted(ENTRY_NOT_FENCED)) {
        fence(); /* bug: entry-not-fenced */
    }
}

/* The key above the lower half of a full leaf. */
static uint64_t middle_key(const struct leaf *leaf)
{
    for (unsigned i = 0; i < ENTRIES; i++) {
        unsigned below = 0;
        for (unsigned j = 0; j < ENTRIES; j++) {
            below += leaf->entry[j].key < leaf->entry[i].key;
        }
        if (below == ENTRIES / 2) {
            return leaf->entry[i].key;
        }
    }
    die(STATUS_WRONG, "a key is in a leaf twice");
}

/* Moves the upper half of a full leaf into a new one behind it. */
static void split(unsigned at)
{
    struct leaf *leaf = inner[at].leaf, *right = take_slot();
    const uint64_t middle = middle_key(leaf);
    uint64_t upper = 0;
    for (unsigned i = 0; i < ENTRIES; i++) {
        upper |= (uint64_t)(leaf->entry[i].key >= middle) << i;
    }
    memcpy(right->entry, leaf->entry, sizeof right->entry); /* store: first-line-of-leaf */
    right->word = word_of(next_of(leaf), upper);
    if (planted(FIRST_LINE_OF_LEAF)) {
        flush(right); /* bug: first-line-of-leaf */
    } else {
        flush_range(right, sizeof *right);
    }
    fence();
    if (planted(SPLIT_IN_TWO)) {
        store_word(leaf, word_of(right, bits_of(leaf))); /* bug: split-in-two */
    }
    store_word(leaf, word_of(right, bits_of(leaf) & ~upper));
    memmove(&inner[at + 2], &inner[at + 1], (leaf_count - at - 1) * sizeof *inner);
    inner[at + 1].key = middle;
    inner[at + 1].leaf = right;
    leaf_count++;
}

static void structure_put(uint64_t key, uint64_t value)
{
    if (bits_of(inner[position_of(key)].leaf) == (1U << ENTRIES) - 1) {
        split(position_of(key));
    }
    struct leaf *leaf = inner[position_of(key)].leaf;
    const unsigned old = find(leaf, key), index = (unsigned)__builtin_ctzll(~leaf->word);
    const uint64_t without_old = leaf->word & ~(old < ENTRIES ? UINT64_C(1) << old : 0);
    if (planted(WORD_BEFORE_ENTRY)) {
        store_word(leaf, without_old | UINT64_C(1) << index); /* bug: word-before-entry */
    }
    if (planted(UPDATE_IN_TWO)) {
        store_word(leaf, without_old); /* bug: update-in-two */
    }
    write_entry(leaf, index, key, value);
    store_word(leaf, without_old | UINT64_C(1) << index);
}

/* Takes the entries of the leaf behind `at` into that one, if they are few, and gives it back. */
static void merge(unsigned at)
{
    struct leaf *left = inner[at].leaf, *right = inner[at + 1].leaf;
    const int right_count = __builtin_popcountll(bits_of(right));
    if (__builtin_popcountll(bits_of(left)) + right_count > MERGED_ENTRIES) {
        return;
    }
    uint64_t bits = bits_of(left);
    for (unsigned i = 0; i < ENTRIES; i++) {
        if (counts(right, i)) {
            const unsigned index = (unsigned)__builtin_ctzll(~bits);
            left->entry[index] = right->entry[i];
            flush_range(&left->entry[index], sizeof left->entry[index]);
            bits |= UINT64_C(1) << index;
        }
    }
    fence();
    if (planted(MERGE_IN_TWO)) {
        store_word(left, word_of(next_of(right), bits_of(left))); /* bug: merge-in-two */
    }
    store_word(left, word_of(next_of(right), bits));
    leaf_count--;
    memmove(&inner[at + 1], &inner[at + 2], (leaf_count - at - 1) * sizeof *inner);
    give_slot(right);
}

/* The word never says that a leaf but the first is empty: the last entry of another goes with its leaf. */
static void structure_erase(uint64_t key)
{
    const unsigned at = position_of(key), index = find(inner[at].leaf, key);
    struct leaf *leaf = inner[at].leaf;
    if (index == ENTRIES) {
        return;
    }
    const uint64_t left_over = leaf->word & ~(UINT64_C(1) << index);
    if (at > 0 && (left_over & UINT32_MAX) == 0) {
        struct leaf *before = inner[at - 1].leaf;
        store_word(before, word_of(next_of(leaf), bits_of(before)));
        leaf_count--;
        memmove(&inner[at], &inner[at + 1], (leaf_count - at) * sizeof *inner);
        give_slot(leaf);
        return;
    }
    store_word(leaf, left_over);
    if (at + 1 < leaf_count) {
        merge(at);
    }
}

static uint64_t structure_get(uint64_t key)
{
    const struct leaf *leaf = inner[position_of(key)].leaf;
    const unsigned index = find(leaf, key);
    return index == ENTRIES ? 0 : leaf->entry[index].value;
}

static void structure_recover(void)
{
    uint64_t last_of_all = 0;
    leaf_count = 0;
    for (struct leaf *leaf = claim(leaves); leaf != NULL;
         leaf = leaf->word >> 32 == 0 ? NULL : claim(slots + (leaf->word >> 32))) {
        uint64_t first = UINT64_MAX, last = 0;
        for (unsigned i = 0; i < ENTRIES; i++) {
            if (counts(leaf, i)) {
                const uint64_t key = leaf->entry[i].key;
                found_item(key, leaf->entry[i].value);
                first = key < first ? key : first;
                last = key > last ? key : last;
            }
        }
        if (leaf != leaves && (first == UINT64_MAX || first <= last_of_all)) {
            die(STATUS_WRONG, "a leaf begins with key %" PRIu64 ", behind %" PRIu64, first, last_of_all);
        }
        inner[leaf_count].key = leaf == leaves ? 0 : first;
        inner[leaf_count++].leaf = leaf;
        last_of_all = last > last_of_all ? last : last_of_all;
    }
}

int main(int argc, char **argv)
{
    return run(argc, argv);
}
