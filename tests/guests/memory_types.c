/*
 * End-to-end test: mappings of every memory type, stored to and loaded from by two threads.
 *
 *   memory_types [ROUNDS]      default 3
 *
 * Always true: what a thread stores it sees at once, and the other one behind a fence, whatever the
 * types of the mappings through which they look; atomics lose nothing on any. qemu does not know the
 * types.
 */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>

#include "perdure.h"

enum { TYPES = 4, BYTES = 8192, COUNTS = 50 };

static const int flags[TYPES] = {0, PERDURE_MAP_WRITE_THROUGH, PERDURE_MAP_UNCACHED,
                                 PERDURE_MAP_WRITE_COMBINING};
static const char *const names[TYPES] = {"write-back", "write-through", "uncached",
                                         "write-combining"};

/* The same memory once for each type: each thread has a half, and behind them are counters. */
static unsigned char *views[TYPES];
static pthread_barrier_t barrier;
static _Atomic long wrong;
static unsigned long rounds = 3;

static uint64_t value_of(int thread, unsigned long turn, size_t at)
{
    return (turn * 31 + 7) * 0x9e3779b97f4a7c15 ^ ((uint64_t)thread << 60) ^ at * 0x10001;
}

/* Stores of all widths, aligned or not, also across lines. */
static void fill(volatile unsigned char *bytes, int thread, unsigned long turn)
{
    size_t at = turn % 3;
    while (at + 8 < 1024) {
        const uint64_t value = value_of(thread, turn, at);
        switch (at % 5) {
        case 0:
            *(volatile uint64_t *)(bytes + at) = value;
            at += 8;
            break;
        case 1:
            *(volatile uint32_t *)(bytes + at) = (uint32_t)value;
            at += 4;
            break;
        case 2:
            *(volatile uint16_t *)(bytes + at) = (uint16_t)value;
            at += 2;
            break;
        case 3:
            perdure_movnt64((void *)(bytes + at), value);
            at += 8;
            break;
        default:
            bytes[at] = (unsigned char)value;
            at += 1;
        }
    }
    perdure_block_zero(bytes + 1024);
}

static long differ(const volatile unsigned char *bytes, int thread, unsigned long turn)
{
    long found = 0;
    size_t at = turn % 3;
    while (at + 8 < 1024) {
        const uint64_t value = value_of(thread, turn, at);
        const size_t width = (const unsigned char[]){8, 4, 2, 8, 1}[at % 5];
        for (size_t byte = 0; byte < width; byte++) {
            found += bytes[at + byte] != (unsigned char)(value >> 8 * byte);
        }
        found += width == 8 && *(const volatile uint64_t *)(bytes + at) != value;
        at += width;
    }
    for (at = 1024; at < 1024 + 64; at++) {
        found += bytes[at] != 0;
    }
    return found;
}

static void count(int view)
{
    _Atomic uint64_t *const counters = (_Atomic uint64_t *)(views[view] + 4096);
    for (int times = 0; times < COUNTS; times++) {
        atomic_fetch_add(&counters[0], 1);
        uint64_t old = atomic_load(&counters[9]);
        while (!atomic_compare_exchange_weak(&counters[9], &old, old + 2)) {
        }
        atomic_fetch_xor((_Atomic uint32_t *)&counters[17], 1u << times % 32);
    }
}

