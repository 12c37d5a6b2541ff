/*
 * End-to-end test: processes that go on as another program.
 *
 *   exec [GENERATIONS [WORKERS]]      default 12 generations, 5 workers
 *
 * The program is its own other program. A chain of execve hands a digest from generation to
 * generation; workers made by vfork or posix_spawn answer through pipes; descriptors, signal
 * actions and threads are as execve leaves them. Always true: what is printed is fixed by the
 * arguments. (qemu-user cannot start programs of another machine: check.sh leaves it out there.)
 */
#include "check.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>

#include "digest.h"

static const char ITSELF[] = "/proc/self/exe";

/* Replaces this program by itself, with other arguments. */
static void become(const char *what, uint64_t first, uint64_t second)
{
    char texts[2][24];
    snprintf(texts[0], sizeof texts[0], "%" PRIu64, first);
    snprintf(texts[1], sizeof texts[1], "%" PRIu64, second);
    char name[16];
    snprintf(name, sizeof name, "%s", what);
    char *arguments[] = {"exec", name, texts[0], texts[1], NULL};
    execve(ITSELF, arguments, environ);
    fail("exec: execve");
}

/* Memory of its own, so that each generation's pages differ from the last one's. */
static uint64_t mix(uint64_t seed)
{
    enum { WORDS = 3000 };
    static uint64_t words[WORDS];
    for (unsigned i = 0; i < WORDS; i++) {
        if (words[i] != 0) {
            fprintf(stderr, "exec: memory of the program before is left\n");
            _exit(3);
        }
        words[i] = seed = digest_add_word(seed, i);
    }
    return digest_add(DIGEST_EMPTY, words, sizeof words);
}

static void *spin(void *argument)
{
    (void)argument;
    for (;;) {
        sched_yield();
    }
    return NULL;
}

static void *become_from_thread(void *argument)
{
    const uint64_t *words = argument;
    become("chain", words[0], words[1]);
    return NULL;
}

/* One generation of the chain; every third one goes on from a thread that is not the first. */
static int chain(uint64_t left, uint64_t digest)
{
    digest = mix(digest);
    if (left == 0) {
        printf("chain: digest %016" PRIx64 "\n", digest);
        fflush(stdout);
        return 40;
    }
    if (left % 3 == 0) {
        static uint64_t words[2];
        words[0] = left - 1;
        words[1] = digest;
        pthread_t threads[2];
        if (pthread_create(&threads[0], NULL, spin, NULL) != 0 ||
            pthread_create(&threads[1], NULL, become_from_thread, words) != 0) {
            fail("exec: pthread_create");
        }
        for (;;) {
            pause();
        }
    }
    become("chain", left - 1, digest);
    return 2;
}

/* Answers on standard output. */
static int work(uint64_t id, uint64_t closed)
{
    struct sigaction action;
    sigaction(SIGUSR1, NULL, &action);
    int ignored = action.sa_handler == SIG_IGN;
    sigaction(SIGUSR2, NULL, &action);
    int reset = action.sa_handler == SIG_DFL;
    int gone = fcntl((int)closed, F_GETFD) == -1 && errno == EBADF;
    const char *given = getenv("GIVEN");
    printf("worker %" PRIu64 ": %016" PRIx64 " ignored %d reset %d closed %d given %s\n", id,
           mix(id), ignored, reset, gone, given ? given : "nothing");
    return (int)(id + 10);
}

static void on_signal(int signal)
{
    (void)signal;
}

static void workers(unsigned count)
{
    signal(SIGUSR1, SIG_IGN);
    signal(SIGUSR2, on_signal);
    setenv("GIVEN", "an environment", 1);
    int closed = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int statuses = 0;
    for (unsigned id = 0; id < count; id++) {
        int answers[2];
        if (pipe(answers) != 0) {
            fail("exec: pipe");
        }
        char texts[2][24];
        snprintf(texts[0], sizeof texts[0], "%u", id);
        snprintf(texts[1], sizeof texts[1], "%d", closed);
        char *arguments[] = {"exec", "work", texts[0], texts[1], NULL};
        fflush(NULL);
        pid_t child = 0;
        if (id % 2 == 0) {
            child = vfork();
            if (child == 0) {
                dup2(answers[1], 1);
                execve(ITSELF, arguments, environ);
                _exit(126);
            }
        } else {
            posix_spawn_file_actions_t actions;
            posix_spawn_file_actions_init(&actions);
            posix_spawn_file_actions_adddup2(&actions, answers[1], 1);
            if (posix_spawn(&child, ITSELF, &actions, NULL, arguments, environ) != 0) {
                fail("exec: posix_spawn");
            }
            posix_spawn_file_actions_destroy(&actions);
        }
        close(answers[1]);
        char text[256];
        ssize_t got;
        while ((got = read(answers[0], text, sizeof text)) > 0) {
            fwrite(text, 1, (size_t)got, stdout);
        }
        close(answers[0]);
        statuses = statuses * 7 + end_of(child);
    }
    close(closed);
    printf("workers: statuses fold to %d\n", statuses);
}

int main(int count, char **arguments)
{
    if (count == 4 && strcmp(arguments[1], "chain") == 0) {
        return chain(strtoull(arguments[2], NULL, 10), strtoull(arguments[3], NULL, 10));
    }
    if (count == 4 && strcmp(arguments[1], "work") == 0) {
        return work(strtoull(arguments[2], NULL, 10), strtoull(arguments[3], NULL, 10));
    }
    uint64_t generations = count > 1 ? strtoull(arguments[1], NULL, 10) : 12;
    unsigned long worker_count = count > 2 ? strtoul(arguments[2], NULL, 10) : 5;
    workers((unsigned)worker_count);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        become("chain", generations, 1);
    }
    printf("chain: status %d\n", end_of(child));
    pid_t lost = fork();
    if (lost == 0) {
        char *nothing[] = {"nothing", NULL};
        execve("/no/such/program", nothing, environ);
        _exit(errno == ENOENT ? 50 : 51);
    }
    printf("nothing there: status %d\n", end_of(lost));
    puts("exec: done");
    return 0;
}
