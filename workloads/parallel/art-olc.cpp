/*
 * art-olc [-t THREADS] [-n INSERTS]: an adaptive radix tree with optimistic lock coupling.
 *
 * Computes: random 64-bit keys, inserted in bulk by all threads at once (inserts.h).
 *
 * Algorithm: V. Leis, A. Kemper and T. Neumann, "The adaptive radix tree: ARTful indexing for
 * main-memory databases", ICDE 2013: a radix tree over the key's bytes with nodes for 4, 16, 48
 * and 256 children that grow as they fill, path compression (no node with one child) and lazy
 * expansion (a leaf hangs where its key parts from all others). Writers lock at most a node and
 * its parent (optimistic.h). A compressed path is kept whole, from the root on, in eight bytes; so
 * it never changes in a node, and a branch put in above the node locks the parent alone.
 *
 * Memory behaviour that it stands for (ARTOLC in the NVOverlay evaluation): few dependent reads per
 * insert, one line of each node on the path; one new leaf and a few bytes of its parent written;
 * from time to time a node copied to a larger one.
 *
 * Check: as inserts.h says, and for every node: at rest, with as many children as its kind may
 * have, its bytes in order, below its parent and on its path. The numbers of nodes of each
 * kind follow from the keys alone, and are printed.
 */
#define PROGRAM "art-olc"
#include "inserts.h"
#include "optimistic.h"

namespace {

constexpr uint64_t INSERTS_DEFAULT = 2400000;
constexpr unsigned KEY_BYTES = 8;

/* ---- Nodes -------------------------------------------------------------------------------- */

struct leaf_record {
    const uint64_t key;
    const uint64_t value;
};

struct node;

/* What a child is: nothing, a node, or a leaf, which the lowest bit tells from a node. */
class child {
    uintptr_t word = 0;

  public:
    child() = default;
    explicit child(node *inner) : word(reinterpret_cast<uintptr_t>(inner)) {}
    explicit child(leaf_record *leaf) : word(reinterpret_cast<uintptr_t>(leaf) | 1) {}

    bool is_none() const { return word == 0; }
    bool is_leaf() const { return (word & 1) != 0; }
    node *inner() const { return reinterpret_cast<node *>(word); }
    leaf_record *leaf() const { return reinterpret_cast<leaf_record *>(word & ~uintptr_t{1}); }
};

/* The four kinds, smallest first. */
enum kind : uint8_t { NODE_4, NODE_16, NODE_48, NODE_256, KINDS };

/* Children of a node that just became of this kind, and of a full one. */
constexpr struct {
    unsigned minimum, capacity;
} LIMITS[KINDS] = {{2, 4}, {5, 16}, {17, 48}, {49, 256}};

struct node {
    version_lock lock;
    const uint64_t path; /* the upper `level` bytes of all keys below; zero beyond them */
    const uint8_t level; /* the byte of the key that chooses the child, 0 the highest */
    const kind type;
    cell<uint16_t> count; /* of children: within the kind's capacity at every moment */

    node(kind type, uint64_t path, uint8_t level) : path(path), level(level), type(type) {}
};

/* Bytes ascending, each with the child at the same place. */
template <kind KIND> struct sorted_node : node {
    cell<uint8_t> bytes[LIMITS[KIND].capacity];
    child_link<child> children[LIMITS[KIND].capacity];

    sorted_node(uint64_t path, uint8_t level) : node(KIND, path, level) {}
};

using node_4 = sorted_node<NODE_4>;
using node_16 = sorted_node<NODE_16>;

/* By byte: one more than the child's place, or 0. */
struct node_48 : node {
    cell<uint8_t> places[256];
    child_link<child> children[LIMITS[NODE_48].capacity];

    node_48(uint64_t path, uint8_t level) : node(NODE_48, path, level) {}
};

struct node_256 : node {
    child_link<child> children[256];

