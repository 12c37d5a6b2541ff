/*
 * What the programs of workloads/check share: planted bugs, command line, flushes and fences, pool, slots.
 *
 * Each program keeps one structure in a pool, a file under /pmem that is mapped at one fixed address, so
 * that pointers in it stay good, and is correct; with `--bug NAME` it makes one mistake of those that it
 * lists with `--bugs`. The pool remembers the bug, so that recovery makes it, too. The status is 0, or 1 if
 * something is wrong, which standard error says, or 2 for a command line that cannot be.
 *
 * Always true of a correct program: an operation is durable when it ends, and failure-atomic. What is new is
 * made durable where nothing leads to yet, and then one store of 8 bytes lets it be seen, or a log holds what
 * has to change together. Where a slot is not said to be in use, which slots are free is known in ordinary
 * memory alone: what recovery does not reach is free.
 *
 * Where a bug is planted, the line that is to blame says so in a comment, `bug: its-name`; where a flush or a
 * fence is missing, so does the store whose order is lost, `store: its-name`. A flush writes a line back, a
 * fence waits for what was flushed: those of `--primitive`, by default clwb and sfence.
 *
 * A program defines PROGRAM, its name in quotes, and BUGS(BUG), a list of BUG(NAME, KIND, "what is wrong"),
 * before it includes run.h. Headers are C and C++.
 */
#ifndef PERDURE_CHECK_H
#define PERDURE_CHECK_H

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
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

#ifndef SLOT_BYTES
#define SLOT_BYTES 64
#endif

enum {
    STATUS_WRONG = 1, /* recovery or a check found what cannot be */
    STATUS_USAGE = 2, /* a command line that it does not take, or a pool that cannot be had */
    LINE_BYTES = 64,
    PAGE_BYTES = 4096,
    ROOTS = 4,
    THREADS_MAX = 4
};

/* Nothing else of a program lies near. */
#define POOL_ADDRESS ((uintptr_t)0x1000000000)
#define POOL_MAGIC UINT64_C(0x5055434b43454843)

/* Says on standard error why the program ends, and ends it; for any thread. */
__attribute__((noreturn, format(printf, 2, 3))) static inline void die(int status, const char *format, ...)
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

