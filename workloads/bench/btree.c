/* Benchmark: a B+tree under a million random inserts. See btree_kernel.h. */
#include "btree_kernel.h"

int main(int argc, char **argv)
{
    return kernel_main(argc, argv, "btree", btree_kernel);
}
