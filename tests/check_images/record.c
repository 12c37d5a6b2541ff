/*
 * Records what a program of workloads/check stores, flushes and fences, and starts it again on images of
 * its pool that a power cut may leave.
 *
 *   RECORD_POOL=FILE [RECORD_IMAGES=N RECORD_SEED=N [RECORD_KEEP=N]] PROGRAM /pmem/x OPTION...
 *
 * FILE is the pool, whatever path below /pmem is named. At its end the program draws moments of its
 * record, and for each an image: of every line any prefix of its stores, but not less than what a flush
 * had and a fence behind it has waited for. Each is put into FILE, and `PROGRAM /pmem/x --recover` runs.
 * The first that does not end with status 0 is told on standard output, with the moment and what it says:
 * `found: ...`; if there is none, `none of N`. With RECORD_KEEP, images are left beside FILE (FILE.0 and
 * so on), for lives after this one.
 *
 * The compiler calls __tsan_write* before each store (-fsanitize=thread, linked without its library), so
 * that what was stored is read at the next call. Always true: the record makes of the pool as it was the
 * pool as it is, or the program ends with status 99. One thread. Moments and prefixes follow from the
 * seed.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE_BYTES = 64, STATUS_INCOMPLETE = 99, SECONDS_MAX = 10, EARLY_EVENTS = 200 };

enum event_kind { STORE, FLUSH, FENCE };

struct event {
    enum event_kind kind;
    uint32_t offset, bytes;
    unsigned char content[8];
};

static struct event *events;
static size_t event_count, event_room;
static unsigned char *pool, *before, *image;
static size_t pool_bytes;
static bool recording;
/* The store that was announced, and whose bytes are not read yet. */
static unsigned char *announced;
static size_t announced_bytes;

/* ---- Recording -------------------------------------------------------------------------------- */

static void add(enum event_kind kind, const unsigned char *address, size_t bytes)
{
    if (!recording) {
        return;
    }
    if (event_count == event_room) {
        event_room = event_room == 0 ? 4096 : 2 * event_room;
        events = realloc(events, event_room * sizeof *events);
    }
    struct event *event = &events[event_count++];
    event->kind = kind;
    event->offset = (uint32_t)(address - pool);
    event->bytes = (uint32_t)bytes;
    memcpy(event->content, address, bytes);
}

/* Reads what was announced; long ones word by word. */
static void settle(void)
{
    for (size_t at = 0; at < announced_bytes; at += 8) {
        add(STORE, announced + at, announced_bytes - at < 8 ? announced_bytes - at : 8);
    }
    announced_bytes = 0;
}

static void announce(void *address, size_t bytes)
{
    unsigned char *start = address;
    settle();
    if (recording && start >= pool && start < pool + pool_bytes) {
        announced = start;
        announced_bytes = bytes;
    }
}

void record_flush(const volatile void *address)
{
    settle();
    add(FLUSH, (const unsigned char *)((uintptr_t)address & ~(uintptr_t)(LINE_BYTES - 1)), 0);
}

void record_fence(void)
{
    settle();
    add(FENCE, pool, 0);
}

void *record_memcpy(void *to, const void *from, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += 8) {
        const size_t piece = bytes - at < 8 ? bytes - at : 8;
        announce((char *)to + at, piece);
        memcpy((char *)to + at, (const char *)from + at, piece);
    }
    settle();
    return to;
}

void *record_memset(void *to, int byte, size_t bytes)
{
    unsigned char filled[8];
    memset(filled, byte, sizeof filled);
    for (size_t at = 0; at < bytes; at += 8) {
        record_memcpy((char *)to + at, filled, bytes - at < 8 ? bytes - at : 8);
    }
    return to;
}

char *record_strncpy(char *to, const char *from, size_t bytes)
{
    char *text = calloc(bytes + 1, 1);
    record_memcpy(to, strncpy(text, from, bytes), bytes);
    free(text);
    return to;
}

int record_open(const char *path, int flags, ...)
{
    (void)path;
    return open(getenv("RECORD_POOL"), flags, 0644);
}