/* A permutation of the 64-bit numbers that looks random: the last steps of SplitMix64. */
static inline uint64_t mix(uint64_t number)
{
    number = (number ^ (number >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    number = (number ^ (number >> 27)) * UINT64_C(0x94d049bb133111eb);
    return number ^ (number >> 31);
}

/* ---- Planted bugs ----------------------------------------------------------------------------- */

enum kind {
    MISSING_FLUSH,           /* what is relied on stays in the caches */
    MISSING_FENCE,           /* a flush is not waited for before what relies on it */
    WRONG_ORDER,             /* flushed and fenced, but what leads somewhere before what is there */
    WRONG_LINE,              /* a flush of another line, or of the first of several */
    NON_ATOMIC_CHANGE,       /* two durable steps, as of a split or a merge, and a cut between */
    TORN_UPDATE,             /* more than 8 bytes that must be seen whole, and are written in place */
    RECOVERY_NOT_IDEMPOTENT, /* power fails in recovery, and the next one cannot do it */
    LEAK,                    /* in use, but nothing leads there */
    LOG_HEADER_NOT_FLUSHED,  /* what makes a log's entries count stays in the caches */
    READ_NOT_DURABLE,        /* a thread relies on what another has not made durable yet */
    ABA_AFTER_RECOVERY,      /* what is from before the cut is taken for what came after it */
    NOT_LOGGED,              /* changed in a transaction that does not know of it */
    SEMANTIC                 /* the steps: a commit before its data, a removal before its replacement */
};

static const char *const KIND_NAMES[] = {
    "missing-flush", "missing-fence", "wrong-order", "wrong-line", "non-atomic-change", "torn-update",
    "recovery-not-idempotent", "leak", "log-header-not-flushed", "read-not-durable", "aba-after-recovery",
    "not-logged", "semantic",
};

#define BUG_NUMBER(name, kind, what) name,
enum bug { CORRECT, BUGS(BUG_NUMBER) BUG_COUNT };
#undef BUG_NUMBER

struct bug_text {
    const char *name;
    enum kind kind;
    const char *what;
};

#define BUG_TEXT(name, kind, what) {#name, kind, what},
static const struct bug_text BUG_TEXTS[] = {{"CORRECT", SEMANTIC, ""}, BUGS(BUG_TEXT)};
#undef BUG_TEXT

static enum bug the_bug;

/* Whether this run makes the mistake. */
static inline bool planted(enum bug which)
{
    return the_bug == which;
}

/* The name as it is on the command line and in comments: node-not-flushed, of NODE_NOT_FLUSHED. */
static inline void bug_name(char name[LINE_BYTES], unsigned number)
{
    size_t i = 0;
    for (; BUG_TEXTS[number].name[i] != '\0'; i++) {
        const char letter = BUG_TEXTS[number].name[i];
        name[i] = letter == '_' ? '-' : (char)tolower((unsigned char)letter);
    }
    name[i] = '\0';
}

static inline uint64_t bug_named(const char *text)
{
    char name[LINE_BYTES];
    for (unsigned i = 1; i < BUG_COUNT; i++) {
        bug_name(name, i);
        if (strcmp(name, text) == 0) {
            return i;
        }
    }
    die(STATUS_USAGE, "--bug cannot be \"%s\"; --bugs lists what it can", text);
}

/* One line for each: name, kind and what is wrong, with tabs between. */
static inline void list_bugs(void)
{
    char name[LINE_BYTES];
    for (unsigned i = 1; i < BUG_COUNT; i++) {
        bug_name(name, i);
        printf("%s\t%s\t%s\n", name, KIND_NAMES[BUG_TEXTS[i].kind], BUG_TEXTS[i].what);
    }
}

/* ---- The command line ------------------------------------------------------------------------- */

/* What the pool was made for; only the same may be done with it. */
struct plan {
    uint64_t operations, seed, bug, threads;
};

enum mode { OPERATE, RECOVER, DUMP };

static const char *pool_path;
static const char *primitive_name = "clwb";
static enum mode mode;
static struct plan plan;

static inline void print_usage(FILE *out)
{
    fprintf(out,
            "usage: %s /pmem/POOL [--operations N] [--seed N] [--bug NAME] [--primitive NAME]%s\n"
            "       %s /pmem/POOL --recover | --dump\n"
            "       %s --bugs\n",
            PROGRAM, plan.threads > 1 ? " [--threads N]" : "", PROGRAM, PROGRAM);
}

static inline uint64_t number_of(const char *option, const char *text, uint64_t least, uint64_t most)
{
    char *end = NULL;
    errno = 0;
    const uint64_t number = isdigit((unsigned char)*text) ? strtoull(text, &end, 10) : 0;
    if (end == NULL || *end != '\0' || errno != 0 || number < least || number > most) {
        die(STATUS_USAGE, "%s is \"%s\", but must be a whole number from %" PRIu64 " to %" PRIu64, option,
            text, least, most);
    }
    return number;
}

/* An option that has a value. */
static inline void take_option(const char *word, const char *value)
{
    if (value == NULL) {
        die(STATUS_USAGE, "%s needs a value; --help says which", word);
    }
    if (strcmp(word, "--operations") == 0) {
        plan.operations = number_of(word, value, 1, OPERATIONS_MAX);
    } else if (strcmp(word, "--seed") == 0) {
        plan.seed = number_of(word, value, 0, UINT32_MAX);
    } else if (strcmp(word, "--threads") == 0) {
        plan.threads = number_of(word, value, 1, THREADS_MAX);
    } else if (strcmp(word, "--bug") == 0) {
        plan.bug = bug_named(value);
    } else {
        primitive_name = value;
    }
}

static inline void parse_options(int argc, char **argv)
{
    const bool threaded = plan.threads > 1;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (strcmp(word, "--help") == 0) {
            print_usage(stdout);
            exit(EXIT_SUCCESS);
        } else if (strcmp(word, "--bugs") == 0) {
            list_bugs();
            exit(EXIT_SUCCESS);
        } else if (strcmp(word, "--recover") == 0 || strcmp(word, "--dump") == 0) {
            mode = strcmp(word, "--dump") == 0 ? DUMP : RECOVER;
        } else if (strcmp(word, "--operations") == 0 || strcmp(word, "--seed") == 0 ||
                   strcmp(word, "--bug") == 0 || strcmp(word, "--primitive") == 0 ||
                   (threaded && strcmp(word, "--threads") == 0)) {
            take_option(word, argv[++i]);
        } else if (strncmp(word, "--", 2) != 0 && pool_path == NULL) {
            pool_path = word;
        } else {
            print_usage(stderr);
            die(STATUS_USAGE, "takes no \"%s\"", word);
        }
    }
    if (pool_path == NULL || strncmp(pool_path, "/pmem/", 6) != 0) {
        print_usage(stderr);
        die(STATUS_USAGE, "needs the path of its pool, below /pmem%s%s",
            pool_path == NULL ? "" : "; it is not ", pool_path == NULL ? "" : pool_path);
    }
}

/* ---- Flushes and fences ----------------------------------------------------------------------- */

static const struct perdure_primitive *primitive;

static inline void choose_primitive(void)
{
    primitive = perdure_primitive_named(primitive_name);
    if (primitive == NULL) {
        die(STATUS_USAGE, "--primitive cannot be \"%s\"; guest/perdure.h has the names", primitive_name);
    }
}

/* The line that holds the address. */
static inline void flush(const volatile void *address)
{
    primitive->flush(address);
}

static inline void flush_range(const volatile void *start, size_t bytes)
{
    perdure_flush_range(primitive, start, bytes);
}

static inline bool same_line(const void *first, const void *second)
{
    return (uintptr_t)first / LINE_BYTES == (uintptr_t)second / LINE_BYTES;
}

static inline void fence(void)
{
    primitive->fence();
    __asm__ volatile("" : : : "memory");
}

/* The line is durable behind this. */
static inline void persist(const volatile void *address)
{
    flush(address);
    fence();
}

/* The compiler leaves stores above before stores below: within a line, they become durable in that order. */
static inline void order_stores(void)
{
    __asm__ volatile("" : : : "memory");
}

/* ---- The pool --------------------------------------------------------------------------------- */

/* A line with one number in it. */
struct word_line {
    alignas(LINE_BYTES) uint64_t word;
};

/* What others were told of a thread: how many of its operations are done, and of each other thread the last
   value that it read. */
struct acknowledgement {
    alignas(LINE_BYTES) uint64_t done;
    uint64_t seen[THREADS_MAX];
};

/* The pool's first page. Slots follow, and then what the program has beside them. */
struct pool {
    alignas(LINE_BYTES) uint64_t magic; /* written last */
    char program[LINE_BYTES - sizeof(uint64_t)];
    alignas(LINE_BYTES) struct plan plan;
    struct acknowledgement acknowledged[THREADS_MAX];
    struct word_line root[ROOTS]; /* where the structure begins */
};

static_assert(sizeof(struct pool) <= PAGE_BYTES, "a pool's head is one page");

/* What a node of a structure lies in. */
struct slot {
    alignas(LINE_BYTES) unsigned char bytes[SLOT_BYTES];
};

static struct pool *const pool = (struct pool *)POOL_ADDRESS;
static struct slot *const slots = (struct slot *)(POOL_ADDRESS + PAGE_BYTES);
static uint64_t slots_all;

/* What lies behind the slots. */
static inline void *beside_slots(void)
{
    return slots + slots_all;
}

/* ---- Slots ------------------------------------------------------------------------------------ */

/* In ordinary memory: the free slots, and until operations begin those that recovery has reached. */
static struct slot **free_slots;
static uint64_t free_count;
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
    if (free_count == 0) {
        die(STATUS_USAGE, "all %" PRIu64 " slots are taken", slots_all);
    }
    return free_slots[--free_count];
}

