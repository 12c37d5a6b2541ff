/* Words that are handed from owner to owner: owners that end, rings of owners, and who may wake whom.
 * mutexes.txt has the facts as Linux states them (qemu-user leaves much of this to its host, or out). */
#include "facts.h"
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <sys/wait.h>

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

static const uint32_t OWNER = FUTEX_TID_MASK, FLAGS = ~FUTEX_TID_MASK;

/* Words of this process, and words that processes share. */
static uint32_t words[8];
static struct shared {
    uint32_t word, other;
    int held, waits;
    struct robust_list_head list;
    struct robust_list entry;
} *shared;

static long futex(void *word, int operation, uint32_t value, int64_t more, void *second,
                  uint32_t third)
{
    return syscall(SYS_futex, word, operation, value, more, second, third);
}

static long lock(uint32_t *word) { return futex(word, FUTEX_LOCK_PI, 0, 0, NULL, 0); }
static long unlock(uint32_t *word) { return futex(word, FUTEX_UNLOCK_PI, 0, 0, NULL, 0); }
static long wake(void *word, int count) { return futex(word, FUTEX_WAKE, count, 0, NULL, 0); }

static void show_flags(uint32_t word) { printf("flags %x\n", word & FLAGS); }

/* Until what a file of /proc is about sleeps. */
static void let_sleep(const char *path)
{
    for (;; sched_yield()) {
        char text[512] = "";
        int file = open(path, O_RDONLY);
        long bytes = read(file, text, sizeof text - 1);
        close(file);
        char *name = bytes > 0 ? strrchr(text, ')') : NULL;
        if (name && name[2] == 'S')
            return;
    }
}

static void until(int *flag)
{
    while (!__atomic_load_n(flag, __ATOMIC_SEQ_CST))
        sched_yield();
}

static void set(int *flag) { __atomic_store_n(flag, 1, __ATOMIC_SEQ_CST); }

enum { SEVERAL = -1 };

/* A thread that makes calls, one after the other. */
struct call {
    void *word;
    int operation;
    uint32_t value;
    void *second;
};
static struct thread {
    struct call calls[8];
    int results[8];
    pthread_t id;
    int number, began;
} threads[8];

static void *run(void *argument)
{
    struct thread *own = argument;
    own->number = gettid();
    set(&own->began);
    for (int at = 0; own->calls[at].word; at++) {
        struct call *call = &own->calls[at];
        long result = call->operation == SEVERAL
            ? syscall(SYS_futex_waitv, call->second, call->value, 0, NULL, 0)
            : futex(call->word, call->operation, call->value, 0, call->second, 0);
        own->results[at] = result < 0 ? -errno : result;
    }
    return NULL;
}

static void let_thread_sleep(int index)
{
    char path[64];
    until(&threads[index].began);
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", threads[index].number);
    let_sleep(path);
}

static void start(int index, const struct call *calls)
{
    struct thread *thread = &threads[index];
    memset(thread, 0, sizeof *thread);
    for (int at = 0; calls[at].word; at++)
        thread->calls[at] = calls[at];
    pthread_create(&thread->id, NULL, run, thread);
    let_thread_sleep(index);
    /* Linux says that it sleeps before it stands at the first one of several words. */
    struct timespec time = {0, thread->calls[0].operation == SEVERAL ? 20000000 : 0};
    nanosleep(&time, NULL);
}

/* Starts a thread that makes these calls, and waits until it sleeps in one of them. */
#define START(index, ...) start(index, (struct call[]){__VA_ARGS__, {0}})
#define LOCK(word) {word, FUTEX_LOCK_PI, 0, NULL}
#define UNLOCK(word) {word, FUTEX_UNLOCK_PI, 0, NULL}
#define WAIT(word) {word, FUTEX_WAIT, 0, NULL}
#define WAIT_PRIVATE(word) {word, FUTEX_WAIT_PRIVATE, 0, NULL}
#define WAIT_TO_MOVE(word, to) {word, FUTEX_WAIT_REQUEUE_PI, 0, to}

static int owns(int index, uint32_t word) { return (word & OWNER) == (uint32_t)threads[index].number; }

/* What the calls of a thread returned. */
static void end(int index)
{
    pthread_join(threads[index].id, NULL);
    printf("thread %d:", index);
    for (int at = 0; threads[index].calls[at].word; at++)
        printf(" %d", threads[index].results[at]);
    printf("\n");
}

