/*
 * bst-p POOL [OPTION]...: BST_P of the flush study, a binary search tree that threads share.
 *
 * Operations (section III-A of the paper): those of bst, by POSIX threads; one lock, for many readers or
 * one writer, around each. Our assumption: four threads, each with elements and operations of its own.
 *
 * Flushes and fences: those of bst. They end before the lock is released, so that no thread builds upon
 * what is not durable yet.
 *
 * Recovery: nothing to mend. Check: pointers, order of keys, and that the contents are those after some of
 * each thread's operations.
 */
#define PROGRAM "bst-p"
#define THREADS_DEFAULT 4
#include "bst.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

static void structure_make(void)
{
}

static void structure_recover(void)
{
    tree_check(*tree_root(), 0, UINT64_MAX, 0);
}

static void structure_insert(uint64_t element)
{
    pthread_rwlock_wrlock(&lock);
    tree_insert(element);
    pthread_rwlock_unlock(&lock);
}

static void structure_erase(uint64_t element)
{
    pthread_rwlock_wrlock(&lock);
    tree_erase(element);
    pthread_rwlock_unlock(&lock);
}

static bool structure_find(uint64_t element)
{
    pthread_rwlock_rdlock(&lock);
    const bool is_there = tree_find(element);
    pthread_rwlock_unlock(&lock);
    return is_there;
}

int main(int argc, char **argv)
{
    return run(argc, argv, DEPTH_MAX, NULL);
}
