/* Memory modules as files: what may be mapped, what is refused, and that all see the same bytes. Ends with
 * the number of the first check that fails. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096
#define CHECK(number, truth) \
    if (!(truth)) return number

static char *map(int file, int pages, int protection, int flags, long offset) {
    char *mapped = mmap(0, pages * PAGE, protection, flags, file, offset);
    return mapped == MAP_FAILED ? 0 : mapped;
}

int main(void) {
    int both = PROT_READ | PROT_WRITE;
    int memory = open("/dev/module/near", O_RDWR), device = open("/dev/module/near.device", O_RDWR);
    CHECK(1, memory >= 0 && device >= 0 && open("/dev/module/far", O_RDWR) == -1);
    struct stat about;
    CHECK(2, fstat(memory, &about) == 0 && S_ISCHR(about.st_mode));
    char byte = 1;
    CHECK(3, read(memory, &byte, 1) == -1 && errno == EINVAL);
    CHECK(4, write(memory, &byte, 1) == -1 && errno == EINVAL);
    CHECK(5, !map(memory, 1, both, MAP_PRIVATE, 0) && errno == EINVAL);
    CHECK(6, !map(memory, 5, both, MAP_SHARED, 0) && errno == EINVAL);
    CHECK(7, !map(memory, 1, both, MAP_SHARED, 4 * PAGE) && errno == EINVAL);

    char *all = map(memory, 4, both, MAP_SHARED, 0), *last = map(memory, 1, PROT_READ, MAP_SHARED, 3 * PAGE);
    CHECK(8, all && last);
    strcpy(all + 3 * PAGE, "seen by both");
    CHECK(9, strcmp(last, "seen by both") == 0);
    CHECK(10, mprotect(last, PAGE, both) == 0);
    strcpy(last, "and written");
    CHECK(11, strcmp(all + 3 * PAGE, "and written") == 0);
    int status = 0;
    if (fork() == 0) {
        strcpy(all, "by a child");
        _exit(0);
    }
    CHECK(12, wait(&status) > 0 && status == 0 && strcmp(all, "by a child") == 0);
    CHECK(13, munmap(all, 4 * PAGE) == 0);
    all = map(memory, 4, PROT_READ, MAP_SHARED, 0);
    CHECK(14, all && strcmp(all, "by a child") == 0 && strcmp(all + 3 * PAGE, "and written") == 0);
    /* The kernel itself reads and writes a module's memory, and no device. */
    int file = open("kept", O_CREAT | O_RDWR, 0600);
    CHECK(15, write(file, all, PAGE) == PAGE && pread(file, last, 4, 0) == 4);
    CHECK(16, memcmp(all + 3 * PAGE, "by a", 4) == 0);
    char *commands = map(device, 1, PROT_READ, MAP_SHARED, 0);
    CHECK(17, commands && write(file, commands, 8) == -1 && errno == EFAULT);
    CHECK(18, mprotect(commands, PAGE, both) == 0);
    CHECK(19, pread(file, commands, 8, 0) == -1 && errno == EFAULT);
    return 0;
}
