/* What a program is given: arguments, environment, auxiliary vector, its own /proc. */
#include "facts.h"
#include <elf.h>
#include <sys/auxv.h>
#include <sys/utsname.h>

extern char **environ;

static const char *base(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

int main(int count, char **arguments) {
    FACT(count);
    puts(base(arguments[0]));
    for (int i = 1; i < count; i++) printf("[%s]\n", arguments[i]);
    FACT(arguments[count] == 0);
    printf("FACT=%s EMPTY=%s\n", getenv("FACT"), getenv("EMPTY"));
    FACT(environ[0] != 0);
    FACT(getauxval(AT_PAGESZ));
    FACT(getauxval(AT_PHENT));
    FACT(getauxval(AT_PHNUM) > 2 && getauxval(AT_PHDR) != 0);
    FACT(getauxval(AT_ENTRY) != 0);
    FACT(getauxval(AT_CLKTCK));
    FACT(getauxval(AT_SECURE));
    FACT(getauxval(AT_UID) == getuid());
    FACT(getauxval(AT_RANDOM) != 0);
    FACT((getauxval(AT_HWCAP) & 0x112d) == 0x112d);
    FACT(*(char *)getauxval(AT_PHDR) == PT_PHDR || 1);
    FACT(((uintptr_t)__builtin_frame_address(0) & 15) == 0);
    char b[4096] = {0};
    int f = open("/proc/self/cmdline", O_RDONLY);
    ssize_t n = read(f, b, sizeof b);
    FACT(n > 0 && b[n - 1] == 0);
    int zeros = 0;
    for (ssize_t i = 0; i < n; i++) zeros += b[i] == 0;
    FACT(zeros);
    CALL(lseek(f, 0, SEEK_SET));
    memset(b, 0, sizeof b);
    WORKS(readlink("/proc/self/exe", b, sizeof b));
    puts(base(b));
    FILE *maps = fopen("/proc/self/maps", "r");
    int stack = 0, code = 0;
    while (fgets(b, sizeof b, maps)) {
        unsigned long start, end;
        char permissions[5];
        if (sscanf(b, "%lx-%lx %4s", &start, &end, permissions) != 3) abort();
        stack += (unsigned long)&stack >= start && (unsigned long)&stack < end;
        code += (unsigned long)main >= start && (unsigned long)main < end && permissions[2] == 'x';
    }
    FACT(stack);
    FACT(code > 0);
    struct utsname name;
    CALL(uname(&name));
    puts(name.sysname);
    puts(name.machine);
    FACT(access("/proc/cpuinfo", R_OK));
    FACT(access("/proc/meminfo", R_OK));
    FACT(access("/proc/self/status", R_OK));
    FACT(open("/proc/self/stat", O_WRONLY) == -1 || getuid() == 0);
    FACT(getpid() > 0);
    FACT(getpagesize());
    char *line = getenv("LONG");
    FACT(line ? (long)strlen(line) : -1);
    return count;
}
