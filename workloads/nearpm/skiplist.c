/*
 * skiplist POOL [OPTION]...: PMDK's skiplist example, insertions into a skip list of four levels.
 *
 * Our assumptions: every third node of a level is in the next one, too; the value lies in the node, in a
 * line of its own, so that links change without it; each thread has a list of its own.
 *
 * Always true: a level has its nodes in the order of their keys, and these are the nodes that are so high.
 */
#define PROGRAM "skiplist"
#include "values.h"

enum { LEVELS = 4, THINNING = 3 };

struct node {
    alignas(LINE_BYTES) struct tower {
        uint64_t used;
        uint64_t key; /* of the root: 0 */
        struct node *next[LEVELS];
    } tower;
    alignas(LINE_BYTES) struct value value;
};

static uint64_t structure_pages(void)
{
    return np_declare_blocks(&np, (unsigned)work.threads, sizeof(struct node), items_of_thread(), work.threads);
}

static void structure_make(void)
{
}

/* On how many levels a node is. */
static unsigned height_of(uint64_t number)
{
    unsigned height = 1;
    for (uint64_t random = random_at(work.seed, 2, number); height < LEVELS && random % THINNING == 0;) {
        random /= THINNING;
        height++;
    }
    return height;
}

OPERATION void structure_operation(struct np_transaction transaction, uint64_t index)
{
    const uint64_t number = number_of(transaction.thread->number, index), key = key_of(number);
    struct tower *before[LEVELS], *tower = root_of(transaction.thread->number);
    for (unsigned level = LEVELS; level-- > 0;) {
        for (struct node *next; (next = NP_READ(transaction, tower)->next[level]) != NULL &&
                                NP_READ(transaction, &next->tower)->key < key;) {
            tower = &next->tower;
        }
        before[level] = tower;
    }
    struct node *node = np_allocate(transaction, 0);
    struct node *written = NP_WRITE(transaction, node);
    written->tower = (struct tower){.used = 1, .key = key};
    fill_value(&written->value, number);
    for (unsigned level = 0; level < height_of(number); level++) {
        struct tower *changed = NP_WRITE(transaction, before[level]);
        written->tower.next[level] = changed->next[level];
        changed->next[level] = node;
    }
    np_commit(transaction);
}

/* The nodes that are on the level, each of them once; how many. */
static uint64_t check_level(uint64_t thread, unsigned level)
{
    uint64_t count = 0, last = 0;
    for (const struct node *home = LOOK((struct tower *)root_of(thread))->next[level]; home != NULL; count++) {
        const struct node *node = LOOK(level == 0 ? (const struct node *)claim_block(0, home) : home);
        if (node->tower.key <= last || height_of(node->value.word[0]) <= level) {
            die(STATUS_WRONG, "key %016" PRIx64 " is not in its place", node->tower.key);
        }
        if (level == 0) {
            check_value(&node->value, node->tower.key, thread);
        }
        last = node->tower.key;
        home = node->tower.next[level];
    }
    return count;
}

static void structure_check(void)
{
    for (uint64_t thread = 0; thread < work.threads; thread++) {
        uint64_t expected[LEVELS] = {0};
        expected[0] = check_level(thread, 0);
        for (uint64_t index = 0; index < structure_operations(thread); index++) {
            for (unsigned level = 1; level < LEVELS && runners[thread].there[index] != 0; level++) {
                expected[level] += height_of(number_of(thread, index)) > level ? 1 : 0;
            }
        }
        for (unsigned level = 1; level < LEVELS; level++) {
            if (check_level(thread, level) != expected[level]) {
                die(STATUS_WRONG, "level %u has not the nodes that are so high", level);
            }
        }
    }
}
