/*
 * End-to-end test: cache-block operations and the fences that order them.
 *
 *   zicbom [BLOCKS]      default 512 blocks of 64 bytes
 *
 * Always true: clean and flush never change what the program reads; zero clears its one block
 * and no byte beside it; an inval of a block that was just flushed loses nothing. qemu-user 7.2
 * does not know the instructions (SIGILL); 10.x does.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "digest.h"
#include "perdure.h"

enum { BLOCK = 64 };

static int failures;

static void expect(int condition, const char *what)
{
    if (!condition) {
        printf("zicbom: WRONG: %s\n", what);
        failures++;
    }
}

static void fill(unsigned char *bytes, size_t length, unsigned seed)
{
    for (size_t i = 0; i < length; i++) {
        bytes[i] = (unsigned char)(seed * 17 + i * 13 + (i >> 8));
    }
}

static void test_clean_and_flush(unsigned char *bytes, size_t length)
{
    uint64_t digest = DIGEST_EMPTY;
    for (unsigned round = 0; round < 3; round++) {
        fill(bytes, length, round);
        const uint64_t before = digest_add(DIGEST_EMPTY, bytes, length);
        for (size_t at = 0; at < length; at += BLOCK) {
            if (at / BLOCK % 2 == 0) {
                perdure_block_clean(bytes + at + at / BLOCK % BLOCK); /* any address inside */
            } else {
                perdure_block_flush(bytes + at + at / BLOCK % BLOCK);
            }
        }
        perdure_persist_fence();
        const uint64_t after = digest_add(DIGEST_EMPTY, bytes, length);
        expect(before == after, "clean or flush changed memory");
        digest = digest_add_word(digest, after);
    }
    printf("clean and flush: %016" PRIx64 "\n", digest);
}

static void test_zero(unsigned char *bytes, size_t length)
{
    fill(bytes, length, 7);
    for (size_t at = 0; at < length; at += 3 * BLOCK) {
        perdure_block_zero(bytes + at + 5);
    }
    size_t zeros = 0;
    size_t kept = 0;
    for (size_t i = 0; i < length; i++) {
        const unsigned char original = (unsigned char)(7 * 17 + i * 13 + (i >> 8));
        if (i / BLOCK % 3 == 0) {
            zeros += bytes[i] == 0;
        } else {
            kept += bytes[i] == original;
        }
    }
    expect(zeros + kept == length, "zero cleared too much or too little");
    printf("zero: %zu bytes cleared, %zu kept\n", zeros, kept);
}

static void test_inval_after_flush(unsigned char *bytes, size_t length)
{
    fill(bytes, length, 9);
    const uint64_t before = digest_add(DIGEST_EMPTY, bytes, length);
    for (size_t at = 0; at < length; at += BLOCK) {
        perdure_block_flush(bytes + at);
    }
    perdure_persist_fence_full();
    for (size_t at = 0; at < length; at += BLOCK) {
        perdure_block_inval(bytes + at);
    }
    perdure_persist_fence_full();
    const uint64_t after = digest_add(DIGEST_EMPTY, bytes, length);
    expect(before == after, "inval after flush lost data");
    printf("inval after flush: %016" PRIx64 "\n", after);
}

/* A log as one would keep it in persistent memory: entry first, then the count. */
static void test_log(unsigned char *bytes, size_t length)
{
    volatile uint64_t *const count = (volatile uint64_t *)(void *)bytes;
    uint64_t *const entries = (uint64_t *)(void *)(bytes + BLOCK);
    const uint64_t capacity = (length - BLOCK) / sizeof *entries;
    *count = 0;
    perdure_persist(bytes, sizeof *count);
    for (uint64_t i = 0; i < capacity; i++) {
        entries[i] = i * i;
        perdure_persist(&entries[i], sizeof entries[i]);
        *count = i + 1;
        perdure_persist(bytes, sizeof *count);
    }
    uint64_t sum = 0;
    for (uint64_t i = 0; i < *count; i++) {
        sum += entries[i];
    }
    printf("log: %" PRIu64 " entries, sum %" PRIu64 "\n", *count, sum);
}

int main(int argc, char **argv)
{
    const int blocks = argc > 1 ? atoi(argv[1]) : 512;
    if (argc > 2 || blocks < 2) {
        fprintf(stderr, "usage: zicbom [BLOCKS (2 or more)]\n");
        return 2;
    }
    const size_t length = (size_t)blocks * BLOCK;
    unsigned char *bytes = aligned_alloc(BLOCK, length);
    if (bytes == NULL) {
        fprintf(stderr, "zicbom: no memory for %d blocks\n", blocks);
        return 2;
    }
    test_clean_and_flush(bytes, length);
    test_zero(bytes, length);
    test_inval_after_flush(bytes, length);
    test_log(bytes, length);
    free(bytes);
    printf("zicbom: %s\n", failures == 0 ? "done" : "FAILED");
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
