/*
 * sdg POOL [OPTION]...: SDG of the SPMS paper, insertions and deletions of a graph's edges.
 *
 * The paper cites Boost's adjacency list. Ours is such a one, undirected and with lists for the edges
 * (listS): each vertex has a list of its edges, and an edge is in the lists of both its ends; it is inserted
 * at their ends and deleted by a search of both. Our assumptions: eight edges to a vertex, ends at random and
 * never the same, parallel edges allowed, 64 bytes for an edge at one of its ends; all threads share the
 * graph, with a lock for some vertices each, so that they meet in lines, two vertices each, and in lists.
 *
 * Always true: a list leads forwards and backwards over the same edges, as many as its vertex's degree; an
 * edge is in the lists of its two ends, once each, and knows the other end.
 */
#define PROGRAM "sdg"
#include "elements.h"

enum { EDGES_OF_VERTEX = 8 };

/* An edge in the list of one of its ends. */
struct half {
    alignas(LINE_BYTES) uint64_t used;
    struct half *next;
    struct half *previous;
    uint64_t element;
    uint64_t other;
    uint64_t weight;
};

struct vertex {
    struct half *first;
    struct half *last;
    uint64_t degree;
    uint64_t unused;
};

struct ends {
    uint64_t one, other;
};

static uint64_t vertices;

static struct vertex *vertex_at(uint64_t number)
{
    return (struct vertex *)table + number;
}

static struct ends ends_of(uint64_t element)
{
    const uint64_t random = random_at(work.seed, ENDS, element), one = (uint32_t)random % vertices;
    return (struct ends){one, (one + 1 + (random >> 32) % (vertices - 1)) % vertices};
}

static size_t structure_table_bytes(void)
{
    vertices = 2 + work.elements / EDGES_OF_VERTEX;
    return vertices * sizeof(struct vertex);
}

static uint64_t structure_blocks(void)
{
    return 2 * elements_all();
}

static size_t structure_block_bytes(void)
{
    return sizeof(struct half);
}

static void structure_make(struct transaction transaction)
{
    insert_first_elements(transaction);
}

OPERATION void insert_half(struct transaction transaction, uint64_t element, uint64_t end, uint64_t other)
{
    struct vertex *vertex = vertex_at(end);
    struct half *half = take_block(transaction), *last = GET(transaction, &vertex->last);
    SET(transaction, &half->next, NULL);
    SET(transaction, &half->previous, last);
    SET(transaction, &half->element, element);
    SET(transaction, &half->other, other);
    SET(transaction, &half->weight, value_of(element));
    if (last == NULL) {
        SET(transaction, &vertex->first, half);
    } else {
        SET(transaction, &last->next, half);
    }
    SET(transaction, &vertex->last, half);
    SET(transaction, &vertex->degree, GET(transaction, &vertex->degree) + 1);
}

OPERATION void erase_half(struct transaction transaction, uint64_t element, uint64_t end)
{
    struct vertex *vertex = vertex_at(end);
    struct half *half = GET(transaction, &vertex->first);
    while (half != NULL && GET(transaction, &half->element) != element) {
        half = GET(transaction, &half->next);
    }
    if (half == NULL) {
        die(STATUS_WRONG, "edge %" PRIu64 " is not in the list of vertex %" PRIu64, element, end);
    }
    struct half *next = GET(transaction, &half->next), *previous = GET(transaction, &half->previous);
    if (previous == NULL) {
        SET(transaction, &vertex->first, next);
    } else {
        SET(transaction, &previous->next, next);
    }
    if (next == NULL) {
        SET(transaction, &vertex->last, previous);
    } else {
        SET(transaction, &next->previous, previous);
    }
    SET(transaction, &vertex->degree, GET(transaction, &vertex->degree) - 1);
    give_block(transaction, half);
}

OPERATION void structure_insert(struct transaction transaction, uint64_t element)
{
    const struct ends ends = ends_of(element);
    lock_both(ends.one, ends.other);
    insert_half(transaction, element, ends.one, ends.other);
    insert_half(transaction, element, ends.other, ends.one);
    commit(transaction);
    unlock_both(ends.one, ends.other);
}

OPERATION void structure_erase(struct transaction transaction, uint64_t element)
{
    const struct ends ends = ends_of(element);
    lock_both(ends.one, ends.other);
    erase_half(transaction, element, ends.one);
    erase_half(transaction, element, ends.other);
    commit(transaction);
    unlock_both(ends.one, ends.other);
}

/* ---- Checking --------------------------------------------------------------------------------- */

/* Of each edge: whether it was found in the list of its one end, and of its other (1 and 2). */
static unsigned char *sides;

static void check_half(const struct half *half, uint64_t end)
{
    if (half->element >= elements_all()) {
        die(STATUS_WRONG, "there is an edge %" PRIu64 ", which nobody inserts", half->element);
    }
    const struct ends ends = ends_of(half->element);
    const bool is_one = ends.one == end;
    if ((!is_one && ends.other != end) || half->other != (is_one ? ends.other : ends.one) ||
        half->weight != value_of(half->element)) {
        die(STATUS_WRONG, "edge %" PRIu64 " has another's ends or weight", half->element);
    }
    const unsigned char side = is_one ? 1 : 2;
    if ((sides[half->element] & side) != 0) {
        die(STATUS_WRONG, "edge %" PRIu64 " is twice in the list of vertex %" PRIu64, half->element, end);
    }
    sides[half->element] |= side;
}

static void check_vertex(uint64_t number)
{
    const struct vertex *vertex = vertex_at(number);
    const struct half *previous = NULL;
    uint64_t degree = 0;
    for (const struct half *at = vertex->first; at != NULL; at = at->next) {
        check_half(claim_block(at), number);
        if (at->previous != previous) {
            die(STATUS_WRONG, "edge %" PRIu64 " leads back to another", at->element);
        }
        previous = at;
        degree++;
    }
    if (vertex->last != previous || vertex->degree != degree) {
        die(STATUS_WRONG, "the list of vertex %" PRIu64 " does not end where it should", number);
    }
}

static void structure_check(void)
{
    begin_elements_check();
    sides = ordinary(elements_all(), 1);
    for (uint64_t number = 0; number < vertices; number++) {
        check_vertex(number);
    }
    for (uint64_t element = 0; element < elements_all(); element++) {
        if (sides[element] == 3) {
            found_element(element);
            found(value_of(element));
        } else if (sides[element] != 0) {
            die(STATUS_WRONG, "edge %" PRIu64 " is in the list of one end alone", element);
        }
    }
    free(sides);
    end_elements_check();
}
