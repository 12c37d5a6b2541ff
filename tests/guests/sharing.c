/*
 * End-to-end test: memory shared between harts, by atomics, locks and plain ordered accesses.
 *
 *   sharing [THREADS [ROUNDS]]      default 8 threads, 1500 rounds
 *
 * Contended counters, true and false sharing, a spin lock from LR/SC, ticket locks, a ring
 * between a producer and a consumer, a lock-free stack, message passing and the
 * store-buffering pattern with fences. Always true: what is printed is fixed by the
 * arguments; an outcome that the memory model forbids is counted and ends the program with 1.
 */
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS_MAX = 64, LINE_BYTES = 64 };

static unsigned threads;
static unsigned rounds;
static unsigned forbidden; /* outcomes that must not be */

typedef void body_function(unsigned id);

struct worker {
    pthread_t thread;
    unsigned id;
    body_function *body;
};

static void *run_worker(void *argument)
{
    const struct worker *worker = argument;
    worker->body(worker->id);
    return NULL;
}

/* Runs the body on that many threads at once, and waits for all. */
static void run_threads(unsigned count, body_function *body)
{
    static struct worker workers[THREADS_MAX];
    for (unsigned i = 0; i < count; i++) {
        workers[i] = (struct worker){.id = i, .body = body};
        if (pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]) != 0) {
            fprintf(stderr, "sharing: thread %u could not be started\n", i);
            exit(2);
        }
    }
    for (unsigned i = 0; i < count; i++) {
        pthread_join(workers[i].thread, NULL);
    }
}

/* Waits a little: lets others run where there are more threads than harts. */
static void pause_briefly(unsigned *spins)
{
    if (++*spins % 64 == 0) {
        sched_yield();
    }
}

/* ---- One word, all kinds of atomic operation ---- */

static atomic_uint_fast64_t counter_add, counter_xor;
static atomic_uint counter_max, counter_narrow;

static void hammer(unsigned id)
{
    for (unsigned i = 0; i < rounds; i++) {
        atomic_fetch_add(&counter_add, id + 1);
        atomic_fetch_xor_explicit(&counter_xor, (uint64_t)1 << (id + i) % 64,
                                  memory_order_relaxed);
        atomic_fetch_sub(&counter_narrow, 1);
        unsigned seen = atomic_load(&counter_max);
        while (seen < i * threads + id &&
               !atomic_compare_exchange_weak(&counter_max, &seen, i * threads + id)) {
        }
    }
}

static void test_counters(void)
{
    run_threads(threads, hammer);
    printf("counters: add %" PRIuFAST64 ", xor %016" PRIxFAST64 ", narrow %u, max %u\n",
           counter_add, counter_xor, counter_narrow, counter_max);
}

/* ---- False sharing: each thread its own byte, all in a few lines ---- */

static volatile unsigned char own_bytes[THREADS_MAX * 4];

static void count_in_own_bytes(unsigned id)
{
    for (unsigned i = 0; i < rounds; i++) {
        for (unsigned part = 0; part < 4; part++) {
            own_bytes[part * THREADS_MAX + id]++;
        }
    }
}

static void test_false_sharing(void)
{
    run_threads(threads, count_in_own_bytes);
    unsigned right = 0;
    for (unsigned i = 0; i < THREADS_MAX * 4; i++) {
        const unsigned expected = i % THREADS_MAX < threads ? rounds % 256 : 0;
        right += own_bytes[i] == expected;
    }
    forbidden += right != THREADS_MAX * 4;
    printf("false sharing: %u of %d bytes right\n", right, THREADS_MAX * 4);
}

/* ---- A spin lock and a ticket lock around plain data over several lines ---- */

static atomic_flag spin_lock = ATOMIC_FLAG_INIT;
static atomic_uint ticket_next, ticket_served;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

struct guarded {
    uint64_t copies[32]; /* always equal while the lock is free */
};
static struct guarded by_spin, by_ticket, by_mutex;
static atomic_uint torn;

