/*
 * btree-olc [-t THREADS] [-n INSERTS]: a B+tree with optimistic lock coupling.
 *
 * Computes: random 64-bit keys, inserted in bulk by all threads at once (inserts.h).
 *
 * Algorithm: a B+tree with nodes of 4 KiB whose writers lock at most a node and its parent
 * (optimistic.h). A full node is split on the way down, its separator going to a parent that has
 * room because it was passed the same way; then the insert restarts. A leaf's entries are kept in
 * order by shifting, keys and values in arrays of their own.
 *
 * Memory behaviour that it stands for (BTreeOLC in the NVOverlay evaluation): an insert reads a few
 * lines of each node on its path and then shifts half of a leaf, a burst of writes to some tens
 * of neighbouring lines in a random place.
 *
 * Check: as inserts.h says, and for every node: at rest, as full as a split leaves it, between its
 * separators; all leaves at one depth.
 */
#define PROGRAM "btree-olc"
#include "inserts.h"
#include "optimistic.h"

namespace {

constexpr uint64_t INSERTS_DEFAULT = 1600000;
constexpr size_t NODE_BYTES = 4096;
constexpr size_t HEADER_BYTES = 16;
constexpr unsigned LEAF_ENTRIES = (NODE_BYTES - HEADER_BYTES) / 16;
constexpr unsigned SEPARATORS = (NODE_BYTES - HEADER_BYTES - 8) / 16;

struct node {
    version_lock lock;
    const bool is_leaf;
    cell<uint16_t> count; /* of keys: within the node's capacity at every moment */

    explicit node(bool leaf) : is_leaf(leaf) {}
};

struct alignas(CACHE_LINE_BYTES) leaf_node : node {
    static constexpr unsigned CAPACITY = LEAF_ENTRIES;
    cell<uint64_t> keys[CAPACITY]; /* ascending */
    cell<uint64_t> values[CAPACITY];

    leaf_node() : node(true) {}
};

struct alignas(CACHE_LINE_BYTES) inner_node : node {
    static constexpr unsigned CAPACITY = SEPARATORS;
    cell<uint64_t> keys[CAPACITY]; /* ascending; keys[i] is the largest under children[i] */
    child_link<node *> children[CAPACITY + 1];

    inner_node() : node(false) {}
};

static_assert(sizeof(leaf_node) == NODE_BYTES && sizeof(inner_node) == NODE_BYTES,
              "a node fills a page");

/* The first key that is not less than `key`, or the count. */
template <class Node> unsigned position(const Node *in, uint64_t key)
{
    unsigned first = 0;
    unsigned length = in->count.get();
    while (length > 0) {
        const unsigned half = length / 2;
        if (in->keys[first + half].get() < key) {
            first += half + 1;
            length -= half + 1;
        } else {
            length = half;
        }
    }
    return first;
}

template <class Node> bool is_full(const Node *in)
{
    return in->count.get() == Node::CAPACITY;
}

/* Puts an entry into a leaf that has room. */
void insert_entry(leaf_node *leaf, unsigned at, uint64_t key, uint64_t value)
{
    const unsigned count = leaf->count.get();
    for (unsigned i = count; i > at; i--) {
        leaf->keys[i].set(leaf->keys[i - 1].get());
    }
    for (unsigned i = count; i > at; i--) {
        leaf->values[i].set(leaf->values[i - 1].get());
    }
    leaf->keys[at].set(key);
    leaf->values[at].set(value);
    leaf->count.set(static_cast<uint16_t>(count + 1));
}

/* Puts `right` behind the child that the separator bounds, into a parent that has room. */
void insert_child(inner_node *parent, uint64_t separator, node *right)
{
    const unsigned count = parent->count.get();
    const unsigned at = position(parent, separator);
    for (unsigned i = count; i > at; i--) {
        parent->keys[i].set(parent->keys[i - 1].get());
    }
    for (unsigned i = count; i > at; i--) {
        parent->children[i + 1].set(parent->children[i].get());
    }
    parent->keys[at].set(separator);
    parent->children[at + 1].set(right);
    parent->count.set(static_cast<uint16_t>(count + 1));
}

/* Moves the upper half of a leaf to an empty one. The separator is the largest key that stays. */
uint64_t halve(leaf_node *left, leaf_node *right)
{
    const unsigned count = left->count.get();
    const unsigned kept = count - count / 2;
    for (unsigned i = kept; i < count; i++) {
        right->keys[i - kept].set(left->keys[i].get());
        right->values[i - kept].set(left->values[i].get());
    }
    right->count.set(static_cast<uint16_t>(count - kept));
    left->count.set(static_cast<uint16_t>(kept));
    return left->keys[kept - 1].get();
}

/* Moves the upper half of an inner node to an empty one. The separator is the key between. */
uint64_t halve(inner_node *left, inner_node *right)
{
    const unsigned count = left->count.get();
    const unsigned kept = count / 2;
    const uint64_t separator = left->keys[kept].get();
    for (unsigned i = kept + 1; i < count; i++) {
        right->keys[i - kept - 1].set(left->keys[i].get());
    }
    for (unsigned i = kept + 1; i <= count; i++) {
        right->children[i - kept - 1].set(left->children[i].get());
    }
    right->count.set(static_cast<uint16_t>(count - kept - 1));
    left->count.set(static_cast<uint16_t>(kept));
    return separator;
}

class btree {
    child_link<node *> root;

