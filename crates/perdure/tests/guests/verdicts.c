/*
 * For what `perdure check` says of a program: what it stores, and what its recovery makes of that.
 *
 *   verdicts POOL halves         a store lies in two lines; recovery needs both halves, or none
 *   verdicts POOL loop           the same, of two words that one instruction stores, one after the other
 *   verdicts POOL one-way        the same, but recovery fails only where the second is there alone
 *   verdicts POOL appended       another file grows page by page, and is synchronised; meanwhile the pool,
 *                                which has holes and is mapped without MAP_SYNC, is stored to
 *   verdicts POOL HOW recover    recovers
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "perdure.h"

enum { PAGE = 4096, PAGES = 5 };

static volatile uint64_t *pool;

static void persist(const volatile void *at)
{
    perdure_clwb(at);
    perdure_sfence();
}

static void fail(const char *why)
{
    fprintf(stderr, "verdicts: %s\n", why);
    exit(3);
}

/* The halves are the last word of a line, and the first of the next. */
static void store_halves(void)
{
    __asm__ volatile("sd %1, 0(%0)" : : "r"((char *)pool + 60), "r"(UINT64_C(0x100000001)) : "memory");
    perdure_clwb(pool);
    persist(pool + 8);
}

static __attribute__((noinline)) void store_word(volatile uint64_t *word)
{
    *word = 1;
}

/* By one instruction, as far as anybody can tell. */
static void store_words(void)
{
    store_word(pool);
    store_word(pool + 8);
    perdure_clwb(pool);
    persist(pool + 8);
}

static void recover(const char *how)
{
    const volatile uint32_t *halves = (volatile uint32_t *)pool;
    if (strcmp(how, "halves") == 0 && halves[15] != halves[16])
        fail("half a store");
    if (strcmp(how, "loop") == 0 && pool[0] != pool[8])
        fail("one of two words");
    if (strcmp(how, "one-way") == 0 && pool[8] > pool[0])
        fail("the second word alone");
}

static void append(int file)
{
    uint64_t page[PAGE / sizeof(uint64_t)];
    for (int number = 0; number < PAGES - 1; number++) {
        for (size_t at = 0; at < sizeof(page) / sizeof(page[0]); at++)
            page[at] = 1;
        if (write(file, page, PAGE) != PAGE)
            exit(2);
        pool[(number + 1) * (PAGE / 8)] = 1;
        persist(pool + (number + 1) * (PAGE / 8));
        fsync(file);
    }
}

static void recover_appended(int file)
{
    uint64_t page[PAGE / sizeof(uint64_t)];
    while (read(file, page, PAGE) == PAGE)
        for (size_t at = 0; at < sizeof(page) / sizeof(page[0]); at++)
            if (page[at] != 1)
                fail("a page that is not as it was written");
}

int main(int count, char **words)
{
    const char *how = count < 3 ? "" : words[2];
    const int recovers = count == 4, appends = strcmp(how, "appended") == 0;
    const int file = open(words[1], O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, PAGES * PAGE) != 0)
        return 2;
    const int flags = appends ? MAP_SHARED : MAP_SHARED_VALIDATE | MAP_SYNC;
    pool = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, flags, file, 0);
    if (appends) {
        char other[64];
        snprintf(other, sizeof(other), "%s.log", words[1]);
        const int log = open(other, O_RDWR | O_CREAT, 0600);
        (recovers ? recover_appended : append)(log);
    } else if (recovers) {
        recover(how);
    } else if (strcmp(how, "halves") == 0) {
        store_halves();
    } else {
        store_words();
    }
    return 0;
}