/* Threads end that have words: each goes to who waited first, as often as it takes. */
static void owners_that_are_threads(void)
{
    START(0, LOCK(&words[0]), LOCK(&words[1]), WAIT(&words[2]));
    START(1, LOCK(&words[0]));
    START(2, LOCK(&words[1]), WAIT(&words[3]));
    START(3, LOCK(&words[0]));
    CALL(wake(&words[2], 1));
    end(0);
    end(1);
    end(3);
    /* Nobody waited when the last one ended. */
    FACT(owns(3, words[0]));
    show_flags(words[0]);
    let_thread_sleep(2);
    FACT(owns(2, words[1]));
    show_flags(words[1]);
    CALL(wake(&words[3], 1));
    end(2);
    /* An owner that there is no more. */
    words[0] &= OWNER;
    CALL(lock(&words[0]));
    show_flags(words[0]);
    words[0] &= OWNER;
    CALL(futex(&words[0], FUTEX_TRYLOCK_PI, 0, 0, NULL, 0));
    show_flags(words[0]);
    memset(words, 0, sizeof words);
    /* Whoever was moved to a word gets it as others do. */
    START(0, LOCK(&words[0]), WAIT(&words[2]));
    START(1, WAIT_TO_MOVE(&words[1], &words[0]));
    CALL(futex(&words[1], FUTEX_CMP_REQUEUE_PI, 1, 0, &words[0], 0));
    CALL(wake(&words[2], 1));
    end(0);
    end(1);
    FACT(owns(1, words[0]));
    show_flags(words[0]);
    memset(words, 0, sizeof words);
}

enum way { EXITS, IS_KILLED, EXECUTES, HAS_A_LIST };

static void take_and_end(enum way way)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/stat", getppid());
    lock(&shared->word);
    if (way == HAS_A_LIST) {
        struct robust_list *entry = (void *)((uintptr_t)&shared->entry | 1);
        long offset = offsetof(struct shared, word) - offsetof(struct shared, entry);
        shared->list = (struct robust_list_head){{entry}, offset, NULL};
        shared->entry.next = &shared->list.list;
        syscall(SYS_set_robust_list, &shared->list, sizeof shared->list);
    }
    /* The C library gives every thread a list. */
    if (way == EXITS)
        syscall(SYS_set_robust_list, NULL, sizeof shared->list);
    set(&shared->held);
    until(&shared->waits);
    let_sleep(path);
    if (way == IS_KILLED)
        kill(getpid(), SIGKILL);
    if (way == EXECUTES)
        execl("/proc/self/exe", "mutexes", "waits", NULL);
    _exit(0);
}

/* A child takes a word, and ends once its parent waits for it. */
static void owner_that_is_a_process(enum way way)
{
    memset(shared, 0, sizeof *shared);
    int child = fork();
    if (child == 0)
        take_and_end(way);
    until(&shared->held);
    set(&shared->waits);
    CALL(lock(&shared->word));
    FACT((shared->word & OWNER) == (uint32_t)gettid());
    show_flags(shared->word);
    if (way == EXECUTES)
        kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    CALL(unlock(&shared->word));
    FACT(shared->word);
}

/* Owners that would wait for themselves. */
static void rings(void)
{
    CALL(lock(&words[0]));
    START(0, LOCK(&words[1]), LOCK(&words[0]), UNLOCK(&words[0]), UNLOCK(&words[1]));
    CALL(lock(&words[1]));
    show_flags(words[1]);
    START(1, LOCK(&words[2]), LOCK(&words[1]), UNLOCK(&words[1]), UNLOCK(&words[2]));
    CALL(lock(&words[2]));
    CALL(futex(&words[2], FUTEX_LOCK_PI2, 0, 0, NULL, 0));
    /* Who does not wait is in no ring. */
    words[2] &= OWNER;
    CALL(futex(&words[2], FUTEX_TRYLOCK_PI, 0, 0, NULL, 0));
    CALL(unlock(&words[0]));
    end(0);
    end(1);
    memset(words, 0, sizeof words);
}

/* The same among those that are moved; who is not stays where it is, for good. */
static void rings_of_the_moved(void)
{
    /* Of two the second one has what the owner waits for. */
    START(0, LOCK(&words[1]), WAIT(&words[3]), WAIT_TO_MOVE(&words[2], &words[0]));
    START(1, LOCK(&words[0]), LOCK(&words[1]));
    START(2, WAIT_TO_MOVE(&words[2], &words[0]));
    CALL(wake(&words[3], 1));
    let_thread_sleep(0);
    CALL(futex(&words[2], FUTEX_CMP_REQUEUE_PI, 1, 9, &words[0], 0));
    FACT(owns(1, words[0]));
    show_flags(words[0]);
    CALL(futex(&words[2], FUTEX_CMP_REQUEUE_PI, 1, 9, &words[0], 0));
    /* The first one has the word itself. */
    START(3, LOCK(&words[4]), WAIT_TO_MOVE(&words[5], &words[4]));
    CALL(futex(&words[5], FUTEX_CMP_REQUEUE_PI, 1, 9, &words[4], 0));
    show_flags(words[4]);
    /* An owner that there is not. */
    START(4, WAIT_TO_MOVE(&words[6], &words[7]));
    words[7] = OWNER;
    CALL(futex(&words[6], FUTEX_CMP_REQUEUE_PI, 1, 9, &words[7], 0));
    show_flags(words[7]);
}