    /* Splits a full node if neither it nor its parent has changed since; who calls it restarts in
       any case. A parent has room. Without a parent the node is the root: it was when its
       version was noted, and a root is replaced only by who holds its lock. */
    template <class Node>
    void split(inner_node *parent, uint64_t parent_version, Node *full, uint64_t version)
    {
        const bool is_root = parent == nullptr;
        /* Made before locking: the others wait for as long as the locks are held. */
        auto *right = new Node;
        auto *above = is_root ? new inner_node : parent;

        const bool parent_is_ours = is_root || parent->lock.lock_if(parent_version);
        if (parent_is_ours && full->lock.lock_if(version)) {
            const uint64_t separator = halve(full, right);
            if (is_root) {
                above->children[0].set(full);
            }
            insert_child(above, separator, right);
            if (is_root) {
                root.set(above);
            }
            full->lock.unlock();
        } else {
            delete right;
            if (is_root) {
                delete above;
            }
        }
        if (parent_is_ours && !is_root) {
            parent->lock.unlock();
        }
    }

    outcome try_insert(uint64_t key, uint64_t value)
    {
        inner_node *parent = nullptr;
        uint64_t parent_version = 0;
        uint64_t version;
        node *current = root.get();
        if (!current->lock.read(&version) || root.get() != current) {
            return outcome::RESTART;
        }
        while (!current->is_leaf) {
            auto *inner = static_cast<inner_node *>(current);
            if (is_full(inner)) {
                split(parent, parent_version, inner, version);
                return outcome::RESTART;
            }
            node *child = inner->children[position(inner, key)].get();
            uint64_t child_version;
            /* The child may be followed if the node is unchanged; and it covers the key as of its
               version if the node is unchanged after that was noted. */
            if (!inner->lock.unchanged(version) || !child->lock.read(&child_version) ||
                !inner->lock.unchanged(version)) {
                return outcome::RESTART;
            }
            parent = inner;
            parent_version = version;
            current = child;
            version = child_version;
        }
        auto *leaf = static_cast<leaf_node *>(current);
        if (is_full(leaf)) {
            split(parent, parent_version, leaf, version);
            return outcome::RESTART;
        }
        const unsigned at = position(leaf, key);
        const bool present = at < leaf->count.get() && leaf->keys[at].get() == key;
        if (present) {
            return leaf->lock.unchanged(version) ? outcome::PRESENT : outcome::RESTART;
        }
        if (!leaf->lock.lock_if(version)) {
            return outcome::RESTART;
        }
        insert_entry(leaf, at, key, value);
        leaf->lock.unlock();
        return outcome::INSERTED;
    }

    /* Visits the entries under a node, whose keys lie above `low` (if there is one) and are at most
       `high`; returns the node's height. */
    template <class Visit>
    static unsigned walk_node(const node *current, const uint64_t *low, uint64_t high, bool is_root,
                              Visit &visit)
    {
        const unsigned count = current->count.get();
        const unsigned capacity = current->is_leaf ? leaf_node::CAPACITY : inner_node::CAPACITY;
        if (!current->lock.at_rest()) {
            die(STATUS_WRONG, "a node is still locked");
        }
        if (count > capacity || (!is_root && count < (capacity - 1) / 2) ||
            (!current->is_leaf && count == 0)) {
            die(STATUS_WRONG, "a node has %u keys of %u", count, capacity);
        }
        const cell<uint64_t> *keys = current->is_leaf
                                         ? static_cast<const leaf_node *>(current)->keys
                                         : static_cast<const inner_node *>(current)->keys;
        for (unsigned i = 0; i < count; i++) {
            const uint64_t key = keys[i].get();
            const bool follows = i > 0 ? key > keys[i - 1].get() : low == nullptr || key > *low;
            if (!follows || key > high) {
                die(STATUS_WRONG, "key %016" PRIx64 " lies outside of its place", key);
            }
        }
        if (current->is_leaf) {
            const auto *leaf = static_cast<const leaf_node *>(current);
            for (unsigned i = 0; i < count; i++) {
                visit(leaf->keys[i].get(), leaf->values[i].get());
            }
            return 1;
        }
        const auto *inner = static_cast<const inner_node *>(current);
        unsigned height = 0;
        for (unsigned i = 0; i <= count; i++) {
            const uint64_t before = i > 0 ? inner->keys[i - 1].get() : 0;
            const unsigned below =
                walk_node(inner->children[i].get(), i > 0 ? &before : low,
                          i < count ? inner->keys[i].get() : high, false, visit);
            if (i > 0 && below != height) {
                die(STATUS_WRONG, "leaves lie %u and %u levels below a node", height, below);
            }
            height = below;
        }
        return height + 1;
    }

  public:
    static constexpr bool ORDERED = true;

    btree() { root.set(new leaf_node); }

    bool insert(uint64_t key, uint64_t value)
    {
        unsigned spins = 0;
        for (;;) {
            const outcome result = try_insert(key, value);
            if (result != outcome::RESTART) {
                return result == outcome::INSERTED;
            }
            spin_wait(&spins);
        }
    }

    bool find(uint64_t key, uint64_t *value) const
    {
        const node *current = root.get();
        while (!current->is_leaf) {
            const auto *inner = static_cast<const inner_node *>(current);
            current = inner->children[position(inner, key)].get();
        }
        const auto *leaf = static_cast<const leaf_node *>(current);
        const unsigned at = position(leaf, key);
        if (at == leaf->count.get() || leaf->keys[at].get() != key) {
            return false;
        }
        *value = leaf->values[at].get();
        return true;
    }

    template <class Visit> void walk(Visit visit) const
    {
        walk_node(root.get(), nullptr, UINT64_MAX, true, visit);
    }
};

} // namespace

int main(int argc, char **argv)
{
    return run_inserts<btree>(argc, argv, INSERTS_DEFAULT);
}
