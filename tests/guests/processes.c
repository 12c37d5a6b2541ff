/*
 * End-to-end test: processes made by fork, the pipes between them, and what they share.
 *
 *   processes [CHILDREN [ROUNDS]]      default 6 children, 60 rounds
 *
 * A pipeline with a process for each stage; a merge sort in shared memory with a process for
 * each half; a ring of processes that pass a token under a process-shared lock; private memory
 * that parent and children change apart; exit statuses and deaths. Always true: what is printed
 * is fixed by the arguments, and each part says whether it found what it should.
 */
#include "check.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include "digest.h"

enum { CHILDREN_MAX = 32, BLOCK_BYTES = 3000 };

static unsigned children;
static unsigned rounds;

static void *shared_memory(size_t length)
{
    void *memory =
        mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        fail("processes: mmap");
    }
    return memory;
}

static void write_all(int descriptor, const void *data, size_t length)
{
    const char *bytes = data;
    while (length > 0) {
        ssize_t count = write(descriptor, bytes, length);
        if (count <= 0) {
            fail("processes: write");
        }
        bytes += count;
        length -= (size_t)count;
    }
}

static unsigned char source_byte(uint64_t index)
{
    return (unsigned char)(digest_add_word(DIGEST_EMPTY, index) >> 17);
}

/* What stage number `stage` makes of a byte. */
static unsigned char stage_byte(unsigned stage, unsigned char byte)
{
    return (unsigned char)((byte * 5U) ^ (stage * 29U + 3U));
}

/* Reads to the end of one descriptor, and writes what the stage makes of it to the other. */
static void run_stage(unsigned stage, int input, int output)
{
    unsigned char bytes[4096];
    for (;;) {
        ssize_t count = read(input, bytes, sizeof bytes);
        if (count < 0) {
            fail("processes: read");
        }
        if (count == 0) {
            return;
        }
        for (ssize_t i = 0; i < count; i++) {
            bytes[i] = stage_byte(stage, bytes[i]);
        }
        write_all(output, bytes, (size_t)count);
    }
}

static void pipeline(void)
{
    uint64_t length = (uint64_t)rounds * BLOCK_BYTES;
    int ends[2];
    if (pipe(ends) != 0) {
        fail("processes: pipe");
    }
    pid_t made[CHILDREN_MAX + 1];
    made[0] = make_child();
    if (made[0] == 0) {
        unsigned char block[BLOCK_BYTES];
        for (uint64_t at = 0; at < length; at += BLOCK_BYTES) {
            for (unsigned i = 0; i < BLOCK_BYTES; i++) {
                block[i] = source_byte(at + i);
            }
            write_all(ends[1], block, BLOCK_BYTES);
        }
        _exit(0);
    }
    close(ends[1]);
    int input = ends[0];
    for (unsigned stage = 0; stage < children; stage++) {
        if (pipe(ends) != 0) {
            fail("processes: pipe");
        }
        made[stage + 1] = make_child();
        if (made[stage + 1] == 0) {
            close(ends[0]);
            run_stage(stage, input, ends[1]);
            _exit((int)stage);
        }
        close(input);
        close(ends[1]);
        input = ends[0];
    }
    uint64_t digest = DIGEST_EMPTY;
    uint64_t count = 0;
    uint64_t wrong = 0;
    unsigned char bytes[1024];
    ssize_t got;
    while ((got = read(input, bytes, sizeof bytes)) > 0) {
        digest = digest_add(digest, bytes, (size_t)got);
        for (ssize_t i = 0; i < got; i++, count++) {
            unsigned char byte = source_byte(count);
            for (unsigned stage = 0; stage < children; stage++) {
                byte = stage_byte(stage, byte);
            }
            wrong += bytes[i] != byte;
        }
    }
    close(input);
    int statuses = 0;
    for (unsigned i = 0; i <= children; i++) {
        statuses += end_of(made[i]);
    }
    printf("pipeline: %" PRIu64 " bytes through %u stages, digest %016" PRIx64
           ", %" PRIu64 " wrong, statuses %d\n",
           count, children, digest, wrong, statuses);
}

/* Sorts with a process for each half, down to `depth` levels. */
static void sort(uint32_t *values, uint32_t *scratch, unsigned count, unsigned depth)
{
    if (count < 2) {
        return;
    }
    unsigned half = count / 2;
    pid_t child = depth > 0 ? make_child() : -1;
    if (child <= 0) {
        sort(values, scratch, half, depth > 0 ? depth - 1 : 0);
    }
    if (child == 0) {
        _exit(0);
    }
    sort(values + half, scratch + half, count - half, depth > 0 ? depth - 1 : 0);
    if (child > 0 && end_of(child) != 0) {
        fail("processes: a sorting child");
    }
    unsigned left = 0;
    unsigned right = half;
    for (unsigned i = 0; i < count; i++) {
        int from_left = right == count || (left < half && values[left] <= values[right]);
        scratch[i] = from_left ? values[left++] : values[right++];
    }
    memcpy(values, scratch, count * sizeof *values);
}

static void sorting(void)
{
    unsigned count = rounds * 100;
    uint32_t *values = shared_memory(2 * count * sizeof *values);
    uint64_t sum = 0;
    for (unsigned i = 0; i < count; i++) {
        values[i] = (uint32_t)digest_add_word(DIGEST_EMPTY, i);
        sum += values[i];
    }
    sort(values, values + count, count, 3);
    unsigned misplaced = 0;
    for (unsigned i = 0; i < count; i++) {
        misplaced += i > 0 && values[i - 1] > values[i];
        sum -= values[i];
    }
    printf("sorting: %u values, digest %016" PRIx64 ", %u misplaced, difference %" PRIu64 "\n",
           count, digest_add(DIGEST_EMPTY, values, count * sizeof *values), misplaced, sum);
    munmap(values, 2 * count * sizeof *values);
}

