/*
 * End-to-end test: every line is persisted twice after each store, so that the second time no cache has it
 * newer than memory.
 *
 * Always true: the sum at the end is that of what was stored last.
 */
#include "check.h"

#include <stdint.h>

#include "perdure.h"

enum { LINES = 2048, ROUNDS = 3 };

static struct {
    _Alignas(64) uint64_t value;
} lines[LINES];

int main(void)
{
    for (uint64_t round = 0; round < ROUNDS; round++) {
        for (uint64_t index = 0; index < LINES; index++) {
            lines[index].value = round * LINES + index;
            perdure_persist(&lines[index], sizeof lines[index]);
            perdure_persist(&lines[index], sizeof lines[index]);
        }
    }
    uint64_t sum = 0;
    for (uint64_t index = 0; index < LINES; index++)
        sum += lines[index].value;
    printf("zicbom_twice: %llu\n", (unsigned long long)sum);
    return 0;
}