static void *thread(void *argument)
{
    const int own = *(int *)argument, other = 1 - own;
    for (unsigned long turn = 0; turn < rounds * TYPES * TYPES; turn++) {
        const int stores = (int)(turn % TYPES), loads = (int)(turn / TYPES % TYPES);
        fill(views[stores] + 2048 * own, own, turn);
        wrong += differ(views[stores] + 2048 * own, own, turn);
        perdure_mfence();
        wrong += differ(views[loads] + 2048 * own, own, turn);
        pthread_barrier_wait(&barrier);
        wrong += differ(views[loads] + 2048 * other, other, turn);
        count(own ? loads : stores);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

static uint64_t cycle(void)
{
    uint64_t now;
    __asm__ volatile("rdcycle %0" : "=r"(now) : : "memory");
    return now;
}

/* The second of two loads from one place waits for memory. */
static int is_slow(int view)
{
    const volatile uint64_t *const word = (const volatile uint64_t *)(views[view] + 6144);
    uint64_t least = UINT64_MAX;
    for (int times = 0; times < 8; times++) {
        (void)*word;
        const uint64_t before = cycle();
        (void)*word;
        const uint64_t took = cycle() - before;
        least = took < least ? took : least;
    }
    return least > 30;
}

static void *map(int protection, int more)
{
    return mmap(NULL, BYTES, protection, more, -1, 0);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        rounds = strtoul(argv[1], NULL, 10);
    }
    const int both = PROT_READ | PROT_WRITE, anonymous = MAP_PRIVATE | MAP_ANONYMOUS;
    EXPECT(map(both, anonymous | PERDURE_MAP_UNCACHED | PERDURE_MAP_WRITE_COMBINING) == MAP_FAILED
           && errno == EINVAL);
    EXPECT(map(both, anonymous | PERDURE_MAP_UNCACHED | PERDURE_MAP_WRITE_THROUGH) == MAP_FAILED
           && errno == EINVAL);
    const int file = memfd_create("views", 0);
    if (file < 0 || ftruncate(file, BYTES) != 0) {
        fail("memfd_create");
    }
    for (int type = 0; type < TYPES; type++) {
        const int shared = type % 2 ? MAP_SHARED : MAP_SHARED_VALIDATE;
        views[type] = mmap(NULL, BYTES, both, shared | flags[type], file, 0);
        if (views[type] == MAP_FAILED) {
            fail("mmap");
        }
    }
    pthread_t second;
    int numbers[2] = {0, 1};
    if (pthread_barrier_init(&barrier, NULL, 2) != 0) {
        fail("pthread_create");
    }
    if (pthread_create(&second, NULL, thread, &numbers[1]) != 0) {
        fail("pthread_create");
    }
    thread(&numbers[0]);
    pthread_join(second, NULL);
    printf("%lu rounds, %ld bytes wrong\n", rounds, wrong);
    const uint64_t *const counters = (const uint64_t *)(views[0] + 4096);
    const uint64_t counted = 2 * COUNTS * rounds * TYPES * TYPES;
    EXPECT(counters[0] == counted);
    EXPECT(counters[9] == 2 * counted);
    EXPECT(counters[17] == 0);

    /* The type stays with the mapping, and the kernel sees what was stored and is seen. */
    for (int type = 0; type < TYPES; type++) {
        unsigned char *view = views[type];
        if (mprotect(view, BYTES, PROT_READ) != 0 || mprotect(view, BYTES, both) != 0) {
            fail("mprotect");
        }
        view = mremap(view, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED,
                      (char *)0x2000000000 + type * 0x100000);
        views[type] = view;
        int ends[2];
        if (view == MAP_FAILED || pipe(ends) != 0) {
            fail("mremap");
        }
        view[7000] = (unsigned char)(type + 100);
        const int written = write(ends[1], view + 7000, 1) == 1;
        const int read_back = read(ends[0], view + 7001, 1) == 1;
        printf("%s: %s to load, through the kernel %d\n", names[type],
               is_slow(type) ? "slow" : "quick", written && read_back ? view[7001] : -1);
    }
    const pid_t child = make_child();
    if (child == 0) {
        views[2][7000] = 55;
        _exit(is_slow(3) ? 3 : 4);
    }
    int status;
    waitpid(child, &status, 0);
    printf("the child ended with %d and stored %d\n", WEXITSTATUS(status), views[1][7000]);

    /* Instructions are fetched from wherever they are. */
    uint32_t *const code = map(both | PROT_EXEC, anonymous | PERDURE_MAP_UNCACHED);
    if (code == MAP_FAILED) {
        fail("mmap");
    }
    code[0] = 0x02a00513; /* li a0, 42 */
    code[1] = 0x00008067; /* ret */
    __builtin___clear_cache((char *)code, (char *)(code + 2));
    int (*function)(void);
    memcpy(&function, &code, sizeof function);
    printf("code: %d\n", function());
    return wrong != 0;
}