static void update(struct guarded *guarded)
{
    for (unsigned i = 0; i < 32; i += 5) {
        if (guarded->copies[i] != guarded->copies[31 - i]) {
            atomic_fetch_add(&torn, 1);
        }
    }
    for (unsigned i = 0; i < 32; i++) {
        guarded->copies[i]++;
    }
}

static void lock_and_update(unsigned id)
{
    unsigned spins = id;
    for (unsigned i = 0; i < rounds / 4; i++) {
        while (atomic_flag_test_and_set_explicit(&spin_lock, memory_order_acquire)) {
            pause_briefly(&spins);
        }
        update(&by_spin);
        atomic_flag_clear_explicit(&spin_lock, memory_order_release);

        const unsigned ticket = atomic_fetch_add(&ticket_next, 1);
        while (atomic_load_explicit(&ticket_served, memory_order_acquire) != ticket) {
            pause_briefly(&spins);
        }
        update(&by_ticket);
        atomic_store_explicit(&ticket_served, ticket + 1, memory_order_release);

        pthread_mutex_lock(&mutex);
        update(&by_mutex);
        pthread_mutex_unlock(&mutex);
    }
}

static void test_locks(void)
{
    run_threads(threads, lock_and_update);
    forbidden += torn != 0;
    printf("locks: spin %" PRIu64 ", ticket %" PRIu64 ", mutex %" PRIu64 ", torn %u\n",
           by_spin.copies[7], by_ticket.copies[7], by_mutex.copies[7], torn);
}

/* ---- A ring: one producer, one consumer, indices with acquire and release only ---- */

enum { RING_ENTRIES = 16 };
static struct {
    uint64_t payload[3];
} ring[RING_ENTRIES];
static _Alignas(LINE_BYTES) atomic_uint ring_head;
static _Alignas(LINE_BYTES) atomic_uint ring_tail;
static uint64_t ring_fold;
static unsigned ring_mixed;

static void produce_or_consume(unsigned id)
{
    unsigned spins = 0;
    for (unsigned i = 0; i < rounds * 2; i++) {
        if (id == 0) {
            while (i - atomic_load_explicit(&ring_tail, memory_order_acquire) == RING_ENTRIES) {
                pause_briefly(&spins);
            }
            for (unsigned word = 0; word < 3; word++) {
                ring[i % RING_ENTRIES].payload[word] = (uint64_t)i * (word + 1);
            }
            atomic_store_explicit(&ring_head, i + 1, memory_order_release);
        } else {
            while (atomic_load_explicit(&ring_head, memory_order_acquire) == i) {
                pause_briefly(&spins);
            }
            for (unsigned word = 0; word < 3; word++) {
                const uint64_t got = ring[i % RING_ENTRIES].payload[word];
                ring_mixed += got != (uint64_t)i * (word + 1);
                ring_fold = ring_fold * 31 + got;
            }
            atomic_store_explicit(&ring_tail, i + 1, memory_order_release);
        }
    }
}

static void test_ring(void)
{
    run_threads(2, produce_or_consume);
    forbidden += ring_mixed != 0;
    printf("ring: fold %016" PRIx64 ", mixed %u\n", ring_fold, ring_mixed);
}

/* ---- A lock-free stack; a tag beside the index keeps ABA away ---- */

enum { STACK_NODES_PER_THREAD = 8 };
static uint32_t stack_next[THREADS_MAX * STACK_NODES_PER_THREAD + 1]; /* 0: the end */
static atomic_uint_fast64_t stack_top; /* tag << 32 | index */
static atomic_uint_fast64_t stack_moved;

static void push(uint32_t index)
{
    uint64_t top = atomic_load(&stack_top);
    do {
        __atomic_store_n(&stack_next[index], (uint32_t)top, __ATOMIC_RELAXED);
    } while (!atomic_compare_exchange_weak(&stack_top, &top, ((top >> 32) + 1) << 32 | index));
}

