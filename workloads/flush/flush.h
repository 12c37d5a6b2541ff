/*
 * What the programs of the flush study share: command line, pool, slots, flushes and fences,
 * acknowledgements, random numbers.
 *
 * A program keeps its structure in a pool, a file under /pmem, which it maps at one fixed address, so
 * that pointers in it stay good. If the pool is missing the program makes it; if it was used, it recovers
 * and checks it, and takes its operations on from there; so the same command line does after a power cut.
 * With --make it makes the pool alone, with --recover it recovers and checks alone. Its status is 0, or 1
 * if something is wrong, which it says on standard error, or 2 for a bad command line.
 *
 * Always true: an operation is failure-atomic if flushes and fences do what they promise: what is new
 * is made durable in lines that nothing reaches yet, and then one 8-byte store lets it be seen. Which
 * slots are free is known in ordinary memory only, and found anew by recovery: what the structure does
 * not reach is free. What the outside world knows, the pool as it is made and what it was told, is made
 * durable by the kernel and by flushes of its own, whatever the primitive.
 *
 * A program defines PROGRAM, its name in quotes, before it includes this file.
 */
#ifndef PERDURE_FLUSH_H
#define PERDURE_FLUSH_H

#ifndef PROGRAM
#error "define PROGRAM, the program's name, before flush.h is included"
#endif

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "perdure.h"

#ifndef MAP_SHARED_VALIDATE
#define MAP_SHARED_VALIDATE 3
#endif
#ifndef MAP_SYNC
#define MAP_SYNC 0x80000
#endif

enum {
    STATUS_WRONG = 1, /* the program's own check failed */
    STATUS_USAGE = 2, /* a command line that it does not take, or a pool that cannot be had */
    LINE_BYTES = 64,
    PAGE_BYTES = 4096,
    PIECE_BYTES = 1 << 17, /* of a pool that is made: what one system call writes */
    STREAMS_MAX = 32,
    PLAN_WORDS = 15,
    ROOTS = 4
};

/* Nothing else of a program lies near: 64 GiB, far below the end of its half of the addresses. */
#define POOL_ADDRESS ((uintptr_t)0x1000000000)
#define POOL_MAGIC UINT64_C(0x5055454741524f54)

/* Says on standard error why the program ends, and ends it with `status`; for any thread. */
__attribute__((noreturn, format(printf, 2, 3))) static inline void die(int status,
                                                                       const char *format, ...)
{
    va_list values;
    va_start(values, format);
    flockfile(stderr);
    fprintf(stderr, "%s: %s", PROGRAM, status == STATUS_WRONG ? "WRONG: " : "");
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    funlockfile(stderr);
    va_end(values);
    exit(status);
}

/* ---- Numbers ---------------------------------------------------------------------------------- */

/* A permutation of the 64-bit numbers that looks random: the last steps of SplitMix64. */
static inline uint64_t mix(uint64_t number)
{
    number = (number ^ (number >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    number = (number ^ (number >> 27)) * UINT64_C(0x94d049bb133111eb);
    return number ^ (number >> 31);
}

/* The `index`-th random number of the series that `seed` and `purpose` choose. */
static inline uint64_t random_at(uint64_t seed, uint64_t purpose, uint64_t index)
{
    return mix(mix(seed + (purpose << 56)) + index);
}

/* ---- The command line ------------------------------------------------------------------------- */

/* One option, `--name VALUE`: a whole number up to `maximum`, or one of `choices`, a list that NULL
   ends. Without either it takes no value, and is 0 or 1. */
struct option {
    const char *name;
    const char *meaning;
    uint64_t maximum;
    const char *const *choices;
    uint64_t *value;
};

static const char *const NO_CHOICES[] = {NULL};
static const char *const MEMORY_TYPES[] = {"wb", "wt", "uc", "wc", NULL};
static const char *pool_path;
static const char *primitive_name = "none";
static uint64_t make_only, recover_only, flushes_alone, memory_type, anywhere;

static inline void print_usage(FILE *out, const struct option *options, size_t count)
{
    fprintf(out, "usage: %s POOL [--primitive NAME] [OPTION]...\n", PROGRAM);
    fprintf(out, "  --primitive  the flush and the fence, of guest/perdure.h (none)\n");
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "  --%s", options[i].name);
        for (size_t j = 0; options[i].choices != NULL && options[i].choices[j] != NULL; j++) {
            fprintf(out, "%s%s", j == 0 ? " " : "|", options[i].choices[j]);
        }
        fprintf(out, "%s  %s\n", options[i].choices == NULL ? " NUMBER" : "", options[i].meaning);
    }
}

