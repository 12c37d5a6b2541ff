/*
 * bst POOL [OPTION]...: BST of the flush study, a binary search tree.
 *
 * Operations (section III-A of the paper): insert, delete and search random keys. A line for each node.
 *
 * Flushes and fences: the persistent barrier of the paper's figure 2 (fence, flush, fence) at each line
 * that an insertion or deletion changes. So many are in the paper's table V: two barriers for each
 * insertion and one for each deletion. Our assumption: a deletion of a node with two children has one
 * more, for the copies that it makes (bst.h).
 *
 * Recovery: nothing to mend. Check: pointers, order of keys, contents.
 */
#define PROGRAM "bst"
#include "bst.h"

static void structure_make(void)
{
}

static void structure_recover(void)
{
    tree_check(*tree_root(), 0, UINT64_MAX, 0);
}

static void structure_insert(uint64_t element)
{
    tree_insert(element);
}

static void structure_erase(uint64_t element)
{
    tree_erase(element);
}

static bool structure_find(uint64_t element)
{
    return tree_find(element);
}

int main(int argc, char **argv)
{
    return run(argc, argv, DEPTH_MAX, NULL);
}
