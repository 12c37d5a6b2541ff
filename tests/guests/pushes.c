/*
 * End-to-end test: a list in a pool, to which operations push, for `perdure check`.
 *
 *   pushes POOL OPERATIONS [MISTAKE]     recovers, and pushes so many
 *   pushes POOL recover                  recovers, and checks
 *   pushes POOL dump                     the same, and prints the list
 *
 * A node is durable before the head leads to it, and the head is before the push ends. What each mistake
 * leaves out, or does otherwise, is at its name. The pool remembers the mistake, so that recovery makes it.
 *
 * Always true: recovery exits with 3 if a node is not what was pushed.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "perdure.h"

#ifndef MAP_SHARED_VALIDATE
#define MAP_SHARED_VALIDATE 3
#endif
#ifndef MAP_SYNC
#define MAP_SYNC 0x80000
#endif

enum { NODES = 256, LATE = 9, MAGIC = 0x9054e5 };

struct node {
    uint64_t key, next;
    uint64_t check; /* of both */
    char other[40]; /* a cache line of its own */
};

struct pool {
    uint64_t magic, head;
    char mistake[48];
    struct { /* a cache line of its own: key and its double have to be seen together */
        uint64_t key, twice;
        char other[48];
    } last;
    struct node nodes[NODES];
};

static struct pool *pool;

static int makes(const char *mistake)
{
    return strcmp(pool->mistake, mistake) == 0;
}

static void persist(const volatile void *start, size_t bytes)
{
    perdure_flush_range(perdure_primitive_named("clwb"), start, bytes);
    perdure_sfence();
}

static void lead_to(uint64_t index)
{
    pool->head = index;
    if (!makes("no-last-flush")) {
        persist(&pool->head, sizeof pool->head);
    }
}

static void fill(uint64_t index, uint64_t key, uint64_t next)
{
    struct node *node = &pool->nodes[index];
    node->key = key;
    node->next = next;
    node->check = key ^ next ^ MAGIC;
    if (makes("no-fence")) {
        perdure_clwb(node);
    } else if (!makes("no-flush") && !makes("hangs") && !(makes("late") && index >= LATE)) {
        persist(node, sizeof *node);
    }
}

static void push(uint64_t key)
{
    const uint64_t next = pool->head, index = next + 1;
    if (makes("wrong-order")) {
        lead_to(index);
    }
    fill(index, key, next);
    if (!makes("wrong-order")) {
        lead_to(index);
    }
    if (makes("torn")) {
        pool->last.key = key;
        __asm__ volatile("" : : : "memory");
        pool->last.twice = 2 * key;
        persist(&pool->last, sizeof pool->last);
    }
}

static void recover(const char *mistake)
{
    if (pool->magic != MAGIC) {
        strncpy(pool->mistake, mistake, sizeof pool->mistake - 1);
        persist(pool, sizeof *pool);
        pool->magic = MAGIC;
        persist(&pool->magic, sizeof pool->magic);
    }
    if (makes("not-idempotent")) {
        /* Takes the newest node out and puts it back, as if it were to be looked at. */
        const uint64_t head = pool->head;
        pool->head = head == 0 ? 0 : pool->nodes[head].next;
        persist(&pool->head, sizeof pool->head);
        pool->head = head;
        persist(&pool->head, sizeof pool->head);
    }
    while (makes("hangs") && pool->head % 2 == 1 && pool->nodes[pool->head].key == 0) {
        /* For ever, if the head was durable before the node. */
    }
    if (pool->last.twice != 2 * pool->last.key) {
        exit(3);
    }
    for (uint64_t at = pool->head; at != 0; at = pool->nodes[at].next) {
        const struct node *node = &pool->nodes[at];
        if (node->check != (node->key ^ node->next ^ MAGIC) && !makes("hangs")) {
            fprintf(stderr, "pushes: node %" PRIu64 " is not what was pushed\n", at);
            exit(3);
        }
    }
}

static void open_pool(const char *path)
{
    const int file = open(path, O_RDWR | O_CREAT, 0644);
    if (file < 0 || posix_fallocate(file, 0, sizeof *pool) != 0) {
        perror(path);
        exit(2);
    }
    const int flags = MAP_SHARED_VALIDATE | MAP_SYNC;
    pool = mmap(NULL, sizeof *pool, PROT_READ | PROT_WRITE, flags, file, 0);
    if (pool == MAP_FAILED) {
        perror("mmap");
        exit(2);
    }
}

int main(int count, char **words)
{
    if (count < 3) {
        fprintf(stderr, "usage: pushes POOL OPERATIONS [MISTAKE] | pushes POOL recover|dump\n");
        return 2;
    }
    open_pool(words[1]);
    recover(count > 3 ? words[3] : "");
    if (strcmp(words[2], "dump") == 0) {
        for (uint64_t at = pool->head; at != 0; at = pool->nodes[at].next) {
            printf("%" PRIu64 "\n", pool->nodes[at].key);
        }
    }
    const uint64_t operations = strtoull(words[2], NULL, 10);
    for (uint64_t i = 0; i < operations; i++) {
        perdure_op_begin(i);
        push(3 * i + 1);
        if (!makes("never-ends") || i + 1 < operations) {
            perdure_op_end();
        }
    }
    return operations > 0 && makes("fails") ? 4 : 0;
}
