/*
 * What the C test programs share: they say what came of their calls, and they start processes and
 * wait for them.
 *
 * Always true: it is the first header that a program includes, as it asks the C library for all that
 * Linux has; what is printed of a call is its own text and what it answered, never an address or a
 * number of the moment.
 */
#ifndef CHECK_H
#define CHECK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What an error is called; a program whose errors have other texts in other C libraries says how. */
#ifndef NAME_OF_ERROR
#define NAME_OF_ERROR strerror
#endif

#define EXPECT(condition) printf("%s: %s\n", #condition, (condition) ? "yes" : "NO")
#define CALL(expression)                                                                           \
    do {                                                                                           \
        errno = 0;                                                                                 \
        long result_ = (long)(expression);                                                         \
        printf("%s = %ld%s%s\n", #expression, result_, errno ? " " : "",                           \
               errno ? NAME_OF_ERROR(errno) : "");                                                 \
    } while (0)

/* Nothing that is left in a buffer is written: after fork, it would be there twice. */
static inline void fail(const char *what)
{
    perror(what);
    _exit(2);
}

static inline void moment(long milliseconds)
{
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    while (nanosleep(&time, &time) < 0) {
    }
}

static inline pid_t make_child(void)
{
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) {
        fail("fork");
    }
    return child;
}

/* Waits for a child and returns its exit status, or minus the signal that ended it. */
static inline int end_of(pid_t child)
{
    int status;
    if (waitpid(child, &status, 0) != child) {
        fail("waitpid");
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

#endif