#define OPERATION FUTEX_OP(FUTEX_OP_ADD, 3, FUTEX_OP_CMP_GE, 0)

/* As many as are asked for, but one at least; who has said that a word is private only meets such. */
static void who_is_woken(void)
{
    uint32_t *word = &words[0], *other = &words[1];
    for (int index = 0; index < 7; index++)
        START(index, WAIT(word));
    CALL(wake(word, 0));
    CALL(wake(word, -1));
    CALL(futex(word, FUTEX_WAKE_OP, 0, -1, other, OPERATION));
    CALL(futex(word, FUTEX_WAKE_OP, -5, 0, other, OPERATION));
    FACT(*other);
    CALL(futex(word, FUTEX_REQUEUE, -1, 1, other, 0));
    CALL(futex(word, FUTEX_REQUEUE, 0, 1, other, 0));
    CALL(futex(word, FUTEX_REQUEUE, 1, 1, other, 0));
    CALL(wake(word, 9));
    CALL(wake(other, 9));
    for (int index = 0; index < 7; index++)
        end(index);
    *other = 0;
    /* What there is not as a comparison is done all the same. */
    CALL(futex(word, FUTEX_WAKE_OP, 1, 1, other, FUTEX_OP(FUTEX_OP_ADD, 3, 9, 0)));
    CALL(futex(word, FUTEX_WAKE_OP, 1, 1, other, FUTEX_OP(7, 3, FUTEX_OP_CMP_GE, 0)));
    FACT(*other);
    *other = 0;

    START(0, WAIT_PRIVATE(word));
    START(1, WAIT(word));
    START(2, WAIT_PRIVATE(word));
    CALL(wake(word, 9));
    CALL(futex(word, FUTEX_REQUEUE, 9, 9, other, 0));
    CALL(futex(word, FUTEX_REQUEUE_PRIVATE, 1, 9, other, 0));
    CALL(wake(other, 9));
    CALL(futex(other, FUTEX_WAKE_PRIVATE, 9, 0, NULL, 0));
    START(3, WAIT_PRIVATE(&shared->word));
    START(4, WAIT(&shared->word));
    CALL(futex(&shared->word, FUTEX_WAKE_PRIVATE, 9, 0, NULL, 0));
    CALL(wake(&shared->word, 9));
    for (int index = 0; index < 5; index++)
        end(index);

    struct waiter {
        uint64_t value, address;
        uint32_t flags, reserved;
    } list[] = {{0, (uintptr_t)word, 2 | 128, 0}, {0, (uintptr_t)other, 2, 0}};
    struct call several = {word, SEVERAL, 2, list};
    START(0, several);
    CALL(wake(word, 9));
    CALL(futex(other, FUTEX_WAKE_PRIVATE, 9, 0, NULL, 0));
    CALL(wake(other, 9));
    START(1, several);
    CALL(futex(word, FUTEX_WAKE_PRIVATE, 9, 0, NULL, 0));
    START(2, several);
    CALL(futex(other, FUTEX_REQUEUE, 0, 1, word, 0));
    CALL(wake(other, 9));
    CALL(wake(word, 9));
    for (int index = 0; index < 3; index++)
        end(index);
    list[0].value = 1ull << 32;
    CALL(syscall(SYS_futex_waitv, list, 2, 0, NULL, 0));
    list[0].value = 1;
    list[1].address++;
    CALL(syscall(SYS_futex_waitv, list, 2, 0, NULL, 0));
}

