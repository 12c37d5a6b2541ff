/*
 * cuh POOL [OPTION]...: CUH of the flush study, cuckoo hashing.
 *
 * Operations (section III-A of the paper): insert, delete and search keys by the algorithm of Pagh and
 * Rodler. A key is in one of two cells, one in each of two tables. An insertion that finds its cell taken
 * drives the key there to its other cell, and so on; after MaxLoop of them both tables are replaced by
 * ones of twice the size. A line for each element; a cell is the pointer to one. Our assumptions: MaxLoop
 * is 32, and a table begins with 64 cells.
 *
 * Flushes and fences: a barrier (fence, flush, fence) at each cell that is changed, those of larger tables
 * too; before, for a new element, one at its line.
 *
 * Always true of what is durable: every element is in one of its two cells; one, at most, is in both. Our
 * assumption: an insertion looks for its free cell first, and then moves elements from that end of the
 * way, so that none is ever in no cell; the paper's writes the same cells, in the other order.
 *
 * Recovery: an element that is in both cells leaves the second. Check: cells, contents.
 */
#define PROGRAM "cuh"
#include "operations.h"

enum { LOOP_MAX = 32, FIRST_CELLS = 64 };

struct item {
    alignas(LINE_BYTES) uint64_t key;
    uint64_t element;
};

_Static_assert(sizeof(struct item) == sizeof(struct slot), "an item is one line");

/* How often the tables were doubled: in use, and durably so. */
static uint64_t level;

static uint64_t *durable_level(void)
{
    return &pool->root[0].word;
}

static uint64_t cells_of(uint64_t of_level)
{
    return (uint64_t)FIRST_CELLS << of_level;
}

/* The tables of a level lie behind those of all lower ones, which have one cell pair less in all than
   it has, but for the first level's. */
static struct item **table(uint64_t of_level, unsigned which)
{
    return (struct item **)beside_slots() + 2 * (cells_of(of_level) - FIRST_CELLS) +
           which * cells_of(of_level);
}

static struct item **cell_of(unsigned which, uint64_t key)
{
    return table(level, which) + random_at(0, which, key) % cells_of(level);
}

/* The last level that elements may need: half full, and one more. */
static uint64_t level_last(uint64_t elements)
{
    uint64_t last = 1;
    while (cells_of(last - 1) < elements) {
        last++;
    }
    return last;
}

static size_t bytes_of_tables(uint64_t elements)
{
    return 2 * (cells_of(level_last(elements) + 1) - FIRST_CELLS) * sizeof(struct item *);
}

/* Puts the item into a cell, if one can be made free for it. */
static bool place(struct item *item)
{
    for (unsigned first = 0; first < 2; first++) {
        struct item **way[LOOP_MAX];
        struct item *nestless = item;
        unsigned which = first, length = 0;
        while (nestless != NULL && length < LOOP_MAX) {
            way[length] = cell_of(which, nestless->key);
            nestless = *way[length++];
            which = 1 - which;
        }
        if (nestless != NULL) {
            continue;
        }
        while (--length > 0) {
            *way[length] = *way[length - 1];
            persist(way[length]);
        }
        *way[0] = item;
        persist(way[0]);
        return true;
    }
    return false;
}

/* Puts all items of the tables that are durably in use into those of `level`. */
static bool move_all(void)
{
    for (unsigned which = 0; which < 2; which++) {
        struct item **from = table(*durable_level(), which);
        for (uint64_t i = 0; i < cells_of(*durable_level()); i++) {
            if (from[i] != NULL && !place(from[i])) {
                return false;
            }
        }
    }
    return true;
}

static void grow(void)
{
    do {
        if (level++ == level_last(elements_max)) {
            die(STATUS_USAGE, "the tables do not suffice");
        }
        /* A cut may have left another attempt's cells. */
        const size_t bytes = 2 * cells_of(level) * sizeof(struct item *);
        memset(table(level, 0), 0, bytes);
        flush_bytes(table(level, 0), bytes);
        fence();
    } while (!move_all());
    *durable_level() = level;
    persist(durable_level());
}

/* The cell that has the key; NULL if there is none. */
static struct item **find_cell(uint64_t key)
{
    for (unsigned which = 0; which < 2; which++) {
        struct item **cell = cell_of(which, key);
        if (*cell != NULL && (*cell)->key == key) {
            return cell;
        }
    }
    return NULL;
}

static void structure_make(void)
{
}

static void structure_insert(uint64_t element)
{
    struct item *item = take_slot();
    *item = (struct item){.key = key_of(element), .element = element};
    persist(item);
    while (!place(item)) {
        grow();
    }
}

static void structure_erase(uint64_t element)
{
    struct item **cell = find_cell(key_of(element));
    if (cell == NULL) {
        die(STATUS_WRONG, "element %" PRIu64 " is to be erased, but is not there", element);
    }
    struct item *item = *cell;
    *cell = NULL;
    persist(cell);
    give_slot(item);
}

static bool structure_find(uint64_t element)
{
    struct item **cell = find_cell(key_of(element));
    return cell != NULL && (*cell)->element == element;
}

static void structure_recover(void)
{
    unsigned twice = 0;
    level = *durable_level();
    if (level > level_last(elements_max)) {
        die(STATUS_WRONG, "the tables were doubled %" PRIu64 " times", level);
    }
    for (unsigned which = 0; which < 2; which++) {
        for (uint64_t i = 0; i < cells_of(level); i++) {
            struct item **cell = table(level, which) + i;
            if (*cell == NULL) {
                continue;
            }
            const struct item *item = check_pointer(*cell);
            if (cell != cell_of(which, item->key)) {
                die(STATUS_WRONG, "element %" PRIu64 " is in another's cell", item->element);
            }
            if (which == 1 && *cell_of(0, item->key) == item) {
                twice++;
                *cell = NULL;
                persist(cell);
                continue;
            }
            claim(item);
            found_element(item->element);
            if (item->key != key_of(item->element)) {
                die(STATUS_WRONG, "element %" PRIu64 " has another's key", item->element);
            }
        }
    }
    if (twice > 1) {
        die(STATUS_WRONG, "%u elements are in both their cells", twice);
    }
}

int main(int argc, char **argv)
{
    return run(argc, argv, 0, bytes_of_tables);
}
