/* A guest states facts, one a line; the same must be true on Perdure and on Linux. */
#ifndef FACTS_H
#define FACTS_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The value of an expression. */
#define FACT(expression) printf("%s = %lld\n", #expression, (long long)(expression))

/* The result of a call, with the error that it gave. */
#define CALL(expression)                                                       \
    do {                                                                       \
        errno = 0;                                                             \
        long long result_ = (long long)(expression);                           \
        if (result_ == -1)                                                     \
            printf("%s fails: %s\n", #expression, strerrorname_np(errno));     \
        else                                                                   \
            printf("%s = %lld\n", #expression, result_);                       \
    } while (0)

/* Whether a call that returns something host-dependent succeeds. */
#define WORKS(expression)                                                      \
    do {                                                                       \
        errno = 0;                                                             \
        long long result_ = (long long)(expression);                           \
        printf("%s: %s\n", #expression, result_ == -1 ? strerrorname_np(errno) : "works"); \
    } while (0)

#endif