/* Nobody is woken who waits to be given a word. */
static void who_is_not_woken(void)
{
    uint32_t *word = &words[0], *other = &words[1];
    CALL(lock(word));
    START(0, LOCK(word), UNLOCK(word));
    START(1, WAIT_TO_MOVE(other, word), UNLOCK(word));
    for (int index = 0; index < 2; index++) {
        CALL(wake(&words[index], 1));
        CALL(futex(&words[index], FUTEX_WAKE_BITSET, 1, 0, NULL, 4));
        CALL(futex(&words[index], FUTEX_REQUEUE, 1, 1, &words[2], 0));
        CALL(futex(&words[index], FUTEX_REQUEUE, 0, 0, &words[2], 0));
        CALL(futex(&words[index], FUTEX_WAKE_OP, 1, 1, &words[3], OPERATION));
        CALL(futex(&words[4], FUTEX_WAKE_OP, 1, 1, &words[index],
                   FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_NE, 7)));
    }
    FACT(words[3]);
    CALL(futex(other, FUTEX_CMP_REQUEUE_PI, 1, 1, word, 0));
    CALL(unlock(word));
    end(0);
    end(1);
    /* Nor is a word given that others only wait for. */
    CALL(lock(word));
    *other = *word;
    START(0, WAIT(&words[2]));
    START(1, WAIT_TO_MOVE(&words[4], word), UNLOCK(word));
    CALL(futex(&words[2], FUTEX_REQUEUE, 0, 1, word, 0));
    CALL(unlock(word));
    CALL(futex(&words[4], FUTEX_CMP_REQUEUE_PI, 1, 1, word, 0));
    *word = 0;
    CALL(lock(word));
    CALL(wake(word, 1));
    end(0);
    *word = *other;
    CALL(futex(&words[4], FUTEX_CMP_REQUEUE_PI, 1, 1, word, 0));
    CALL(unlock(word));
    end(1);
    *word = FUTEX_WAITERS;
    CALL(futex(word, FUTEX_TRYLOCK_PI, 0, 0, NULL, 0));
    show_flags(*word);
    memset(words, 0, sizeof words);
}

/* Where no word is. */
static void addresses(void)
{
    void *odd = (char *)words + 1;
    CALL(wake(NULL, 1));
    CALL(wake(odd, 1));
    CALL(futex(NULL, FUTEX_WAKE_PRIVATE, 1, 0, NULL, 0));
    CALL(futex(odd, FUTEX_WAKE_PRIVATE, 1, 0, NULL, 0));
    CALL(futex(words, FUTEX_REQUEUE, 1, 1, odd, 0));
    CALL(futex(words, FUTEX_REQUEUE, 1, 1, NULL, 0));
    CALL(futex(words, FUTEX_REQUEUE_PRIVATE, 1, 1, odd, 0));
    CALL(futex(words, FUTEX_REQUEUE_PRIVATE, 1, 1, NULL, 0));
    CALL(futex(words, FUTEX_CMP_REQUEUE, 1, 1, odd, 5));
    CALL(futex(words, FUTEX_CMP_REQUEUE, -1, 1, odd, 5));
    CALL(futex(words, FUTEX_CMP_REQUEUE_PI, 1, 1, odd, 5));
    CALL(futex(words, FUTEX_CMP_REQUEUE_PI, 1, -1, &words[1], 0));
    CALL(futex(words, FUTEX_WAKE_OP, 1, 1, odd, OPERATION));
    CALL(futex(odd, FUTEX_WAKE_OP, 1, 1, &words[1], OPERATION));
    CALL(futex(NULL, FUTEX_WAKE_OP, 1, 1, &words[1], OPERATION));
    FACT(words[1]);
    CALL(futex(odd, FUTEX_LOCK_PI, 0, 0, NULL, 0));
    CALL(futex(NULL, FUTEX_LOCK_PI, 0, 0, NULL, 0));
    memset(words, 0, sizeof words);
}

/* A list of which nothing can be read says nothing of the mutex that was being taken. */
static void lists_that_are_wrong(void)
{
    memset(shared, 0, sizeof *shared);
    START(0, WAIT(&shared->other));
    for (int round = 0; round < 2; round++) {
        int child = fork();
        if (child == 0) {
            long offset = offsetof(struct shared, word) - offsetof(struct shared, entry);
            shared->word = shared->other = gettid();
            shared->list = (struct robust_list_head){{(void *)8}, offset, &shared->entry};
            if (round == 1) {
                shared->list.list.next = &shared->list.list;
                shared->list.futex_offset += 4;
                shared->other = FUTEX_WAITERS;
            }
            syscall(SYS_set_robust_list, &shared->list, sizeof shared->list);
            _exit(0);
        }
        waitpid(child, NULL, 0);
        FACT((shared->word & OWNER) == (uint32_t)child);
        show_flags(shared->word);
        show_flags(shared->other);
    }
    end(0);
}

int main(int count, char **arguments)
{
    (void)arguments;
    if (count > 1)
        return pause();
    setvbuf(stdout, NULL, _IOLBF, 0);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    owners_that_are_threads();
    owner_that_is_a_process(EXITS);
    owner_that_is_a_process(IS_KILLED);
    owner_that_is_a_process(EXECUTES);
    owner_that_is_a_process(HAS_A_LIST);
    rings();
    who_is_woken();
    who_is_not_woken();
    addresses();
    lists_that_are_wrong();
    rings_of_the_moved();
}