/* Whatever led to the slot must be durably gone. */
static inline void give_slot(const void *slot)
{
    free_slots[free_count++] = (struct slot *)slots + ((struct slot *)slot - slots);
}

/* A pointer of the pool, which must be to a slot: the slot's number. */
static inline uint64_t check_slot(const void *pointer)
{
    const uintptr_t distance = (uintptr_t)pointer - (uintptr_t)slots;
    const uint64_t index = distance / sizeof(struct slot);
    if ((uintptr_t)pointer < (uintptr_t)slots || index >= slots_all || distance % sizeof(struct slot) != 0) {
        die(STATUS_WRONG, "a pointer is %p, which is no slot", pointer);
    }
    return index;
}

/* The same; and nothing has led to the slot before. */
static inline void *claim(const void *pointer)
{
    const uint64_t index = check_slot(pointer);
    if (claimed[index] != 0) {
        die(STATUS_WRONG, "two pointers lead to slot %" PRIu64, index);
    }
    claimed[index] = 1;
    return &slots[index];
}

/* All slots are free that were not claimed; the last one is taken first. */
static inline void find_free_slots(void)
{
    free_slots = (struct slot **)ordinary(slots_all, sizeof *free_slots);
    for (uint64_t index = slots_all; index-- > 0;) {
        if (claimed[index] == 0) {
            free_slots[free_count++] = &slots[index];
        }
    }
}

