/*
 * The program around an invariant (perdure_invariant.h), which `perdure check --invariant` makes and starts:
 *
 *   invariant [/pmem/POOL@ADDRESS]...
 *
 * It maps every file in /pmem, for reading, those that are named at their addresses, which are hexadecimal.
 * The status is 0 if the invariant holds, 1 if not, 2 if a pool cannot be mapped.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "perdure_invariant.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

enum { POOLS_MAX = 256, PATH_BYTES = 512, STATUS_VIOLATED = 1, STATUS_NOT_MAPPED = 2 };

/* Where a pool has to lie, or 0. */
static uintptr_t address_of(const char *path, char **words)
{
    const size_t length = strlen(path);
    for (; *words != NULL; words++) {
        if (strncmp(*words, path, length) == 0 && (*words)[length] == '@') {
            return (uintptr_t)strtoull(*words + length + 1, NULL, 16);
        }
    }
    return 0;
}

static void fail(const char *path, uintptr_t address)
{
    fprintf(stderr, "invariant: cannot map %s at %#lx: %s\n", path, (unsigned long)address, strerror(errno));
    exit(STATUS_NOT_MAPPED);
}

/* Maps a pool, if it is one that has something. */
static int map(const char *name, char **words, struct perdure_pool *pool)
{
    char path[PATH_BYTES];
    struct stat told;
    snprintf(path, sizeof path, "/pmem/%s", name);
    const int file = open(path, O_RDONLY);
    if (file < 0 || fstat(file, &told) != 0 || !S_ISREG(told.st_mode) || told.st_size == 0) {
        if (file >= 0) {
            close(file);
        }
        return 0;
    }
    const uintptr_t address = address_of(path, words);
    const int fixed = address == 0 ? 0 : MAP_FIXED_NOREPLACE;
    const size_t bytes = (size_t)told.st_size;
    void *start = mmap((void *)address, bytes, PROT_READ, MAP_SHARED | fixed, file, 0);
    if (start == MAP_FAILED) {
        fail(path, address);
    }
    close(file);
    *pool = (struct perdure_pool){strdup(name), start, bytes};
    return 1;
}

int main(int words_count, char **words)
{
    static struct perdure_pool pools[POOLS_MAX];
    size_t count = 0;
    (void)words_count;
    DIR *folder = opendir("/pmem");
    for (struct dirent *entry; folder != NULL && count < POOLS_MAX && (entry = readdir(folder)) != NULL;) {
        count += (size_t)map(entry->d_name, words + 1, &pools[count]);
    }
    const int said = invariant(pools, count);
    fflush(NULL);
    return said == 0 ? EXIT_SUCCESS : STATUS_VIOLATED;
}
