/* Benchmark: integer compute in a small footprint. See compute_kernel.h. */
#include "compute_kernel.h"

int main(int argc, char **argv)
{
    return kernel_main(argc, argv, "compute", compute_kernel);
}
