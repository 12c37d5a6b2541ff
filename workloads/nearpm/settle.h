/*
 * Pools whose pages lie side by side, as devices need them, after a power cut, too.
 */
#ifndef PERDURE_NEARPM_SETTLE_H
#define PERDURE_NEARPM_SETTLE_H

#include "../flush/flush.h"

/* A pool whose making was cut short has been emptied (look_at_file). Its frames must be free before the first
   new one is taken, or the new ones lie around them. */
static inline void settle_file(void)
{
    const int file = open(pool_path, O_RDWR);
    if (file >= 0) {
        fsync(file);
        close(file);
    }
}

#endif
