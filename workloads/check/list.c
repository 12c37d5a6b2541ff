/*
 * list POOL [OPTION]...: a sorted, singly linked list.
 *
 * A node is a line: its successor, key, and a value with a stamp, 16 bytes that belong together. To put makes
 * a node durable that nothing leads to, in place of the key's old one if there is one, and then stores the
 * pointer to it. To erase stores the pointer past the node.
 *
 * Always true of what is durable: a node that is reached changes nothing but its successor; keys increase;
 * stamps fit. Recovery has nothing to mend.
 */
#define PROGRAM "list"
#define BUGS(BUG)                                                                                            \
    BUG(NODE_NOT_FLUSHED, MISSING_FLUSH, "a node that the list leads to is not flushed")                     \
    BUG(UNLINK_NOT_FLUSHED, MISSING_FLUSH, "an erasure does not flush the pointer past the node")            \
    BUG(NODE_NOT_FENCED, MISSING_FENCE, "the pointer to a node may be durable before the node")              \
    BUG(LINKED_BEFORE_FILLED, WRONG_ORDER, "a node is linked, durably, before it has key and value")         \
    BUG(HEAD_FLUSHED, WRONG_LINE, "the line of the list's head is flushed, whichever pointer was stored")    \
    BUG(VALUE_IN_PLACE, TORN_UPDATE, "value and stamp are written over the old ones")                        \
    BUG(REPLACED_IN_TWO, SEMANTIC, "the old node is unlinked, durably, before the new one is linked")
#include "run.h"

struct node {
    alignas(LINE_BYTES) struct node *next;
    uint64_t key;
    uint64_t value, stamp;
};

static_assert(sizeof(struct node) == SLOT_BYTES, "a node is a slot");

static struct node **head(void)
{
    return (struct node **)&pool->root[0].word;
}

/* The pointer to the first node whose key is not below this one. */
static struct node **find(uint64_t key)
{
    struct node **link = head();
    while (*link != NULL && (*link)->key < key) {
        link = &(*link)->next;
    }
    return link;
}

/* Zeros are an empty one. */
static void structure_make(void)
{
}

static void fill(struct node *node, uint64_t key, uint64_t value)
{
    node->key = key;
    node->value = value;
    /* store: node-not-flushed, node-not-fenced, linked-before-filled, value-in-place */
    node->stamp = mix(value);
}

/* Stores a pointer that others follow, and makes it durable. */
static void lead(struct node **link, struct node *node)
{
    *link = node; /* store: head-flushed */
    if (planted(HEAD_FLUSHED)) {
        flush(head()); /* bug: head-flushed */
    } else {
        flush(link);
    }
    fence();
}

static void structure_put(uint64_t key, uint64_t value)
{
    struct node **link = find(key), *old = *link != NULL && (*link)->key == key ? *link : NULL;
    if (old != NULL && planted(VALUE_IN_PLACE)) {
        fill(old, key, value); /* bug: value-in-place */
        persist(old);
        return;
    }
    struct node *node = take_slot();
    node->next = old != NULL ? old->next : *link;
    if (planted(LINKED_BEFORE_FILLED)) {
        persist(node);
        lead(link, node); /* bug: linked-before-filled */
    }
    if (old != NULL && planted(REPLACED_IN_TWO)) {
        lead(link, old->next); /* bug: replaced-in-two */
    }
    fill(node, key, value);
    if (!planted(NODE_NOT_FLUSHED)) {
        flush(node); /* bug: node-not-flushed */
    }
    if (!planted(NODE_NOT_FENCED)) {
        fence(); /* bug: node-not-fenced */
    }
    if (!planted(LINKED_BEFORE_FILLED)) {
        lead(link, node);
    }
    if (old != NULL) {
        give_slot(old);
    }
}

static void structure_erase(uint64_t key)
{
    struct node **link = find(key), *old = *link;
    if (old == NULL || old->key != key) {
        return;
    }
    *link = old->next; /* store: unlink-not-flushed */
    if (!planted(UNLINK_NOT_FLUSHED)) {
        flush(link); /* bug: unlink-not-flushed */
    }
    fence();
    give_slot(old);
}

static uint64_t structure_get(uint64_t key)
{
    const struct node *node = *find(key);
    return node != NULL && node->key == key ? node->value : 0;
}

static void structure_recover(void)
{
    uint64_t key = 0;
    for (const struct node *node = *head(); node != NULL; node = node->next) {
        node = claim(node);
        if (node->key <= key) {
            die(STATUS_WRONG, "key %" PRIu64 " is behind %" PRIu64, node->key, key);
        }
        if (node->stamp != mix(node->value)) {
            die(STATUS_WRONG, "the value of key %" PRIu64 " is torn", node->key);
        }
        key = node->key;
        found_item(key, node->value);
    }
}

int main(int argc, char **argv)
{
    return run(argc, argv);
}