void *record_mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset)
{
    pool = mmap(address, bytes, protection, flags, file, offset);
    pool_bytes = bytes;
    recording = getenv("RECORD_IMAGES") != NULL && pool != MAP_FAILED;
    if (recording) {
        before = malloc(bytes);
        memcpy(before, pool, bytes);
        alarm(SECONDS_MAX);
    }
    return pool;
}

/* ---- What the compiler calls ------------------------------------------------------------------ */

#define ACCESS(bytes)                                                                                        \
    void __tsan_read##bytes(void *address)                                                                   \
    {                                                                                                        \
        (void)address;                                                                                       \
    }                                                                                                        \
    void __tsan_write##bytes(void *address)                                                                  \
    {                                                                                                        \
        announce(address, bytes);                                                                            \
    }                                                                                                        \
    void __tsan_unaligned_read##bytes(void *address)                                                         \
    {                                                                                                        \
        (void)address;                                                                                       \
    }                                                                                                        \
    void __tsan_unaligned_write##bytes(void *address)                                                        \
    {                                                                                                        \
        announce(address, bytes);                                                                            \
    }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)

void __tsan_init(void)
{
}

void __tsan_func_entry(void *caller)
{
    (void)caller;
}

void __tsan_func_exit(void)
{
}

void __tsan_read_range(void *address, size_t bytes)
{
    (void)address;
    (void)bytes;
}

void __tsan_write_range(void *address, size_t bytes)
{
    announce(address, bytes);
}

uint64_t __tsan_atomic64_load(const volatile uint64_t *word, int order)
{
    (void)order;
    return *word;
}

void __tsan_atomic64_store(volatile uint64_t *word, uint64_t value, int order)
{
    (void)order;
    announce((void *)word, sizeof *word);
    *word = value;
    settle();
}

uint64_t __tsan_atomic64_fetch_sub(volatile uint64_t *word, uint64_t value, int order)
{
    const uint64_t old = *word;
    __tsan_atomic64_store(word, old - value, order);
    return old;
}

int __tsan_atomic64_compare_exchange_strong(volatile uint64_t *word, uint64_t *expected, uint64_t value,
                                            int order, int order_if_not)
{
    (void)order_if_not;
    if (*word != *expected) {
        *expected = *word;
        return 0;
    }
    __tsan_atomic64_store(word, value, order);
    return 1;
}

/* ---- Images ----------------------------------------------------------------------------------- */

static uint64_t random_state;

static uint64_t draw(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return below == 0 ? 0 : random_state % below;
}

static uint64_t number_from(const char *name)
{
    const char *text = getenv(name);
    return text == NULL ? 0 : strtoull(text, NULL, 10);
}

/* Which prefixes of lines' stores are kept: of each any, of each all or none, of one less, of one more. */
enum choice { ANY, ALL_OR_NONE, ONE_LESS, ONE_MORE, NONE, CHOICES };

/* How many stores of a line are kept, of `pending` that may be. */
static uint32_t kept(enum choice choice, bool is_picked, uint32_t pending)
{
    switch (choice) {
    case ANY:
        return (uint32_t)draw(pending + 1);
    case ALL_OR_NONE:
        return draw(2) == 0 ? 0 : pending;
    case ONE_LESS:
        return is_picked ? (uint32_t)draw(pending + 1) : pending;
    case ONE_MORE:
        return is_picked ? (uint32_t)draw(pending + 1) : 0;
    default:
        return 0;
    }
}

