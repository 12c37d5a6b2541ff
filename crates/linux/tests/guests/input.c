// Standard input that nobody gives is the null device.
#include "facts.h"
#include <poll.h>
#include <sys/sysmacros.h>

int main(void)
{
    struct stat status;
    char text[64] = "";
    CALL(fstat(0, &status));
    FACT(S_ISCHR(status.st_mode));
    FACT(major(status.st_rdev));
    FACT(minor(status.st_rdev));
    CALL(readlink("/proc/self/fd/0", text, sizeof text - 1));
    printf("%s\n", text);
    struct pollfd entry = {.fd = 0, .events = POLLIN};
    CALL(poll(&entry, 1, -1));
    FACT(entry.revents);
    CALL(read(0, text, sizeof text));
    CALL(lseek(0, 0, SEEK_CUR));
    FACT(isatty(0));
    return 0;
}
