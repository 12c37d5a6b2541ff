/*
 * Optimistic lock coupling, C++17: what the nodes of a tree need for it.
 *
 * V. Leis, F. Scheibner, A. Kemper and T. Neumann, "The ART of practical synchronization", DaMoN
 * 2016. Each node has a lock with a version. A reader takes no lock: it notes the version, reads
 * what it needs, and goes on only if the version is still the same; else it restarts from the
 * root. A writer makes the version that it noted into a lock, which fails if anyone else was
 * faster, and unlocking counts the version up.
 *
 * Always true: what a reader may read while a writer writes is in a `cell` or a `child_link`, so
 * that there are no data races; what it read means nothing until the version was found unchanged,
 * and no pointer is followed before. What a node holds outside of them is set before a link to the
 * node is, and never changes. Memory that was reachable once is never freed, since others may
 * still read it.
 */
#ifndef PERDURE_OPTIMISTIC_H
#define PERDURE_OPTIMISTIC_H

#include <atomic>

#include "parallel.h"

/* A number that a writer may change while readers read it. */
template <class Number> class cell {
    std::atomic<Number> number{0};

  public:
    Number get() const { return number.load(std::memory_order_relaxed); }
    void set(Number value) { number.store(value, std::memory_order_relaxed); }
};

/* A pointer that a writer may change while readers read it: who reads it sees what was written
   before it was set. */
template <class Pointer> class child_link {
    std::atomic<Pointer> pointer{};

  public:
    Pointer get() const { return pointer.load(std::memory_order_acquire); }
    void set(Pointer value) { pointer.store(value, std::memory_order_release); }
};

class version_lock {
    static constexpr uint64_t OBSOLETE = 1; /* the node is no longer part of the tree */
    static constexpr uint64_t LOCKED = 2;   /* added again to unlock: carries into the version */

    std::atomic<uint64_t> word{0};

  public:
    /* Notes the version once no writer holds the lock. False: the node is obsolete. */
    bool read(uint64_t *version) const
    {
        unsigned spins = 0;
        while ((*version = word.load(std::memory_order_acquire)) & LOCKED) {
            spin_wait(&spins);
        }
        return (*version & OBSOLETE) == 0;
    }

    /* Whether no writer has come since `version` was noted. */
    bool unchanged(uint64_t version) const
    {
        std::atomic_thread_fence(std::memory_order_acquire);
        return word.load(std::memory_order_relaxed) == version;
    }

    /* Takes the lock if no writer has come since `version` was noted. */
    bool lock_if(uint64_t version)
    {
        if (!word.compare_exchange_strong(version, version + LOCKED, std::memory_order_acquire,
                                          std::memory_order_relaxed)) {
            return false;
        }
        /* Whoever sees a store that follows sees the lock too. */
        std::atomic_thread_fence(std::memory_order_release);
        return true;
    }

    void unlock() { word.fetch_add(LOCKED, std::memory_order_release); }

    void unlock_obsolete() { word.fetch_add(LOCKED + OBSOLETE, std::memory_order_release); }

    /* Whether the node is at rest and part of the tree. */
    bool at_rest() const
    {
        return (word.load(std::memory_order_acquire) & (LOCKED | OBSOLETE)) == 0;
    }
};

/* How one attempt to insert ended. */
enum class outcome { INSERTED, PRESENT, RESTART };

#endif
