/*
 * What the programs share whose structures change in transactions: pointers that are words, and a line with a
 * count and a list of free nodes, which both change as a whole.
 *
 * A program defines struct node, of which `next` is a word, and SLOTS, before it includes this file.
 */
#ifndef PERDURE_CHECK_NODES_H
#define PERDURE_CHECK_NODES_H

static_assert(sizeof(struct node) == SLOT_BYTES, "a node is a slot");

/* In one line, which changes as a whole. */
static struct {
    uint64_t count, free;
} *const head = (void *)(POOL_ADDRESS + offsetof(struct pool, root));

static struct node *node_at(uint64_t address)
{
    return (struct node *)(uintptr_t)address;
}

static uint64_t address_of(const struct node *node)
{
    return (uintptr_t)node;
}

/* So many nodes are free, the first of them first; nothing is flushed. */
static void make_free(struct node *first, uint64_t count)
{
    while (count-- > 0) {
        first[count].next = head->free;
        head->free = address_of(first + count);
    }
}

/* Every node that nobody has claimed must be free. */
static void recover_free(const char *elsewhere)
{
    for (const struct node *node = node_at(head->free); node != NULL; node = node_at(node->next)) {
        node = claim(node);
    }
    for (uint64_t i = 0; i < SLOTS; i++) {
        if (claimed[i] == 0) {
            die(STATUS_WRONG, "node %" PRIu64 " is neither in %s nor free", i, elsewhere);
        }
    }
}

#endif
