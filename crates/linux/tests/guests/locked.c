/* Memory that is locked, and capabilities that an ordinary user has not. locked.txt has the facts as
 * Linux states them to one (qemu-user would state those of whoever runs it). */
#include "facts.h"
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { PAGE = 4096 };

/* VmLck of /proc/self/status, in pages. */
static long locked_pages(void)
{
    char line[256];
    long kib = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        sscanf(line, "VmLck: %ld", &kib);
    fclose(status);
    return kib / 4;
}

static void limit(rlim_t bytes)
{
    struct rlimit limit = {bytes, 64 * PAGE};
    CALL(setrlimit(RLIMIT_MEMLOCK, &limit));
}

static void *mapped(int pages, int flags)
{
    void *at = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static void ranges(void)
{
    limit(16 * PAGE);
    char *pages = mapped(20, 0);
    CALL(mlock(pages + 10, PAGE));
    FACT(locked_pages());
    CALL(mlock2(pages, 4 * PAGE, MLOCK_ONFAULT));
    FACT(locked_pages());
    CALL(mlock2(pages, PAGE, 2));
    CALL(mlock(pages, 17 * PAGE));
    CALL(mlock(pages, 16 * PAGE));
    CALL(munlock(pages + 4 * PAGE, 12 * PAGE));
    FACT(locked_pages());
    CALL(munmap(pages, PAGE));
    FACT(locked_pages());
    CALL(mlock(pages, 2 * PAGE));
    CALL(munlock(pages, 2 * PAGE));
    FACT(mapped(14, MAP_LOCKED) == NULL);
    FACT(errno == EAGAIN);
    FACT(mapped(13, MAP_LOCKED) != NULL);
    FACT(locked_pages());
    /* A child has none of them. */
    fflush(stdout);
    if (fork() == 0) {
        FACT(locked_pages());
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
    CALL(munlockall());
    FACT(locked_pages());
}

static void future(void)
{
    limit(64 * PAGE);
    CALL(mlockall(0));
    CALL(mlockall(8));
    CALL(mlockall(MCL_ONFAULT));
    CALL(mlockall(MCL_FUTURE));
    FACT(locked_pages());
    char *pages = mapped(10, 0);
    FACT(locked_pages());
    FACT(mapped(55, 0) == NULL);
    FACT(errno == EAGAIN);
    char *moved = mremap(pages, 10 * PAGE, 20 * PAGE, MREMAP_MAYMOVE);
    FACT(moved != MAP_FAILED);
    FACT(locked_pages());
    FACT(mremap(moved, 20 * PAGE, 70 * PAGE, MREMAP_MAYMOVE) == MAP_FAILED);
    FACT(errno == EAGAIN);
    char *end = sbrk(0);
    FACT(brk(end + 8 * PAGE));
    FACT(locked_pages());
    FACT(brk(end + 60 * PAGE));
    CALL(munlock(moved, 20 * PAGE));
    FACT(locked_pages());
    fflush(stdout);
    if (fork() == 0) {
        mapped(5, 0);
        FACT(locked_pages());
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
    CALL(mlockall(MCL_CURRENT));
    FACT(locked_pages() > 8);
    CALL(munlockall());
    mapped(5, 0);
    FACT(locked_pages());
    limit(0);
    CALL(mlockall(MCL_FUTURE));
    CALL(mlock(moved, PAGE));
    FACT(mapped(1, MAP_LOCKED) == NULL);
    FACT(errno == EPERM);
}

static void capabilities(void)
{
    struct __user_cap_header_struct header = {0x20080522, 0};
    struct __user_cap_data_struct data[2];
    memset(data, 1, sizeof data);
    CALL(syscall(SYS_capget, &header, data));
    FACT(data[0].effective | data[0].permitted | data[1].effective | data[1].permitted);
    memset(data, 0, sizeof data);
    CALL(syscall(SYS_capset, &header, data));
    data[1].permitted = 1;
    CALL(syscall(SYS_capset, &header, data));
    data[1].permitted = 0;
    data[0].inheritable = 1;
    CALL(syscall(SYS_capset, &header, data));
    header.pid = getpid();
    CALL(syscall(SYS_capget, &header, data));
    data[0].inheritable = 0;
    CALL(syscall(SYS_capset, &header, data));
    header.pid = 1 << 22;
    CALL(syscall(SYS_capget, &header, data));
    CALL(syscall(SYS_capset, &header, data));
    header.pid = -1;
    CALL(syscall(SYS_capget, &header, data));
    header = (struct __user_cap_header_struct){1, 0};
    CALL(syscall(SYS_capget, &header, NULL));
    FACT(header.version == 0x20080522);
    header.version = 1;
    CALL(syscall(SYS_capset, &header, data));
    FACT(header.version == 0x20080522);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    ranges();
    future();
    capabilities();
}
