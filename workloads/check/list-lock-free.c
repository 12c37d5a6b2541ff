/*
 * list-lock-free POOL [OPTION]... [--threads N]: a sorted list that threads change without locks.
 *
 * It is Michael's list (SPAA 2002) with *link-and-persist* (David and others, USENIX ATC 2018): a pointer
 * has a bit that says that it is marked, its node being erased, and one that says that it may not be
 * durable yet. Whoever meets the second makes the pointer durable and clears the bit before relying on it,
 * so that nobody inserts behind a node that may get lost. A key that is there gets its new value in place,
 * 8 bytes; who gets a value makes it durable before telling anybody. A node is not used again before the
 * next recovery.
 *
 * Always true of what is durable: keys of unmarked nodes increase, and what leads to a node was durable
 * before anything behind it was acknowledged. Recovery unlinks marked nodes, durably, and clears the bits.
 */
#define PROGRAM "list-lock-free"
#define BUGS(BUG)                                                                                            \
    BUG(NODE_NOT_FLUSHED, MISSING_FLUSH, "a node that the list leads to is not flushed")                     \
    BUG(MARK_NOT_FLUSHED, MISSING_FLUSH, "the mark of an erased node is not flushed")                        \
    BUG(VALUE_NOT_FENCED, MISSING_FENCE, "the flush of a value that is written in place is not waited for")  \
    BUG(NODE_FLUSHED_AGAIN, WRONG_LINE, "the new node's line is flushed in place of the pointer's")          \
    BUG(LINK_TRUSTED, READ_NOT_DURABLE, "a thread inserts behind a node that may not be durably linked")     \
    BUG(VALUE_TRUSTED, READ_NOT_DURABLE, "a thread tells of another's value, which may not be durable")      \
    BUG(MARKED_LEFT, ABA_AFTER_RECOVERY, "recovery takes marked nodes as free while the list leads to them")
#define THREADS 2
#define KEYS 6
#define OPERATIONS_DEFAULT 160
#define SLOTS (plan.operations + 2 * KEYS)
#include "run.h"

#define MARKED UINT64_C(1)
#define PENDING UINT64_C(2)

struct node {
    alignas(LINE_BYTES) uint64_t next; /* address, MARKED: this node is erased, PENDING: may not be durable */
    uint64_t key;
    uint64_t value;
};

static_assert(sizeof(struct node) == SLOT_BYTES, "a node is a slot");

/* A pointer in the list, and what it leads to. */
struct position {
    uint64_t *link;
    struct node *node;
};

static uint64_t *head(void)
{
    return &pool->root[0].word;
}

static struct node *node_at(uint64_t link)
{
    return (struct node *)(uintptr_t)(link & ~(MARKED | PENDING));
}

static uint64_t link_to(const struct node *node)
{
    return (uintptr_t)node;
}

