/*
 * ordered-map [-t THREADS] [-n INSERTS]: std::map behind locks.
 *
 * Computes: random 64-bit keys, inserted in bulk by all threads at once (inserts.h).
 *
 * Algorithm: the standard library's red-black trees, 256 of them, each for a range of the keys and
 * behind a lock of its own (sharded.h says why).
 *
 * Memory behaviour that it stands for (std::map in the NVOverlay evaluation): a chain of dependent
 * reads from line to line down the tree, one new node, and a few writes to nodes near it when
 * the tree is balanced.
 *
 * Check: as inserts.h says; and for every tree, its keys are in its range and in order forwards
 * and backwards, and as many as it counts.
 */
#define PROGRAM "ordered-map"
#include <map>

#include "inserts.h"
#include "sharded.h"

namespace {

constexpr uint64_t INSERTS_DEFAULT = 3000000;

using tree = std::map<uint64_t, uint64_t>;

/* Backwards too, since the way back takes other pointers. */
void check_backwards(const tree &content)
{
    const uint64_t *last = nullptr;
    for (auto entry = content.rbegin(); entry != content.rend(); ++entry) {
        if (last != nullptr && entry->first >= *last) {
            die(STATUS_WRONG, "key %016" PRIx64 " precedes key %016" PRIx64, entry->first, *last);
        }
        last = &entry->first;
    }
}

class ordered_map : public sharded<tree> {
  public:
    static constexpr bool ORDERED = true;

    template <class Visit> void walk(Visit visit) const { walk_shards(visit, check_backwards); }
};

} // namespace

int main(int argc, char **argv)
{
    return run_inserts<ordered_map>(argc, argv, INSERTS_DEFAULT);
}
