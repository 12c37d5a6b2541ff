/*
 * The workload of the four index structures, C++17: bulk insertion of random 64-bit keys, by
 * `[-t THREADS] [-n INSERTS]`. Each thread inserts its own share of the keys; nothing is looked up
 * or taken out meanwhile.
 *
 * Always true: key number i is word i of SplitMix64, a bijection of i, so that keys are distinct
 * and spread evenly; its value is i. The final content is thus the same for any number of threads
 * and any interleaving, and so are the lines that are printed.
 *
 * An index has
 *     bool insert(uint64_t key, uint64_t value);   by any thread; false: the key is there already
 *     bool find(uint64_t key, uint64_t *value);    alone, after the inserts
 *     void walk(visit);   alone: calls visit(key, value) for each pair, and dies if the structure
 *                         is not as it must be
 *     ORDERED             whether walk visits the keys in ascending order
 *
 * Check: the walk meets every pair exactly once, and nothing else, in order if there is one; a
 * sample of the keys is found with the right values and refused a second time; keys of the same
 * kind that were not inserted are not found.
 */
#ifndef PERDURE_INSERTS_H
#define PERDURE_INSERTS_H

#include <new>
#include <vector>

#include "parallel.h"

constexpr uint64_t KEYS_SEED = 20210614;
constexpr uint64_t INSERTS_MAX = 1000000000;
constexpr uint64_t SAMPLE = 256;

/* Key number `number`; a bijection, since the factor is odd. */
inline uint64_t key_at(uint64_t number)
{
    return mix64(KEYS_SEED + (number + 1) * UINT64_C(0x9e3779b97f4a7c15));
}

template <class Index> struct insertion {
    Index *index;
    uint64_t inserts;
    unsigned threads;
};

template <class Index> void insert_share(unsigned thread, void *context)
{
    const auto *job = static_cast<const insertion<Index> *>(context);
    const share mine = thread_share(job->inserts, job->threads, thread);
    for (uint64_t number = mine.first; number < mine.end; number++) {
        if (!job->index->insert(key_at(number), number)) {
            die(STATUS_WRONG, "key %" PRIu64 " was there before it was inserted", number);
        }
    }
}

/* Dies unless the index holds pairs 0..inserts-1 and no others; returns the digest of them. */
template <class Index> uint64_t check_content(Index &index, uint64_t inserts)
{
    std::vector<bool> seen(inserts);
    uint64_t count = 0;
    uint64_t key_sum = 0;
    uint64_t value_sum = 0;
    uint64_t last_key = 0;
    index.walk([&](uint64_t key, uint64_t value) {
        if (value >= inserts || key_at(value) != key) {
            die(STATUS_WRONG, "key %016" PRIx64 " has the value %" PRIu64, key, value);
        }
        if (seen[value]) {
            die(STATUS_WRONG, "key %" PRIu64 " is there twice", value);
        }
        if (Index::ORDERED && count > 0 && key <= last_key) {
            die(STATUS_WRONG, "key %016" PRIx64 " follows key %016" PRIx64, key, last_key);
        }
        seen[value] = true;
        last_key = key;
        count++;
        key_sum += key;
        value_sum += value;
    });
    if (count != inserts) {
        die(STATUS_WRONG, "%" PRIu64 " keys of %" PRIu64 " are there", count, inserts);
    }
    uint64_t digest = DIGEST_START;
    digest_word(&digest, count);
    digest_word(&digest, key_sum);
    digest_word(&digest, value_sum);
    return digest;
}

/* Looks up keys spread over all that were inserted, and as many that were not. */
template <class Index> void check_sample(Index &index, uint64_t inserts)
{
    const uint64_t step = inserts > SAMPLE ? inserts / SAMPLE : 1;
    for (uint64_t number = 0; number < inserts; number += step) {
        uint64_t value = inserts;
        if (!index.find(key_at(number), &value) || value != number) {
            die(STATUS_WRONG, "key %" PRIu64 " is not found, or has a wrong value", number);
        }
        if (index.insert(key_at(number), inserts)) {
            die(STATUS_WRONG, "key %" PRIu64 " was inserted twice", number);
        }
        if (index.find(key_at(inserts + number), &value)) {
            die(STATUS_WRONG, "key %" PRIu64 " is found, but was not inserted", inserts + number);
        }
    }
}

/* The whole program but for its index; returns its status. */
template <class Index> int run_inserts(int argc, char **argv, uint64_t inserts)
{
    uint64_t threads = THREADS_DEFAULT;
    const parameter parameters[] = {
        option_threads('t', &threads),
        option_whole('n', "inserts of all threads together", 1, INSERTS_MAX, &inserts),
    };
    parse_options(argc, argv, parameters, sizeof parameters / sizeof parameters[0]);
    std::set_new_handler([] { die(STATUS_USAGE, "no memory for so many inserts"); });

    /* Never freed: node by node, that would keep one thread busy for long after the others. */
    auto *index = new Index;
    insertion<Index> job = {index, inserts, static_cast<unsigned>(threads)};
    ready("%" PRIu64 " keys to insert", inserts);
    run_threads(job.threads, insert_share<Index>, &job);

    /* The sample first: it must not change the content. */
    check_sample(*index, inserts);
    const uint64_t digest = check_content(*index, inserts);
    return verified(digest, "%" PRIu64 " keys inserted and found", inserts);
}

#endif
