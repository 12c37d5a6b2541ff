/* Benchmark: streaming updates over 32 MB arrays. See stream_kernel.h. */
#include "stream_kernel.h"

int main(int argc, char **argv)
{
    return kernel_main(argc, argv, "stream", stream_kernel);
}