static inline void set_option(const struct option *option, const char *text)
{
    if (option->choices == NULL) {
        char *end = NULL;
        errno = 0;
        *option->value = isdigit((unsigned char)*text) ? strtoull(text, &end, 10) : 0;
        if (end == NULL || *end != '\0' || errno != 0 || *option->value > option->maximum) {
            die(STATUS_USAGE, "--%s is \"%s\", but must be a whole number up to %" PRIu64,
                option->name, text, option->maximum);
        }
        return;
    }
    for (size_t i = 0; option->choices[i] != NULL; i++) {
        if (strcmp(option->choices[i], text) == 0) {
            *option->value = i;
            return;
        }
    }
    die(STATUS_USAGE, "--%s cannot be \"%s\"; --help says what it can", option->name, text);
}

/* Reads the command line: the program's own options, and those that all have. */
static inline void parse_options(int argc, char **argv, uint64_t *acknowledge_interval,
                                 const struct option *own, size_t own_count)
{
    struct option options[24] = {
        {"memory-type", "of the pool's mapping", 0, MEMORY_TYPES, &memory_type},
        {"flushes-alone", "flushes, and no fences", 0, NO_CHOICES, &flushes_alone},
        {"acknowledge", "tell the outside world of every NUMBER-th operation; 0 is never",
         UINT32_MAX, NULL, acknowledge_interval},
        {"make", "make the pool, and no more", 0, NO_CHOICES, &make_only},
        {"recover", "recover and check what a power cut left, and no more", 0, NO_CHOICES,
         &recover_only},
        {"anywhere", "the pool may be an ordinary file, of which a cut keeps what it likes", 0,
         NO_CHOICES, &anywhere},
    };
    size_t count = 6;
    memcpy(options + count, own, own_count * sizeof *own);
    count += own_count;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (strcmp(word, "--help") == 0) {
            print_usage(stdout, options, count);
            exit(EXIT_SUCCESS);
        }
        if (strncmp(word, "--", 2) != 0 && pool_path == NULL) {
            pool_path = word;
            continue;
        }
        if (strcmp(word, "--primitive") == 0 && i + 1 < argc) {
            primitive_name = argv[++i];
            continue;
        }
        const struct option *found = NULL;
        for (size_t j = 0; j < count; j++) {
            if (strncmp(word, "--", 2) == 0 && strcmp(word + 2, options[j].name) == 0) {
                found = &options[j];
            }
        }
        if (found != NULL && found->choices == NO_CHOICES) {
            *found->value = 1;
        } else if (found != NULL && i + 1 < argc) {
            set_option(found, argv[++i]);
        } else {
            print_usage(stderr, options, count);
            die(STATUS_USAGE, found == NULL ? "takes no \"%s\"" : "%s needs a value", word);
        }
    }
    if (pool_path == NULL) {
        print_usage(stderr, options, count);
        die(STATUS_USAGE, "needs the path of its pool");
    }
    if (!anywhere && strncmp(pool_path, "/pmem/", 6) != 0) {
        die(STATUS_USAGE, "%s is not in persistent memory: a pool lies below /pmem (or --anywhere)",
            pool_path);
    }
}

/* ---- Flushes and fences ----------------------------------------------------------------------- */

static const struct perdure_primitive *primitive;
static bool fencing;

static inline void choose_primitive(void)
{
    primitive = perdure_primitive_named(primitive_name);
    if (primitive == NULL) {
        die(STATUS_USAGE, "--primitive cannot be \"%s\"", primitive_name);
    }
    fencing = flushes_alone == 0;
}

static inline void flush_line(const volatile void *line)
{
    primitive->flush(line);
}

static inline void flush_bytes(const volatile void *start, size_t bytes)
{
    perdure_flush_range(primitive, start, bytes);
}

/* The compiler keeps the order of stores here even if the machine is not asked to. */
static inline void fence(void)
{
    if (fencing) {
        primitive->fence();
    }
    __asm__ volatile("" : : : "memory");
}

/* The paper's persistent barrier (its figure 2): what is in the line is durable after it. */
static inline void persist(const volatile void *line)
{
    fence();
    flush_line(line);
    fence();
}

/* ---- The pool --------------------------------------------------------------------------------- */

/* A line with one number in it. */
struct word_line {
    alignas(LINE_BYTES) uint64_t word;
};

/* What the pool is for, in words that its program understands; only the same may be done with it. */
struct plan {
    uint64_t acknowledge_interval;
    uint64_t words[PLAN_WORDS];
};