/* ---- Making and opening ----------------------------------------------------------------------- */

static inline void map_pool(int file, size_t bytes)
{
    void *place = mmap(pool, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
    if (place != (void *)pool) {
        die(STATUS_USAGE, "cannot map %s: %s", pool_path, strerror(errno));
    }
}

/* A file that is as long already is from a making that was cut short. */
static inline void clear_rest(size_t bytes)
{
    uint64_t *word = (uint64_t *)pool;
    for (size_t i = 0; i < bytes / sizeof *word; i++) {
        if (word[i] != 0) {
            word[i] = 0;
            flush(&word[i]);
        }
    }
}

/* Lays a new pool down, durably: a cut leaves it whole, or without its magic. */
static inline void make_pool(size_t bytes, void (*make)(void))
{
    clear_rest(bytes);
    make();
    strncpy(pool->program, PROGRAM, sizeof pool->program - 1);
    pool->plan = plan;
    flush(pool->program);
    flush(&pool->plan);
    fence();
    pool->magic = POOL_MAGIC;
    persist(&pool->magic);
}

static inline void check_program(void)
{
    if (strncmp(pool->program, PROGRAM, sizeof pool->program) != 0) {
        die(STATUS_USAGE, "%s is a pool of another program", pool_path);
    }
}

/* Opens the pool of the plan, or makes it: zeros, and what `make` writes there. */
static inline void open_pool(size_t bytes, void (*make)(void))
{
    const int file = open(pool_path, O_RDWR | O_CREAT, 0644);
    struct stat told;
    if (file < 0 || fstat(file, &told) != 0) {
        die(STATUS_USAGE, "cannot open %s: %s", pool_path, strerror(errno));
    }
    if ((size_t)told.st_size < bytes) {
        const int refusal = posix_fallocate(file, 0, (off_t)bytes);
        if (refusal != 0 || fsync(file) != 0) {
            die(STATUS_USAGE, "no room for %s: %s", pool_path, strerror(refusal));
        }
    }
    map_pool(file, bytes);
    close(file);
    if (pool->magic != POOL_MAGIC) {
        make_pool(bytes, make);
        return;
    }
    check_program();
    if (memcmp(&pool->plan, &plan, sizeof plan) != 0) {
        die(STATUS_USAGE, "%s was made with other options", pool_path);
    }
}

/* Opens a pool that is there, with its own plan. One whose making was cut short promises nothing. */
static inline void reopen_pool(void)
{
    const int file = open(pool_path, O_RDWR);
    struct stat told;
    if ((file < 0 && errno != ENOENT) || (file >= 0 && fstat(file, &told) != 0)) {
        die(STATUS_USAGE, "cannot open %s: %s", pool_path, strerror(errno));
    }
    if (file >= 0 && told.st_size >= PAGE_BYTES) {
        map_pool(file, (size_t)told.st_size);
        close(file);
        if (pool->magic == POOL_MAGIC) {
            check_program();
            plan = pool->plan;
            return;
        }
    }
    if (mode == RECOVER) {
        printf("%s: the pool was not made yet\n", PROGRAM);
    }
    exit(EXIT_SUCCESS);
}

#endif
