/* Mappings of MAP_SHARED_VALIDATE, which takes no flag that it does not know. */
#include "facts.h"
#include <linux/mman.h>

static void *mapped(int flags, int descriptor)
{
    return mmap(NULL, 4096, PROT_READ, flags, descriptor, 0);
}

int main(void)
{
    int file = open("file", O_RDWR | O_CREAT | O_TRUNC, 0644);
    FACT(ftruncate(file, 8192));
    int folder = open(".", O_RDONLY), zeros = open("/dev/zero", O_RDWR);
    int nobody = 77, nowhere = -1;

    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE, file, 0);
    FACT(page != MAP_FAILED);
    page[0] = 7;
    char byte = 0;
    FACT(pread(file, &byte, 1, 0));
    FACT(byte);
    WORKS(mapped(MAP_SHARED_VALIDATE | MAP_POPULATE | MAP_NORESERVE | MAP_NONBLOCK | MAP_STACK, file));
    WORKS(mapped(MAP_SHARED_VALIDATE | MAP_DENYWRITE | MAP_EXECUTABLE, file));
    WORKS(mapped(MAP_SHARED_VALIDATE | MAP_HUGE_1GB, file));
    WORKS(mapped(MAP_SHARED_VALIDATE, zeros));

    CALL(mapped(MAP_SHARED_VALIDATE | MAP_SYNC, file));
    CALL(mapped(MAP_SHARED_VALIDATE | MAP_FIXED_NOREPLACE, file));
    CALL(mapped(MAP_SHARED_VALIDATE | 0x1000000, file));
    CALL(mapped(MAP_SHARED_VALIDATE | 0x200, file));
    CALL(mapped(MAP_SHARED_VALIDATE | MAP_SYNC, folder));
    CALL(mapped(MAP_SHARED_VALIDATE | MAP_SYNC, zeros));
    CALL(mapped(MAP_SHARED_VALIDATE | MAP_SYNC, nobody));
    CALL(mapped(MAP_SHARED_VALIDATE | MAP_ANONYMOUS, nowhere));
    CALL(mapped(MAP_PRIVATE | 4, file));

    /* Older types say nothing of flags that they do not know. */
    WORKS(mapped(MAP_SHARED | 0x1000000, file));
    WORKS(mapped(MAP_PRIVATE | 0x1000000, file));
    return 0;
}