/* The pool's first page. The slots follow, and then what the program has beside them. */
struct pool {
    alignas(LINE_BYTES) uint64_t magic; /* written last */
    char program[LINE_BYTES - sizeof(uint64_t)];
    struct plan plan;
    struct word_line used;        /* 1 from before the first operation on */
    struct word_line root[ROOTS]; /* where the structure begins: one line for each number */
    struct word_line acknowledged[STREAMS_MAX];
};

_Static_assert(sizeof(struct pool) <= PAGE_BYTES, "a pool's head is one page");

/* A node of a structure has a slot of its own. */
struct slot {
    alignas(LINE_BYTES) unsigned char bytes[LINE_BYTES];
};

static struct pool *const pool = (struct pool *)POOL_ADDRESS;
static struct slot *const slots = (struct slot *)(POOL_ADDRESS + PAGE_BYTES);
static uint64_t slots_all;

/* What lies behind the slots, at the beginning of a line. */
static inline void *beside_slots(void)
{
    return slots + slots_all;
}

static inline int mapping_flags(void)
{
    switch (memory_type) {
    case 1:
        return PERDURE_MAP_WRITE_THROUGH;
    case 2:
        return PERDURE_MAP_UNCACHED;
    case 3:
        return PERDURE_MAP_WRITE_COMBINING;
    default:
        return 0;
    }
}

static inline void map_pool(int file, size_t bytes)
{
    const int flags = MAP_FIXED | mapping_flags();
    void *place = mmap(pool, bytes, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE | MAP_SYNC | flags,
                       file, 0);
    /* A file that is not in persistent memory; qemu-user 7.2 says so with the second error. */
    if (place == MAP_FAILED && (errno == EOPNOTSUPP || errno == EINVAL)) {
        place = mmap(pool, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | flags, file, 0);
    }
    if (place != (void *)pool) {
        die(STATUS_USAGE, "cannot map %s: %s", pool_path, strerror(errno));
    }
}

/* Makes a mapped range of the pool durable, whatever the primitive. */
static inline void synchronise(size_t bytes)
{
    for (size_t at = 0; at < bytes; at += PIECE_BYTES) {
        const size_t piece = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        if (msync((char *)pool + at, piece, MS_SYNC) != 0) {
            die(STATUS_USAGE, "cannot write %s: %s", pool_path, strerror(errno));
        }
    }
}

/* Makes the file so long, with a place in memory for all of it. */
static inline void make_room(int file, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += PIECE_BYTES) {
        const size_t piece = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        const int refusal = posix_fallocate(file, (off_t)at, (off_t)piece);
        if (refusal != 0 || fsync(file) != 0) {
            die(STATUS_USAGE, "no room for %s: %s", pool_path, strerror(refusal));
        }
    }
}

/* Lays a new pool down, durably: a cut leaves it whole, or without its magic. */
static inline void make_pool(size_t bytes, const struct plan *plan, void (*make)(void))
{
    strncpy(pool->program, PROGRAM, sizeof pool->program - 1);
    pool->plan = *plan;
    make();
    synchronise(bytes);
    pool->magic = POOL_MAGIC;
    synchronise(PAGE_BYTES);
}

/* Opens the pool of a plan, with room for `slot_count` slots and `more_bytes` beside them. If it is
   missing, or its making was cut short, it is made: zeros, and what `make` writes there. */
static inline void open_pool(const struct plan *plan, uint64_t slot_count, size_t more_bytes,
                             void (*make)(void))
{
    choose_primitive();
    slots_all = slot_count;
    const size_t bytes = PAGE_BYTES + slot_count * sizeof(struct slot) + more_bytes;
    const int file = open(pool_path, O_RDWR | O_CREAT, 0644);
    struct stat told;
    if (file < 0 || fstat(file, &told) != 0) {
        die(STATUS_USAGE, "cannot open %s: %s", pool_path, strerror(errno));
    }
    if ((size_t)told.st_size < bytes) {
        make_room(file, bytes);
    }
    map_pool(file, bytes);
    if (pool->magic != POOL_MAGIC) {
        make_pool(bytes, plan, make);
    } else if (memcmp(&pool->plan, plan, sizeof *plan) != 0) {
        die(STATUS_USAGE, "%s was made by a command line with another plan", pool_path);
    }
    close(file);
}

/* Of the file that is to be the pool: it is one of this program, or is emptied, as its making was cut short
   and a new one begins with zeros. */
static inline void look_at_file(void)
{
    static struct pool first;
    const int file = open(pool_path, O_RDWR);
    if (file < 0) {
        return;
    }
    const ssize_t length = read(file, &first, sizeof first);
    if (length == (ssize_t)sizeof first && first.magic == POOL_MAGIC) {
        if (strncmp(first.program, PROGRAM, sizeof first.program) != 0) {
            die(STATUS_USAGE, "%s is a pool of another program", pool_path);
        }
    } else if (length >= (ssize_t)sizeof first.magic && first.magic != 0) {
        die(STATUS_USAGE, "%s is no pool", pool_path);
    } else if (ftruncate(file, 0) != 0) {
        die(STATUS_USAGE, "cannot write %s: %s", pool_path, strerror(errno));
    }
    close(file);
}

