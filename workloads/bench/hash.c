/* Benchmark: a 64 MB hash table under random updates. See hash_kernel.h. */
#include "hash_kernel.h"

int main(int argc, char **argv)
{
    return kernel_main(argc, argv, "hash", hash_kernel);
}
