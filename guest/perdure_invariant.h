/*
 * For invariants of `perdure check --invariant FILE.c`: what has to hold of persistent memory once a program
 * has recovered.
 *
 * FILE.c defines the function below. It is compiled and run on what each recovery leaves. 0 says that the
 * invariant holds; anything else that it does not, and what the function has printed goes into the report.
 * It may call the C library. A pool is mapped for reading, at the address at which the program that is
 * checked has mapped it, so that pointers in it are good; where it has not, anywhere. If the program has
 * mapped a part of it, and there is no room for the rest around that, the part alone is mapped. A pool that
 * the program had not made yet when power failed is not among them.
 */
#ifndef PERDURE_INVARIANT_H
#define PERDURE_INVARIANT_H

#include <stddef.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

struct perdure_pool {
    const char *name; /* below /pmem: "list" is /pmem/list */
    const void *start; /* where its first byte lies, or would */
    size_t bytes; /* from start on, up to which it is mapped: all of it, or to the end of a part */
    size_t first; /* from start on, from which it is mapped: 0, or the beginning of a part */
};

int invariant(const struct perdure_pool *pools, size_t count);

/* The pool of that name, or NULL. */
static inline const struct perdure_pool *perdure_pool_named(const struct perdure_pool *pools, size_t count,
                                                            const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(pools[i].name, name) == 0) {
            return &pools[i];
        }
    }
    return NULL;
}

#ifdef __cplusplus
}
#endif

#endif