/* Before the first operation. */
static inline void begin_use(void)
{
    if (pool->used.word == 0) {
        pool->used.word = 1;
        synchronise(PAGE_BYTES);
    }
}

/* With --recover: the plan that is in the pool. A pool whose making was cut short has none: nothing
   has been promised, and the program ends well. */
static inline void read_plan(struct plan *plan)
{
    static struct pool head;
    const int file = open(pool_path, O_RDONLY);
    if (file < 0 && errno != ENOENT) {
        die(STATUS_USAGE, "cannot open %s: %s", pool_path, strerror(errno));
    }
    const ssize_t length = file < 0 ? 0 : read(file, &head, sizeof head);
    close(file);
    if (length != (ssize_t)sizeof head || head.magic != POOL_MAGIC) {
        printf("%s: the pool was not made yet\n", PROGRAM);
        exit(EXIT_SUCCESS);
    }
    if (strncmp(head.program, PROGRAM, sizeof head.program) != 0) {
        die(STATUS_USAGE, "%s is a pool of another program", pool_path);
    }
    *plan = head.plan;
}

/* ---- Slots ------------------------------------------------------------------------------------ */

/* Free slots: those below `slots_used` are in the list, and all above. One thread at a time. */
static struct slot **free_list;
static uint64_t free_count, slots_used;
/* Until operations begin: which slots the structure has reached. */
static unsigned char *claimed;

/* Memory of the ordinary kind, zeroed. */
static inline void *ordinary(size_t count, size_t item_bytes)
{
    void *memory = calloc(count == 0 ? 1 : count, item_bytes);
    if (memory == NULL) {
        die(STATUS_USAGE, "no memory for %zu items of %zu bytes", count, item_bytes);
    }
    return memory;
}

static inline void *take_slot(void)
{
    if (free_count > 0) {
        return free_list[--free_count];
    }
    if (slots_used == slots_all) {
        die(STATUS_USAGE, "all %" PRIu64 " slots are taken", slots_all);
    }
    return &slots[slots_used++];
}

/* Whatever led to the slot must be durably gone. */
static inline void give_slot(void *slot)
{
    free_list[free_count++] = slot;
}

static inline void begin_check(uint64_t slot_count)
{
    claimed = ordinary(slot_count, 1);
}

/* A pointer of the pool, which must be to a slot. */
static inline void *check_pointer(const void *pointer)
{
    const uintptr_t distance = (uintptr_t)pointer - (uintptr_t)slots;
    if ((uintptr_t)pointer < (uintptr_t)slots || distance / sizeof(struct slot) >= slots_all ||
        distance % sizeof(struct slot) != 0) {
        die(STATUS_WRONG, "a pointer is %p, which is no slot", pointer);
    }
    return (struct slot *)slots + distance / sizeof(struct slot);
}

/* The same; and nothing has led to the slot before. */
static inline void *claim(const void *pointer)
{
    struct slot *slot = check_pointer(pointer);
    if (claimed[slot - slots] != 0) {
        die(STATUS_WRONG, "two pointers lead to slot %td", slot - slots);
    }
    claimed[slot - slots] = 1;
    return slot;
}

/* All slots are free but those that were claimed since begin_check. */
static inline void find_free_slots(void)
{
    free_list = ordinary(slots_all, sizeof *free_list);
    slots_used = slots_all;
    while (slots_used > 0 && claimed[slots_used - 1] == 0) {
        slots_used--;
    }
    for (uint64_t index = slots_used; index-- > 0;) {
        if (claimed[index] == 0) {
            give_slot(&slots[index]);
        }
    }
    free(claimed);
}

/* ---- Acknowledgements ------------------------------------------------------------------------- */

/* Tells the outside world, which survives, that `done` operations of the stream are done: whoever was
   told so may rely on them. */
static inline void tell(uint64_t stream, uint64_t done)
{
    pool->acknowledged[stream].word = done;
    perdure_block_flush(&pool->acknowledged[stream]);
    perdure_persist_fence_full();
}

/* It is told of every `interval`-th, of the `last`, and of those that recovery finds. */
static inline void acknowledge(uint64_t interval, uint64_t stream, uint64_t done, uint64_t last)
{
    if (interval != 0 && (done % interval == 0 || done == last)) {
        tell(stream, done);
    }
}

#endif
