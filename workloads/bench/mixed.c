/*
 * Benchmark: one kernel on each of N threads, all at the same time.
 *
 * `mixed THREADS [KIND [SCALE_PERCENT]]`, where KIND is a kernel's name (every thread
 * runs it) or `mixed` (thread i runs kernel i mod 4). Always true: threads share no
 * data but the table of jobs, each has its own seed, and results are printed in
 * thread order, so that the output does not depend on how threads interleave.
 */
#include <pthread.h>
#include <string.h>

#include "btree_kernel.h"
#include "compute_kernel.h"
#include "hash_kernel.h"
#include "stream_kernel.h"

enum { THREADS_MAX = 256 };

static const struct {
    const char *name;
    kernel_function *run;
} kernels[] = {
    {"compute", compute_kernel},
    {"stream", stream_kernel},
    {"btree", btree_kernel},
    {"hash", hash_kernel},
};
enum { KERNELS = sizeof kernels / sizeof kernels[0] };

struct job {
    pthread_t thread;
    unsigned kernel;
    unsigned scale_percent;
    uint64_t seed;
    struct kernel_result result;
};

static struct job jobs[THREADS_MAX];

static void *run_job(void *argument)
{
    struct job *job = argument;
    job->result = kernels[job->kernel].run(job->seed, job->scale_percent);
    return NULL;
}

/* The index of the kernel that every thread runs, or KERNELS for all in turn. */
static unsigned kind_from(const char *text)
{
    if (strcmp(text, "mixed") == 0) {
        return KERNELS;
    }
    for (unsigned kernel = 0; kernel < KERNELS; kernel++) {
        if (strcmp(text, kernels[kernel].name) == 0) {
            return kernel;
        }
    }
    fprintf(stderr, "mixed: KIND is \"%s\", but must be mixed, compute, stream, btree or hash\n",
            text);
    exit(2);
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 4) {
        fprintf(stderr, "usage: mixed THREADS [KIND [SCALE_PERCENT]]\n");
        return 2;
    }
    const unsigned threads = argument_number("mixed", "THREADS", argv[1], 1, THREADS_MAX);
    const unsigned kind = argc > 2 ? kind_from(argv[2]) : KERNELS;
    const unsigned scale_percent =
        argc > 3 ? argument_number("mixed", "SCALE_PERCENT", argv[3], 1, SCALE_PERCENT_MAX)
                 : SCALE_PERCENT_DEFAULT;

    for (unsigned i = 0; i < threads; i++) {
        jobs[i].kernel = kind < KERNELS ? kind : i % KERNELS;
        jobs[i].scale_percent = scale_percent;
        jobs[i].seed = i;
        if (pthread_create(&jobs[i].thread, NULL, run_job, &jobs[i]) != 0) {
            fprintf(stderr, "mixed: thread %u of %u could not be started\n", i, threads);
            return EXIT_FAILURE;
        }
    }
    int verified = 1;
    for (unsigned i = 0; i < threads; i++) {
        char name[32];
        pthread_join(jobs[i].thread, NULL);
        snprintf(name, sizeof name, "thread %u %s", i, kernels[jobs[i].kernel].name);
        verified &= report(name, jobs[i].result);
    }
    return verified ? EXIT_SUCCESS : EXIT_FAILURE;
}
