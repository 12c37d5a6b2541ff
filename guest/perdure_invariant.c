/*
 * The program around an invariant (perdure_invariant.h), which `perdure check --invariant` makes and starts:
 *
 *   invariant [/pmem/POOL@START-END+OFFSET]...
 *
 * It maps every file in /pmem, for reading. A word says that the program had mapped what begins OFFSET bytes
 * into a file from START to END, all hexadecimal: the whole file is mapped so that this lies there again, or,
 * where there is no room for the whole, this alone. The status is 0 if the invariant holds, 1 if not, 2 if a
 * pool cannot be mapped.
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

/* A file that has something, and what the program had mapped of it. */
struct file {
    char path[PATH_BYTES];
    int opened;
    size_t bytes;
    uintptr_t base; /* where its first byte has to lie, or 0 */
    size_t from, to; /* the bytes that the program had mapped, as far as the file goes */
};

/* Finds what is said of a file. */
static void look_up(struct file *file, char **words)
{
    const size_t length = strlen(file->path);
    for (; *words != NULL; words++) {
        char *next = strrchr(*words, '@');
        if (next == NULL || (size_t)(next - *words) != length || strncmp(*words, file->path, length) != 0) {
            continue;
        }
        const uintptr_t start = strtoull(next + 1, &next, 16);
        const uintptr_t end = strtoull(next + 1, &next, 16);
        file->from = strtoull(next + 1, NULL, 16);
        file->to = file->from + (end - start);
        file->base = start - file->from;
        if (file->to > file->bytes) {
            file->to = file->bytes;
        }
        return;
    }
}

/* Opens a file, if it is one that has something. */
static int is_pool(const char *name, char **words, struct file *file)
{
    struct stat told;
    snprintf(file->path, sizeof file->path, "/pmem/%s", name);
    file->opened = open(file->path, O_RDONLY);
    if (file->opened < 0 || fstat(file->opened, &told) != 0 || !S_ISREG(told.st_mode) || told.st_size == 0) {
        if (file->opened >= 0) {
            close(file->opened);
        }
        return 0;
    }
    file->bytes = (size_t)told.st_size;
    look_up(file, words);
    return 1;
}

/* Maps these bytes of a file where they have to lie, or anywhere; false if that cannot be. */
static int map(const struct file *file, size_t from, size_t to, const void **start)
{
    const int fixed = file->base == 0 ? 0 : MAP_FIXED_NOREPLACE;
    void *address = fixed ? (void *)(file->base + from) : NULL;
    void *found = mmap(address, to - from, PROT_READ, MAP_SHARED | fixed, file->opened, (off_t)from);
    if (found != MAP_FAILED) {
        *start = (const char *)found - from;
    }
    return found != MAP_FAILED;
}

static void fail(const struct file *file, size_t from)
{
    fprintf(stderr, "invariant: cannot map %s at %#lx: %s\n", file->path, (unsigned long)(file->base + from),
            strerror(errno));
    exit(STATUS_NOT_MAPPED);
}

/* Maps all of a file of which the program's part is mapped, or leaves it at that. */
static void extend(struct file *file, struct perdure_pool *pool)
{
    const int is_part = file->from < file->to;
    if (is_part) {
        munmap((void *)(file->base + file->from), file->to - file->from);
    }
    if (map(file, 0, file->bytes, &pool->start)) {
        return;
    }
    if (!is_part) {
        file->base = 0; /* The program had nothing of it, so no pointer leads there. */
        return;
    }
    if (!map(file, file->from, file->to, &pool->start)) {
        fail(file, file->from);
    }
    pool->bytes = file->to;
    pool->first = file->from;
    fprintf(stderr,
            "invariant: only the bytes %zu to %zu of %s are mapped, as the program had mapped them: there is no room "
            "around them for all %zu\n",
            file->from, file->to, file->path, file->bytes);
}

/* Maps all files. What the program had mapped comes first, so that nothing else takes its place. */
static void map_all(struct file *files, struct perdure_pool *pools, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct file *file = &files[i];
        if (file->base != 0 && file->from < file->to && !map(file, file->from, file->to, &pools[i].start)) {
            fail(file, file->from);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (files[i].base != 0) {
            extend(&files[i], &pools[i]);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (files[i].base == 0 && !map(&files[i], 0, files[i].bytes, &pools[i].start)) {
            fail(&files[i], 0);
        }
        close(files[i].opened);
    }
}

int main(int words_count, char **words)
{
    static struct perdure_pool pools[POOLS_MAX];
    static struct file files[POOLS_MAX];
    size_t count = 0;
    (void)words_count;
    DIR *folder = opendir("/pmem");
    for (struct dirent *entry; folder != NULL && count < POOLS_MAX && (entry = readdir(folder)) != NULL;) {
        if (is_pool(entry->d_name, words + 1, &files[count])) {
            pools[count] = (struct perdure_pool){strdup(entry->d_name), NULL, files[count].bytes, 0};
            count++;
        }
    }
    map_all(files, pools, count);
    const int said = invariant(pools, count);
    fflush(NULL);
    return said == 0 ? EXIT_SUCCESS : STATUS_VIOLATED;
}