/* The pool as power that fails behind the first `moment` events may leave it. */
static void make_image(size_t moment, enum choice choice)
{
    const size_t lines = pool_bytes / LINE_BYTES;
    uint32_t *stored = calloc(lines, sizeof *stored), *flushed = calloc(lines, sizeof *flushed);
    uint32_t *kept_stores = calloc(lines, sizeof *kept_stores), *seen = calloc(lines, sizeof *seen);
    for (size_t i = 0; i < moment; i++) {
        const size_t line = events[i].offset / LINE_BYTES;
        if (events[i].kind == STORE) {
            stored[line]++;
        } else if (events[i].kind == FLUSH) {
            flushed[line] = stored[line];
        } else {
            memcpy(kept_stores, flushed, lines * sizeof *flushed);
        }
    }
    uint64_t pending = 0;
    for (size_t line = 0; line < lines; line++) {
        pending += stored[line] > kept_stores[line];
    }
    uint64_t picked = draw(pending);
    for (size_t line = 0; line < lines; line++) {
        if (stored[line] > kept_stores[line]) {
            kept_stores[line] += kept(choice, picked-- == 0, stored[line] - kept_stores[line]);
        }
    }
    memcpy(image, before, pool_bytes);
    for (size_t i = 0; i < moment; i++) {
        const size_t line = events[i].offset / LINE_BYTES;
        if (events[i].kind == STORE && seen[line]++ < kept_stores[line]) {
            memcpy(image + events[i].offset, events[i].content, events[i].bytes);
        }
    }
    free(stored);
    free(flushed);
    free(kept_stores);
    free(seen);
}

static void write_image(const char *path)
{
    const int file = open(path, O_RDWR | O_CREAT, 0644);
    if (file < 0 || pwrite(file, image, pool_bytes, 0) != (ssize_t)pool_bytes) {
        perror(path);
        _exit(2);
    }
    close(file);
}

/* Whether recovery is content with the image; if not, `said` is what it says. */
static bool recovers(char *said, size_t said_bytes)
{
    int ends[2];
    if (pipe(ends) != 0) {
        _exit(2);
    }
    const pid_t child = fork();
    if (child == 0) {
        unsetenv("RECORD_IMAGES");
        dup2(ends[1], STDERR_FILENO);
        dup2(ends[1], STDOUT_FILENO);
        alarm(SECONDS_MAX);
        execl("/proc/self/exe", "recover", "/pmem/x", "--recover", (char *)NULL);
        _exit(2);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t more; (more = read(ends[0], said + length, said_bytes - 1 - length)) > 0;) {
        length += (size_t)more;
    }
    said[length] = '\0';
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    return status == 0;
}

static void check_record(void)
{
    memcpy(image, before, pool_bytes);
    for (size_t i = 0; i < event_count; i++) {
        memcpy(image + events[i].offset, events[i].content, events[i].bytes);
    }
    if (memcmp(image, pool, pool_bytes) != 0) {
        fprintf(stderr, "the record is incomplete\n");
        _exit(STATUS_INCOMPLETE);
    }
}

/* Half of the moments of a life that goes on are early ones, in its recovery. */
static size_t draw_moment(void)
{
    const bool goes_on = before[0] != 0;
    const bool is_early = goes_on && event_count > EARLY_EVENTS && draw(2) == 0;
    return 1 + draw(is_early ? EARLY_EVENTS : event_count);
}

__attribute__((destructor)) static void try_images(void)
{
    settle();
    if (!recording || event_count == 0) {
        return;
    }
    recording = false;
    alarm(0);
    image = malloc(pool_bytes);
    check_record();
    const uint64_t images = number_from("RECORD_IMAGES"), keep = number_from("RECORD_KEEP");
    random_state = (number_from("RECORD_SEED") + 1) * UINT64_C(0x9e3779b97f4a7c15);
    const char *path = getenv("RECORD_POOL");
    char said[256], beside[4096];
    for (uint64_t i = 0; i < images; i++) {
        const size_t moment = draw_moment();
        make_image(moment, (enum choice)draw(CHOICES));
        if (i < keep) {
            snprintf(beside, sizeof beside, "%s.%llu", path, (unsigned long long)i);
            write_image(beside);
        }
        write_image(path);
        if (!recovers(said, sizeof said)) {
            printf("found: image %llu, behind event %zu of %zu: %s", (unsigned long long)i, moment, event_count,
                   said);
            fflush(stdout);
            _exit(0);
        }
    }
    printf("none of %llu\n", (unsigned long long)images);
    fflush(stdout);
    _exit(0);
}