    node_256(uint64_t path, uint8_t level) : node(NODE_256, path, level) {}
};

/* Calls visit with the node as what it is. */
template <class Visit> auto as_kind(node *of, Visit visit)
{
    switch (of->type) {
    case NODE_4:
        return visit(static_cast<node_4 *>(of));
    case NODE_16:
        return visit(static_cast<node_16 *>(of));
    case NODE_48:
        return visit(static_cast<node_48 *>(of));
    default:
        return visit(static_cast<node_256 *>(of));
    }
}

uint8_t byte_of(uint64_t key, unsigned level)
{
    return static_cast<uint8_t>(key >> (8 * (KEY_BYTES - 1 - level)));
}

/* The upper `level` bytes of a key; level below 8. */
uint64_t path_of(uint64_t key, unsigned level)
{
    return level == 0 ? 0 : key & (UINT64_MAX << (8 * (KEY_BYTES - level)));
}

/* The first byte in which two different keys differ. */
uint8_t parting_level(uint64_t one, uint64_t other)
{
    return static_cast<uint8_t>(__builtin_clzll(one ^ other) / 8);
}

/* ---- The children of one node ------------------------------------------------------------- */

/* The link of a byte's child, or null. Without the node's lock, what it says means nothing until
   the node's version was found unchanged. */
template <kind KIND> child_link<child> *link_of(sorted_node<KIND> *in, uint8_t byte)
{
    const unsigned count = in->count.get();
    for (unsigned i = 0; i < count; i++) {
        if (in->bytes[i].get() == byte) {
            return &in->children[i];
        }
    }
    return nullptr;
}

child_link<child> *link_of(node_48 *in, uint8_t byte)
{
    const unsigned place = in->places[byte].get();
    return place == 0 ? nullptr : &in->children[place - 1];
}

child_link<child> *link_of(node_256 *in, uint8_t byte)
{
    return &in->children[byte];
}

child_link<child> *link_of(node *in, uint8_t byte)
{
    return as_kind(in, [byte](auto *exact) -> child_link<child> * { return link_of(exact, byte); });
}

bool is_full(const node *in)
{
    return in->count.get() == LIMITS[in->type].capacity;
}

/* Adds a child to a node that has room and none for the byte; they do not count it. */
template <kind KIND> void place_child(sorted_node<KIND> *in, uint8_t byte, child added)
{
    unsigned at = in->count.get();
    for (; at > 0 && in->bytes[at - 1].get() > byte; at--) {
        in->bytes[at].set(in->bytes[at - 1].get());
        in->children[at].set(in->children[at - 1].get());
    }
    in->bytes[at].set(byte);
    in->children[at].set(added);
}

void place_child(node_48 *in, uint8_t byte, child added)
{
    const unsigned at = in->count.get();
    in->children[at].set(added);
    in->places[byte].set(static_cast<uint8_t>(at + 1));
}

void place_child(node_256 *in, uint8_t byte, child added)
{
    in->children[byte].set(added);
}

void add_child(node *in, uint8_t byte, child added)
{
    as_kind(in, [=](auto *exact) { place_child(exact, byte, added); });
    in->count.set(static_cast<uint16_t>(in->count.get() + 1));
}

/* Calls visit(byte, child) for each child, in the order of their bytes. */
template <kind KIND, class Visit> void visit_children(sorted_node<KIND> *in, Visit &visit)
{
    for (unsigned i = 0; i < in->count.get(); i++) {
        visit(in->bytes[i].get(), in->children[i].get());
    }
}

template <class Visit> void visit_children(node_48 *in, Visit &visit)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        const unsigned place = in->places[byte].get();
        if (place != 0) {
            visit(static_cast<uint8_t>(byte), in->children[place - 1].get());
        }
    }
}

template <class Visit> void visit_children(node_256 *in, Visit &visit)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        const child found = in->children[byte].get();
        if (!found.is_none()) {
            visit(static_cast<uint8_t>(byte), found);
        }
    }
}

template <class Visit> void for_each_child(node *in, Visit visit)
{
    as_kind(in, [&visit](auto *exact) { visit_children(exact, visit); });
}

/* ---- Nodes made of others ----------------------------------------------------------------- */

/* An empty node of the next kind in a full one's place, which is not of the largest kind. */
node *larger_node(const node *full)
{
    switch (full->type) {
    case NODE_4:
        return new node_16(full->path, full->level);
    case NODE_16:
        return new node_48(full->path, full->level);
    default:
        return new node_256(full->path, full->level);
    }
}

/* The node at which two keys part, with what holds the one and what holds the other. */
node *branch(uint64_t key, child holder, uint64_t other_key, child other_holder)
{
    const uint8_t level = parting_level(key, other_key);
    node *at = new node_4(path_of(key, level), level);
    add_child(at, byte_of(key, level), holder);
    add_child(at, byte_of(other_key, level), other_holder);
    return at;
}

void free_node(node *only)
{
    as_kind(only, [](auto *exact) { delete exact; });
}

/* ---- The tree ----------------------------------------------------------------------------- */

class radix_tree {
    node_256 root{0, 0}; /* always there and never full, so that every other node has a parent */

    /* Puts a leaf into the place of a missing child. A full node is replaced by a larger one, and
       stays for those who may still read it until the program ends. */
    static bool add_leaf(node *parent, uint64_t parent_version, node *in, uint64_t version,
                         leaf_record *leaf)
    {
        const uint8_t byte = byte_of(leaf->key, in->level);
        if (!is_full(in)) {
            if (!in->lock.lock_if(version)) {
                return false;
            }
            add_child(in, byte, child(leaf));
            in->lock.unlock();
            return true;
        }
        /* Made before locking: the others wait for as long as the locks are held. */
        node *larger = larger_node(in);
        const bool parent_is_ours = parent->lock.lock_if(parent_version);
        const bool done = parent_is_ours && in->lock.lock_if(version);
        if (done) {
            for_each_child(in, [larger](uint8_t moved_byte, child moved) {
                add_child(larger, moved_byte, moved);
            });
            add_child(larger, byte, child(leaf));
            link_of(parent, byte_of(leaf->key, parent->level))->set(child(larger));
            in->lock.unlock_obsolete();
        } else {
            free_node(larger);
        }
        if (parent_is_ours) {
            parent->lock.unlock();
        }
        return done;
    }