static uint32_t pop(void)
{
    uint64_t top = atomic_load(&stack_top);
    uint64_t below;
    do {
        if ((uint32_t)top == 0) {
            return 0;
        }
        below = __atomic_load_n(&stack_next[(uint32_t)top], __ATOMIC_RELAXED);
    } while (!atomic_compare_exchange_weak(&stack_top, &top, ((top >> 32) + 1) << 32 | below));
    return (uint32_t)top;
}

static void push_and_pop(unsigned id)
{
    for (uint32_t i = 0; i < STACK_NODES_PER_THREAD; i++) {
        push(id * STACK_NODES_PER_THREAD + i + 1);
    }
    for (unsigned i = 0; i < rounds; i++) {
        const uint32_t index = pop();
        if (index != 0) {
            atomic_fetch_add(&stack_moved, 1);
            push(index);
        }
    }
}

static void test_stack(void)
{
    run_threads(threads, push_and_pop);
    unsigned nodes = 0;
    uint64_t sum = 0;
    for (uint32_t index; (index = pop()) != 0;) {
        sum += index;
        nodes++;
    }
    printf("stack: %u nodes, sum %" PRIu64 ", moved %" PRIuFAST64 "\n", nodes, sum, stack_moved);
}

/* ---- Litmus tests: outcomes that RVWMO forbids must never be seen ---- */

static pthread_barrier_t litmus_start;
static _Alignas(LINE_BYTES) atomic_uint litmus_x;
static _Alignas(LINE_BYTES) atomic_uint litmus_y;
static unsigned litmus_seen[2];
static unsigned litmus_forbidden;

/* Message passing: who sees the flag sees the data. Store buffering: not both see nothing. */
static void litmus(unsigned id)
{
    for (unsigned i = 1; i <= rounds / 10 + 1; i++) {
        pthread_barrier_wait(&litmus_start);
        if (id == 0) {
            atomic_store_explicit(&litmus_x, i, memory_order_relaxed);
            atomic_store_explicit(&litmus_y, i, memory_order_release);
        } else if (atomic_load_explicit(&litmus_y, memory_order_acquire) == i) {
            litmus_forbidden += atomic_load_explicit(&litmus_x, memory_order_relaxed) != i;
        }
        pthread_barrier_wait(&litmus_start);
        atomic_uint *const mine = id == 0 ? &litmus_x : &litmus_y;
        atomic_uint *const other = id == 0 ? &litmus_y : &litmus_x;
        atomic_store_explicit(mine, 0, memory_order_relaxed);
        pthread_barrier_wait(&litmus_start);
        atomic_store_explicit(mine, i, memory_order_relaxed);
        atomic_thread_fence(memory_order_seq_cst);
        litmus_seen[id] = atomic_load_explicit(other, memory_order_relaxed);
        pthread_barrier_wait(&litmus_start);
        if (id == 0) {
            litmus_forbidden += litmus_seen[0] == 0 && litmus_seen[1] == 0;
        }
        pthread_barrier_wait(&litmus_start);
    }
}

static void test_litmus(void)
{
    pthread_barrier_init(&litmus_start, NULL, 2);
    run_threads(2, litmus);
    forbidden += litmus_forbidden != 0;
    printf("litmus: %u forbidden outcomes\n", litmus_forbidden);
}

int main(int argc, char **argv)
{
    const int threads_wanted = argc > 1 ? atoi(argv[1]) : 8;
    const int rounds_wanted = argc > 2 ? atoi(argv[2]) : 1500;
    if (argc > 3 || threads_wanted < 1 || threads_wanted > THREADS_MAX || rounds_wanted < 1) {
        fprintf(stderr, "usage: sharing [THREADS (1 to %d) [ROUNDS]]\n", THREADS_MAX);
        return 2;
    }
    threads = (unsigned)threads_wanted;
    rounds = (unsigned)rounds_wanted;
    test_counters();
    test_false_sharing();
    test_locks();
    test_ring();
    test_stack();
    test_litmus();
    printf("sharing: %s\n", forbidden == 0 ? "done" : "FORBIDDEN OUTCOMES");
    return forbidden == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
