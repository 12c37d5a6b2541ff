/*
 * Wraps: failure-atomic transactions over the words of a pool, whose log a controller behind the caches keeps
 * (the design `hlog`).
 *
 * A word is stored in place, as ever, and a record of it is sent around the caches; loads are loads. The
 * controller keeps what caches evict of an open wrap from its home, brings the words of closed ones there,
 * and after a power cut does closed wraps again: a program has nothing to recover.
 *
 * Always true: a wrap is durable as a whole when hlog_close returns, and is gone as a whole, or durable, if
 * the power failed before. What is stored into the pool outside of wraps is durable when it was flushed and
 * fenced while no wrap was open or on its way home, and not before.
 *
 * Transactions that may store to the same word are kept apart by the program's own locks, which are given up
 * after hlog_close.
 */
#ifndef PERDURE_HLOG_H
#define PERDURE_HLOG_H

#include "perdure.h"

/* A word of the pool, whatever the program keeps there. */
typedef uint64_t __attribute__((may_alias)) hlog_word;

static inline void hlog_open(void)
{
    perdure_wrap_open();
}

/* The store comes first: a line that leaves the caches between the two has the word, and the controller,
 * which goes by the order in which records and lines come, does not take the line for one that lacks it. */
static inline void hlog_store(void *place, uint64_t value)
{
    *(volatile hlog_word *)place = value;
    perdure_wrap_record(place, value);
}

static inline void hlog_close(void)
{
    perdure_wrap_close();
}

#endif
