/*
 * Says by perdure_atomic that some bytes of a pool change as a whole, and changes two words one by one.
 *
 *   atomic_ranges POOL word          the first word alone is to change as a whole, which it does
 *   atomic_ranges POOL two           both are, which they do not; no page has been touched before
 *   atomic_ranges POOL pages         the same, of words on two pages that are apart in physical memory
 *   atomic_ranges POOL elsewhere     bytes of no pool
 *   atomic_ranges POOL BYTES         so many from the first word on
 *   atomic_ranges POOL recover       recovers, for which nothing is to be done
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "perdure.h"

enum { PAGE = 4096, WORDS = PAGE / sizeof(uint64_t) };

static void store(volatile uint64_t *word)
{
    *word = 1;
    perdure_clwb(word);
    perdure_sfence();
}

/* A file of two pages, which get theirs in turns with another one's. */
static volatile uint64_t *map(const char *path)
{
    char other[64];

    snprintf(other, sizeof(other), "%s.other", path);
    const int files[] = { open(path, O_RDWR | O_CREAT, 0600), open(other, O_RDWR | O_CREAT, 0600) };
    for (int pages = 1; pages <= 2; pages++)
        for (int file = 0; file < 2; file++)
            if (posix_fallocate(files[file], 0, (off_t)pages * PAGE) != 0)
                exit(2);
    return mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE | MAP_SYNC, files[0], 0);
}

int main(int count, char **words)
{
    if (count != 3)
        return 2;
    volatile uint64_t *first = map(words[1]), *second = first + 1;
    const char *how = words[2];

    if (strcmp(how, "recover") == 0)
        return 0;
    if (strcmp(how, "pages") == 0) {
        second = first + WORDS;
        first = second - 1;
    }
    if (strcmp(how, "word") == 0)
        perdure_atomic(first, sizeof(*first));
    else if (strcmp(how, "two") == 0 || strcmp(how, "pages") == 0)
        perdure_atomic(first, 2 * sizeof(*first));
    else if (strcmp(how, "elsewhere") == 0)
        perdure_atomic(&count, sizeof(count));
    else
        perdure_atomic(first, strtoull(how, NULL, 0));
    perdure_op_begin(1);
    store(first);
    store(second);
    perdure_op_end();
    return 0;
}
