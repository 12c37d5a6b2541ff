/*
 * copy POOL [OPTION]...: the micro-benchmark of figure 17: copies persistent data, by the processor, which
 * flushes and fences, or by NearPM's devices. One copy is durable before the next one begins.
 *
 * Our assumptions: copies are of different data, one behind the other, none of which the caches have when
 * copying begins.
 *
 * Always true: a copy that was acknowledged is whole. One that was not may be there in part.
 */
#define PROGRAM "copy"
#include "settle.h"
#include "nearpm.h"

enum { CPU, NEARPM };
enum { POOL_ID = 0, THREAD = 0, COUNT_MAX = 1 << 20 };

static const char *const CONFIGURATIONS[] = {"cpu", "nearpm", NULL};
static const char *const DEVICE = "/dev/module/nearpm-0.device";

/* As words of a plan. */
struct work {
    uint64_t seed, configuration, bytes, copies, area_bytes;
};

static struct plan plan;
static struct work work = {.seed = 1, .bytes = 4096, .copies = 1000};
static uint64_t no_check;

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static char *source_of(uint64_t copy)
{
    return (char *)pool + PAGE_BYTES + copy * round_up(work.bytes, LINE_BYTES);
}

/* On the same devices, byte by byte: areas are whole rounds of them. */
static char *destination_of(uint64_t copy)
{
    return source_of(copy) + work.area_bytes;
}

static uint64_t word_of(uint64_t copy, uint64_t word)
{
    return random_at(work.seed, 1, copy * NEARPM_SIZE_MAX + word);
}

static void make(void)
{
    for (uint64_t copy = 0; copy < work.copies; copy++) {
        for (uint64_t at = 0; at < work.bytes; at += sizeof(uint64_t)) {
            *(uint64_t *)(void *)(source_of(copy) + at) = word_of(copy, at);
        }
    }
}

/* ---- Copying ---------------------------------------------------------------------------------- */

static void judge(uint64_t status)
{
    if (nearpm_error_of(status) != NEARPM_NO_ERROR) {
        die(STATUS_WRONG, "the device says: %s", nearpm_error_text(nearpm_error_of(status)));
    }
}

static void open_devices(void)
{
    const size_t bytes = round_up(PAGE_BYTES + 2 * work.area_bytes, PAGE_BYTES);
    const unsigned refusal = NearPM_map_pool(POOL_ID, THREAD, pool, bytes);
    if (refusal != NEARPM_MAPPED) {
        die(STATUS_USAGE, "devices cannot have the pool: %s", nearpm_refusal_text(refusal));
    }
    const enum nearpm_error error = NearPM_recover(POOL_ID, THREAD);
    if (error != NEARPM_NO_ERROR && error != NEARPM_RECOVERED_ALREADY) {
        die(STATUS_WRONG, "devices do not recover: %s", nearpm_error_text(error));
    }
}

static void copy_durably(uint64_t copy)
{
    if (work.configuration == NEARPM) {
        NearPM_copy(POOL_ID, THREAD, source_of(copy), destination_of(copy), work.bytes);
        judge(NearPM_wait(THREAD));
    } else {
        memcpy(destination_of(copy), source_of(copy), work.bytes);
        flush_bytes(destination_of(copy), work.bytes);
        fence();
    }
}

static uint64_t cycles(void)
{
    uint64_t now;
    __asm__ volatile("csrr %0, cycle" : "=r"(now) : : "memory");
    return now;
}

static void run(void)
{
    nearpm_drop(source_of(0), 2 * work.area_bytes);
    fence();
    const uint64_t begin = cycles();
    for (uint64_t copy = pool->acknowledged[0].word; copy < work.copies; copy++) {
        copy_durably(copy);
        acknowledge(plan.acknowledge_interval, 0, copy + 1, work.copies);
    }
    printf("total_cycles %" PRIu64 "\n", cycles() - begin);
}

/* ---- Checking --------------------------------------------------------------------------------- */

/* The first `count` copies are whole, and all sources. */
static void check(uint64_t count)
{
    for (uint64_t copy = 0; copy < work.copies; copy++) {
        for (uint64_t at = 0; at < work.bytes; at += sizeof(uint64_t)) {
            const uint64_t word = word_of(copy, at);
            if (*(uint64_t *)(void *)(source_of(copy) + at) != word) {
                die(STATUS_WRONG, "source %" PRIu64 " is damaged", copy);
            }
            if (copy < count && *(uint64_t *)(void *)(destination_of(copy) + at) != word) {
                die(STATUS_WRONG, "copy %" PRIu64 " is not whole, but %" PRIu64 " are done", copy, count);
            }
        }
    }
    printf("%s: %" PRIu64 " copies are whole\n", PROGRAM, count);
}

/* ---- The program ------------------------------------------------------------------------------ */

static void read_work(int argc, char **argv)
{
    const struct option options[] = {
        {"configuration", "who copies (cpu)", 0, CONFIGURATIONS, &work.configuration},
        {"bytes", "of a copy, in words of eight (4096)", NEARPM_SIZE_MAX, NULL, &work.bytes},
        {"copies", "(1000)", COUNT_MAX, NULL, &work.copies},
        {"seed", "of what is copied (1)", UINT32_MAX, NULL, &work.seed},
        {"no-check", "at the end", 0, NO_CHOICES, &no_check},
    };
    primitive_name = "clwb";
    parse_options(argc, argv, &plan.acknowledge_interval, options, sizeof options / sizeof *options);
    if (recover_only) {
        read_plan(&plan);
        memcpy(&work, plan.words, sizeof work);
    }
    if (work.bytes == 0 || work.bytes % sizeof(uint64_t) != 0) {
        die(STATUS_USAGE, "--bytes is %" PRIu64 ", but must be whole words of eight", work.bytes);
    }
    const int refusal = work.configuration == NEARPM ? NearPM_init_device(DEVICE) : 0;
    if (refusal != 0) {
        die(STATUS_USAGE, "cannot use the device at %s: %s", DEVICE, strerror(refusal));
    }
    const uint64_t round = work.configuration == NEARPM ? nearpm.count * nearpm.granule_bytes : LINE_BYTES;
    work.area_bytes = round_up(work.copies * round_up(work.bytes, LINE_BYTES), round);
    memcpy(plan.words, &work, sizeof work);
}

int main(int argc, char **argv)
{
    read_work(argc, argv);
    look_at_file();
    settle_file();
    open_pool(&plan, 0, round_up(2 * work.area_bytes, PAGE_BYTES), make);
    if (make_only) {
        return EXIT_SUCCESS;
    }
    if (work.configuration == NEARPM) {
        open_devices();
    }
    if (pool->used.word != 0 || recover_only) {
        check(pool->acknowledged[0].word);
    }
    if (recover_only) {
        return EXIT_SUCCESS;
    }
    begin_use();
    run();
    if (no_check == 0) {
        check(work.copies);
    }
    return EXIT_SUCCESS;
}
