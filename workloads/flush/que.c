/*
 * que POOL [OPTION]...: QUE of the flush study, a linear queue.
 *
 * Operations (section III-A of the paper): enqueue at the tail, dequeue at the head. Our assumption: a
 * read, which only the mixtures have, looks at the element at the head. A line for each element.
 *
 * Flushes and fences: an enqueue makes its element durable (flush, fence), and then the tail (flush,
 * fence); a dequeue the head (fence, flush, fence). So many are in the paper's table V. The pointer to the
 * next element, which an enqueue writes into the one before, is not flushed: each element has a pointer to
 * the one before, too, from which recovery writes it anew.
 *
 * Always true of what is durable: from the tail, pointers back lead to the head, over consecutive
 * elements. The head is the element that was dequeued last, or the one that an empty queue is made with.
 *
 * Recovery: the pointers to the next elements. Check: pointers, contents.
 */
#define PROGRAM "que"
#define VICTIM_STEP UINT64_C(1)
#define TABLE_SEARCH_PERCENT 0
#include "operations.h"

struct item {
    alignas(LINE_BYTES) uint64_t element;
    uint64_t key;
    struct item *next;
    struct item *previous;
};

_Static_assert(sizeof(struct item) == sizeof(struct slot), "an item is one line");

/* What stands at the head before anything was dequeued. */
#define NO_ELEMENT UINT64_MAX

static struct item **head(void)
{
    return (struct item **)&pool->root[0].word;
}

static struct item **tail(void)
{
    return (struct item **)&pool->root[1].word;
}

static void structure_make(void)
{
    struct item *item = (struct item *)slots;
    *item = (struct item){.element = NO_ELEMENT};
    *head() = item;
    *tail() = item;
}

static void structure_insert(uint64_t element)
{
    struct item *item = take_slot(), *before = *tail();
    *item = (struct item){.element = element, .key = key_of(element), .previous = before};
    flush_line(item);
    fence();
    before->next = item;
    *tail() = item;
    flush_line(tail());
    fence();
}

static void structure_erase(uint64_t element)
{
    struct item *gone = *head(), *item = gone->next;
    if (gone == *tail() || item->element != element || item->key != key_of(element)) {
        die(STATUS_WRONG, "element %" PRIu64 " is not at the head of the queue", element);
    }
    *head() = item;
    persist(head());
    give_slot(gone);
}

/* Looks at the head. Whether an element behind it is in the queue can be said from there. */
static bool structure_find(uint64_t element)
{
    const struct item *item = *head();
    return item != *tail() && item->next->element <= element && element <= (*tail())->element;
}

static void structure_recover(void)
{
    struct item *item = claim(*tail());
    item->next = NULL;
    for (; item != *head(); item = item->previous) {
        found_element(item->element);
        struct item *before = claim(item->previous);
        if (item->key != key_of(item->element)) {
            die(STATUS_WRONG, "element %" PRIu64 " has another's key", item->element);
        }
        if (before->element + 1 != item->element) {
            die(STATUS_WRONG, "element %" PRIu64 " is behind %" PRIu64, item->element, before->element);
        }
        before->next = item;
    }
}

int main(int argc, char **argv)
{
    return run(argc, argv, 1, NULL);
}
