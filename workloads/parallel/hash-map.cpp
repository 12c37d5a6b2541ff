/*
 * hash-map [-t THREADS] [-n INSERTS]: std::unordered_map behind locks.
 *
 * Computes: random 64-bit keys, inserted in bulk by all threads at once (inserts.h).
 *
 * Algorithm: the standard library's hash tables with chained buckets, 256 of them, each for a range
 * of the keys and behind a lock of its own (sharded.h says why). No room is reserved: a table
 * that is full grows, and all its nodes go into new buckets.
 *
 * Memory behaviour that it stands for (std::unordered_map in the NVOverlay evaluation): one random
 * bucket, one new node and the head of its chain; from time to time a whole table rewritten.
 *
 * Check: as inserts.h says; and for every table, its keys are in its range, each in the bucket that
 * its hash chooses, as many as it counts, and its load is within its limit.
 */
#define PROGRAM "hash-map"
#include <unordered_map>

#include "inserts.h"
#include "sharded.h"

namespace {

constexpr uint64_t INSERTS_DEFAULT = 3600000;

using table = std::unordered_map<uint64_t, uint64_t>;

void check_buckets(const table &content)
{
    if (content.load_factor() > content.max_load_factor()) {
        die(STATUS_WRONG, "%zu keys in %zu buckets", content.size(), content.bucket_count());
    }
    size_t count = 0;
    for (size_t bucket = 0; bucket < content.bucket_count(); bucket++) {
        for (auto entry = content.cbegin(bucket); entry != content.cend(bucket); ++entry) {
            if (content.bucket(entry->first) != bucket) {
                die(STATUS_WRONG, "key %016" PRIx64 " is in bucket %zu", entry->first, bucket);
            }
            count++;
        }
    }
    if (count != content.size()) {
        die(STATUS_WRONG, "the buckets have %zu keys of %zu", count, content.size());
    }
}

class hash_map : public sharded<table> {
  public:
    static constexpr bool ORDERED = false;

    template <class Visit> void walk(Visit visit) const { walk_shards(visit, check_buckets); }
};

} // namespace

int main(int argc, char **argv)
{
    return run_inserts<hash_map>(argc, argv, INSERTS_DEFAULT);
}
