/*
 * undo-list POOL [OPTION]...: a doubly linked, sorted list with a count, in transactions by undo.
 *
 * Nodes that are not in the list are in a list of free ones, which changes in the same transactions. Pointers
 * are words.
 *
 * Always true of what is durable, after recovery: both directions agree, keys increase, the count is right,
 * and every node is in one of the two lists.
 */
#define PROGRAM "undo-list"
#define BUGS(BUG)                                                                                            \
    UNDO_BUGS(BUG)                                                                                           \
    BUG(COUNT_NOT_LOGGED, NOT_LOGGED, "the count is changed in place, past the transaction")                 \
    BUG(PREVIOUS_NOT_LOGGED, NOT_LOGGED, "a pointer back is changed in place, past the transaction")         \
    BUG(TAKEN_BEFORE, LEAK, "a node is taken from the free ones, durably, before the transaction begins")
#define BESIDE_BYTES UNDO_LOG_BYTES
#define SLOTS (KEYS + 4)
#include "undo.h"

struct node {
    alignas(LINE_BYTES) uint64_t next;
    uint64_t previous;
    uint64_t key, value;
};

#include "nodes.h"

/* The first slot: before the first node, and behind the last one. */
static struct node *const ends = (struct node *)(POOL_ADDRESS + PAGE_BYTES);

/* The first node whose key is not below this one, or the ends. */
static struct node *find(uint64_t key)
{
    struct node *node = node_at(ends->next);
    while (node != ends && node->key < key) {
        node = node_at(node->next);
    }
    return node;
}

static void structure_make(void)
{
    ends->next = ends->previous = address_of(ends);
    make_free(ends + 1, SLOTS - 1);
    flush_range(ends, SLOTS * sizeof *ends);
    flush(head);
}

static void change_count(uint64_t to)
{
    if (planted(COUNT_NOT_LOGGED)) {
        head->count = to; /* bug: count-not-logged */
        flush(&head->count);
    } else {
        undo_store(&head->count, to);
    }
}

static void change_previous(struct node *node, const struct node *to)
{
    if (planted(PREVIOUS_NOT_LOGGED)) {
        node->previous = address_of(to); /* bug: previous-not-logged */
        flush(&node->previous);
    } else {
        undo_store(&node->previous, address_of(to));
    }
}

static struct node *take_node(void)
{
    struct node *node = node_at(head->free);
    if (node == NULL) {
        die(STATUS_USAGE, "no node is free");
    }
    if (planted(TAKEN_BEFORE)) {
        head->free = node->next; /* bug: taken-before */
        persist(&head->free);
    } else {
        undo_store(&head->free, node->next);
    }
    return node;
}

static void structure_put(uint64_t key, uint64_t value)
{
    struct node *behind = find(key), *before = node_at(behind->previous);
    if (behind != ends && behind->key == key) {
        undo_store(&behind->value, value);
        undo_commit();
        return;
    }
    struct node *node = take_node();
    undo_store(&node->key, key);
    undo_store(&node->value, value);
    undo_store(&node->next, address_of(behind));
    undo_store(&node->previous, address_of(before));
    undo_store(&before->next, address_of(node));
    change_previous(behind, node);
    change_count(head->count + 1);
    undo_commit();
}

static void structure_erase(uint64_t key)
{
    struct node *node = find(key);
    if (node == ends || node->key != key) {
        return;
    }
    struct node *behind = node_at(node->next), *before = node_at(node->previous);
    undo_store(&before->next, address_of(behind));
    change_previous(behind, before);
    change_count(head->count - 1);
    undo_store(&node->next, head->free);
    undo_store(&head->free, address_of(node));
    undo_commit();
}

static uint64_t structure_get(uint64_t key)
{
    const struct node *node = find(key);
    return node != ends && node->key == key ? node->value : 0;
}

static void recover_list(void)
{
    const struct node *before = claim(ends);
    uint64_t count = 0;
    for (const struct node *node = node_at(ends->next); node != ends; node = node_at(node->next), count++) {
        node = claim(node);
        if (node->previous != address_of(before)) {
            die(STATUS_WRONG, "key %" PRIu64 " does not lead back to where it is led to from", node->key);
        }
        if (before != ends && node->key <= before->key) {
            die(STATUS_WRONG, "key %" PRIu64 " is behind %" PRIu64, node->key, before->key);
        }
        found_item(node->key, node->value);
        before = node;
    }
    if (ends->previous != address_of(before) || head->count != count) {
        die(STATUS_WRONG, "%" PRIu64 " nodes are there, but the count is %" PRIu64 ", or the last is another",
            count, head->count);
    }
}

static void structure_recover(void)
{
    undo_recover(beside_slots());
    perdure_atomic(head, sizeof *head);
    recover_list();
    recover_free("the list");
}

int main(int argc, char **argv)
{
    return run(argc, argv);
}