static bool swap(uint64_t *link, uint64_t from, uint64_t to)
{
    return __atomic_compare_exchange_n(link, &from, to, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

/* Zeros are an empty one. */
static void structure_make(void)
{
}

/* Makes a pointer durable that says it may not be. */
static void settle(uint64_t *link, uint64_t seen)
{
    persist(link);
    swap(link, seen, seen & ~PENDING);
}

/* A pointer that may be relied on. */
static uint64_t follow(uint64_t *link)
{
    const uint64_t seen = __atomic_load_n(link, __ATOMIC_SEQ_CST);
    if ((seen & PENDING) != 0 && !planted(LINK_TRUSTED)) {
        settle(link, seen); /* bug: link-trusted */
    }
    return seen & ~PENDING;
}

/* Stores a pointer, durably, if it is still what it was. */
static bool lead(uint64_t *link, uint64_t from, uint64_t to)
{
    if (!swap(link, from, to | PENDING)) { /* store: node-flushed-again, link-trusted */
        return false;
    }
    settle(link, to | PENDING);
    return true;
}

/* The first node whose key is not below this one, or NULL; marked ones on the way are unlinked. */
static struct position find(uint64_t key)
{
    struct position at = {head(), node_at(follow(head()))};
    while (at.node != NULL) {
        const uint64_t next = follow(&at.node->next);
        if ((next & MARKED) != 0) {
            if (!lead(at.link, link_to(at.node), next & ~MARKED)) {
                return find(key);
            }
        } else if (at.node->key >= key) {
            break;
        } else {
            at.link = &at.node->next;
        }
        at.node = node_at(next);
    }
    return at;
}

static struct node *new_node(uint64_t key, uint64_t value)
{
    struct node *node = (struct node *)free_slots[__atomic_sub_fetch(&free_count, 1, __ATOMIC_SEQ_CST)];
    node->key = key;
    node->value = value;
    return node;
}

static void insert(struct node *node)
{
    for (;;) {
        const struct position at = find(node->key);
        node->next = link_to(at.node); /* store: node-not-flushed */
        if (!planted(NODE_NOT_FLUSHED)) {
            flush(node); /* bug: node-not-flushed */
        }
        fence();
        if (planted(NODE_FLUSHED_AGAIN)) {
            if (swap(at.link, link_to(at.node), link_to(node))) {
                persist(node); /* bug: node-flushed-again */
                return;
            }
        } else if (lead(at.link, link_to(at.node), link_to(node))) {
            return;
        }
    }
}

static void structure_put(uint64_t key, uint64_t value)
{
    const struct position at = find(key);
    if (at.node == NULL || at.node->key != key) {
        insert(new_node(key, value));
        return;
    }
    __atomic_store_n(&at.node->value, value, __ATOMIC_SEQ_CST); /* store: value-trusted, value-not-fenced */
    flush(&at.node->value);
    if (!planted(VALUE_NOT_FENCED)) {
        fence(); /* bug: value-not-fenced */
    }
}

/* Its own keys alone, so that nobody else erases the node meanwhile. */
static void structure_erase(uint64_t key)
{
    const struct position at = find(key);
    if (at.node == NULL || at.node->key != key) {
        return;
    }
    uint64_t next = follow(&at.node->next);
    if (planted(MARK_NOT_FLUSHED)) {
        /* store: mark-not-flushed */
        while (!swap(&at.node->next, next, next | MARKED)) { /* bug: mark-not-flushed */
            next = follow(&at.node->next);
        }
        return;
    }
    while (!lead(&at.node->next, next, next | MARKED)) {
        next = follow(&at.node->next);
    }
    find(key);
}

static uint64_t structure_get(uint64_t key)
{
    const struct position at = find(key);
    if (at.node == NULL || at.node->key != key) {
        return 0;
    }
    const uint64_t value = __atomic_load_n(&at.node->value, __ATOMIC_SEQ_CST);
    if (!planted(VALUE_TRUSTED)) {
        persist(&at.node->value); /* bug: value-trusted */
    }
    return value;
}

static void store_link(uint64_t *link, uint64_t value)
{
    *link = value;
    persist(link);
}

/* Unlinks marked nodes and clears the bits, alone, before any thread begins. */
static void mend(void)
{
    uint64_t *link = head();
    for (uint64_t steps = 0;; steps++) {
        if ((*link & PENDING) != 0) {
            store_link(link, *link & ~PENDING);
        }
        struct node *node = node_at(*link);
        if (node == NULL) {
            return;
        }
        check_slot(node);
        if (steps > slots_all) {
            die(STATUS_WRONG, "the list runs in a circle");
        }
        if ((node->next & MARKED) != 0 && !planted(MARKED_LEFT)) {
            store_link(link, link_to(node_at(node->next))); /* bug: marked-left */
        } else {
            link = &node->next;
        }
    }
}

static void structure_recover(void)
{
    uint64_t last = 0;
    mend();
    for (const struct node *node = node_at(*head()); node != NULL; node = node_at(node->next)) {
        node = claim(node);
        if ((node->next & MARKED) != 0) {
            die(STATUS_WRONG, "key %" PRIu64 " is erased, but the list leads to it", node->key);
        }
        if (node->key <= last) {
            die(STATUS_WRONG, "key %" PRIu64 " is behind %" PRIu64, node->key, last);
        }
        last = node->key;
        found_item(node->key, node->value);
    }
}

int main(int argc, char **argv)
{
    return run(argc, argv);
}