struct ring {
    pthread_mutex_t lock;
    pthread_cond_t turned;
    unsigned turn;
    uint64_t digest;
};

static void ring(void)
{
    struct ring *ring = shared_memory(sizeof *ring);
    pthread_mutexattr_t lock_kind;
    pthread_condattr_t turned_kind;
    pthread_mutexattr_init(&lock_kind);
    pthread_condattr_init(&turned_kind);
    pthread_mutexattr_setpshared(&lock_kind, PTHREAD_PROCESS_SHARED);
    pthread_condattr_setpshared(&turned_kind, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&ring->lock, &lock_kind);
    pthread_cond_init(&ring->turned, &turned_kind);
    ring->digest = DIGEST_EMPTY;
    for (unsigned id = 0; id < children; id++) {
        if (make_child() != 0) {
            continue;
        }
        for (unsigned round = 0; round < rounds; round++) {
            pthread_mutex_lock(&ring->lock);
            while (ring->turn % children != id) {
                pthread_cond_wait(&ring->turned, &ring->lock);
            }
            ring->digest = digest_add_word(ring->digest, ring->turn * 100U + id);
            ring->turn++;
            pthread_cond_broadcast(&ring->turned);
            pthread_mutex_unlock(&ring->lock);
        }
        _exit(0);
    }
    unsigned ended = 0;
    int status;
    while (wait(&status) > 0) {
        ended += status == 0;
    }
    uint64_t expected = DIGEST_EMPTY;
    for (unsigned turn = 0; turn < children * rounds; turn++) {
        expected = digest_add_word(expected, turn * 100U + turn % children);
    }
    printf("ring: %u of %u ended well, %u turns, %s\n", ended, children, ring->turn,
           ring->digest == expected ? "in order" : "OUT OF ORDER");
    munmap(ring, sizeof *ring);
}

/* Everybody changes private memory; nobody sees another's changes. */
static void private_memory(void)
{
    enum { WORDS = 40000 };
    static uint64_t words[WORDS];
    int ends[2];
    if (pipe(ends) != 0) {
        fail("processes: pipe");
    }
    for (unsigned i = 0; i < WORDS; i++) {
        words[i] = i;
    }
    pid_t made[CHILDREN_MAX];
    for (unsigned id = 0; id < children; id++) {
        made[id] = make_child();
        if (made[id] == 0) {
            for (unsigned i = id; i < WORDS; i += children) {
                words[i] ^= UINT64_C(0x0101010101010101) * (id + 1);
            }
            uint64_t answer[2] = {id, digest_add(DIGEST_EMPTY, words, sizeof words)};
            write_all(ends[1], answer, sizeof answer);
            _exit(0);
        }
        /* The later children are copies of this. */
        words[id] += 1000;
    }
    uint64_t digests[CHILDREN_MAX];
    for (unsigned i = 0; i < children; i++) {
        uint64_t answer[2];
        if (read(ends[0], answer, sizeof answer) != sizeof answer || answer[0] >= children) {
            fail("processes: read");
        }
        digests[answer[0]] = answer[1];
    }
    for (unsigned id = 0; id < children; id++) {
        end_of(made[id]);
    }
    close(ends[0]);
    close(ends[1]);
    unsigned wrong = 0;
    for (unsigned i = 0; i < WORDS; i++) {
        wrong += words[i] != i + (i < children ? 1000U : 0U);
    }
    printf("private memory: digest %016" PRIx64 ", %u words wrong\n",
           digest_add(DIGEST_EMPTY, digests, children * sizeof *digests), wrong);
}

static volatile sig_atomic_t signals;

static void count_signal(int signal)
{
    (void)signal;
    signals++;
}

static void ends(void)
{
    struct sigaction action = {.sa_handler = count_signal};
    sigaction(SIGUSR1, &action, NULL);
    sigset_t blocked;
    sigset_t open;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, &open);
    int sum = 0;
    pid_t own = getpid();
    for (unsigned round = 0; round < rounds; round++) {
        pid_t child = make_child();
        if (child == 0) {
            kill(own, SIGUSR1);
            switch (round % 4) {
            case 0:
                _exit((int)(round % 200));
            case 1:
                raise(SIGTERM);
                break;
            case 2:
                abort();
            default:
                for (;;) {
                    pause();
                }
            }
            _exit(99);
        }
        sigsuspend(&open);
        if (round % 4 == 3) {
            kill(child, SIGKILL);
        }
        sum = sum * 3 + end_of(child);
        sum %= 1000003;
    }
    printf("ends: %d signals, statuses fold to %d\n", (int)signals, sum);
}

int main(int count, char **arguments)
{
    children = count > 1 ? (unsigned)strtoul(arguments[1], NULL, 10) : 6;
    rounds = count > 2 ? (unsigned)strtoul(arguments[2], NULL, 10) : 60;
    if (children < 1 || children > CHILDREN_MAX || rounds < 1) {
        fprintf(stderr, "usage: processes [CHILDREN (1 to %d) [ROUNDS]]\n", CHILDREN_MAX);
        return 2;
    }
    pipeline();
    sorting();
    ring();
    private_memory();
    ends();
    puts("processes: done");
    return 0;
}