    /* Puts a node into the place of a child, for that child and a new leaf. */
    static bool add_branch(node *parent, uint64_t version, child present, uint64_t present_key,
                           leaf_record *leaf)
    {
        node *above = branch(leaf->key, child(leaf), present_key, present);
        if (!parent->lock.lock_if(version)) {
            free_node(above);
            return false;
        }
        link_of(parent, byte_of(leaf->key, parent->level))->set(child(above));
        parent->lock.unlock();
        return true;
    }

    outcome try_insert(leaf_record *leaf)
    {
        const uint64_t key = leaf->key;
        node *parent = nullptr;
        uint64_t parent_version = 0;
        node *current = &root;
        uint64_t version;
        if (!current->lock.read(&version)) {
            return outcome::RESTART;
        }
        for (;;) {
            if (path_of(key, current->level) != current->path) {
                return add_branch(parent, parent_version, child(current), current->path, leaf)
                           ? outcome::INSERTED
                           : outcome::RESTART;
            }
            const child_link<child> *link = link_of(current, byte_of(key, current->level));
            const child next = link == nullptr ? child() : link->get();
            if (!current->lock.unchanged(version)) {
                return outcome::RESTART;
            }
            if (next.is_none()) {
                return add_leaf(parent, parent_version, current, version, leaf)
                           ? outcome::INSERTED
                           : outcome::RESTART;
            }
            if (next.is_leaf()) {
                const uint64_t present_key = next.leaf()->key;
                if (present_key == key) {
                    return outcome::PRESENT;
                }
                return add_branch(current, version, next, present_key, leaf) ? outcome::INSERTED
                                                                             : outcome::RESTART;
            }
            parent = current;
            parent_version = version;
            current = next.inner();
            /* The version is that of a node that still hangs there if its parent is unchanged after
               it was noted. */
            if (!current->lock.read(&version) || !parent->lock.unchanged(parent_version)) {
                return outcome::RESTART;
            }
        }
    }

    using node_counts = uint64_t[KINDS];

    template <class Visit>
    static void walk_node(node *in, bool is_root, node_counts &nodes, Visit &visit)
    {
        const unsigned count = in->count.get();
        unsigned found = 0;
        int last_byte = -1;
        if (!in->lock.at_rest()) {
            die(STATUS_WRONG, "a node is still locked, or was replaced by a larger one");
        }
        if (count > LIMITS[in->type].capacity || (!is_root && count < LIMITS[in->type].minimum)) {
            die(STATUS_WRONG, "a node for %u children has %u", LIMITS[in->type].capacity, count);
        }
        for_each_child(in, [&](uint8_t byte, child next) {
            const bool below = next.is_leaf() || next.inner()->level > in->level;
            const uint64_t prefix = next.is_leaf() ? next.leaf()->key : next.inner()->path;
            if (!below || path_of(prefix, in->level) != in->path ||
                byte_of(prefix, in->level) != byte || byte <= last_byte) {
                die(STATUS_WRONG, "%016" PRIx64 " hangs in a wrong place", prefix);
            }
            last_byte = byte;
            found++;
            if (next.is_leaf()) {
                visit(next.leaf()->key, next.leaf()->value);
            } else {
                walk_node(next.inner(), false, nodes, visit);
            }
        });
        if (found != count) {
            die(STATUS_WRONG, "a node has %u children but counts %u", found, count);
        }
        nodes[in->type]++;
    }

  public:
    static constexpr bool ORDERED = true;

    bool insert(uint64_t key, uint64_t value)
    {
        auto *leaf = new leaf_record{key, value};
        unsigned spins = 0;
        for (;;) {
            switch (try_insert(leaf)) {
            case outcome::INSERTED:
                return true;
            case outcome::PRESENT:
                delete leaf;
                return false;
            case outcome::RESTART:
                spin_wait(&spins);
            }
        }
    }

    bool find(uint64_t key, uint64_t *value)
    {
        child current(&root);
        while (!current.is_none() && !current.is_leaf()) {
            /* A byte skipped by a compressed path shows at the leaf. */
            node *in = current.inner();
            const child_link<child> *link = link_of(in, byte_of(key, in->level));
            current = link == nullptr ? child() : link->get();
        }
        if (current.is_none() || current.leaf()->key != key) {
            return false;
        }
        *value = current.leaf()->value;
        return true;
    }

    template <class Visit> void walk(Visit visit)
    {
        node_counts nodes = {};
        walk_node(&root, true, nodes, visit);
        printf("%s: nodes for 4, 16, 48 and 256 children: %" PRIu64 ", %" PRIu64 ", %" PRIu64
               " and %" PRIu64 "\n",
               PROGRAM, nodes[NODE_4], nodes[NODE_16], nodes[NODE_48], nodes[NODE_256]);
    }
};

} // namespace

int main(int argc, char **argv)
{
    return run_inserts<radix_tree>(argc, argv, INSERTS_DEFAULT);
}
