/*
 * A container of the standard library that threads may insert into at the same time, C++17: cut
 * into shards by the upper bits of the key, each a container of its own behind a lock of its own.
 *
 * A lock per shard and not one reader-writer lock, since every operation of the measured phase is
 * an insert: with a reader-writer lock they would all exclude each other, and 16 threads would run
 * no faster than one. With 256 shards for 16 threads it is rare that two want the same one; a
 * thread that waits sleeps (std::mutex).
 *
 * Always true: a shard holds the keys of one range, and ranges ascend with the shards' numbers, so
 * that shards of ordered containers, one after another, are in order.
 */
#ifndef PERDURE_SHARDED_H
#define PERDURE_SHARDED_H

#include <mutex>

#include "parallel.h"

template <class Container> class sharded {
    static constexpr unsigned SHARD_BITS = 8;
    static constexpr unsigned SHARDS = 1U << SHARD_BITS;

    struct alignas(CACHE_LINE_BYTES) shard {
        std::mutex lock;
        Container content;
    };

    shard shards[SHARDS];

    static unsigned shard_of(uint64_t key)
    {
        return static_cast<unsigned>(key >> (64 - SHARD_BITS));
    }

  public:
    bool insert(uint64_t key, uint64_t value)
    {
        shard &in = shards[shard_of(key)];
        const std::lock_guard<std::mutex> guard(in.lock);
        return in.content.emplace(key, value).second;
    }

    bool find(uint64_t key, uint64_t *value) const
    {
        const Container &content = shards[shard_of(key)].content;
        const auto entry = content.find(key);
        if (entry == content.end()) {
            return false;
        }
        *value = entry->second;
        return true;
    }

    /* Visits all entries, and calls check(container) for each shard before. */
    template <class Visit, class Check> void walk_shards(Visit &visit, Check check) const
    {
        for (unsigned number = 0; number < SHARDS; number++) {
            const Container &content = shards[number].content;
            check(content);
            size_t count = 0;
            for (const auto &entry : content) {
                if (shard_of(entry.first) != number) {
                    die(STATUS_WRONG, "key %016" PRIx64 " is in shard %u", entry.first, number);
                }
                visit(entry.first, entry.second);
                count++;
            }
            if (count != content.size()) {
                die(STATUS_WRONG, "shard %u has %zu keys but counts %zu", number, count,
                    content.size());
            }
        }
    }
};

#endif
