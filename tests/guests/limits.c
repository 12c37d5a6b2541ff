// What `setrlimit` limits of memory, processes, signals and processor time, beside what
// crates/linux/tests/guests/limits.c compares with qemu: that emulator keeps these limits to itself.
// The answers are those of Linux 6.12 for an unprivileged user.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
static const char *name(void) {
    return errno == ENOMEM ? "ENOMEM" : errno == EPERM ? "EPERM" : errno == EAGAIN ? "EAGAIN" : "other";
}
#define MIB (1L << 20)
#define CALL(e) do { errno = 0; long r_ = (long)(e); \
    printf("%s: %s\n", #e, r_ == -1 ? name() : "ok"); } while (0)
static void soft(int what, rlim_t to) {
    struct rlimit now; getrlimit(what, &now); now.rlim_cur = to;
    if (setrlimit(what, &now)) printf("setrlimit: %s\n", name());
}
static int deep(long bytes) { volatile char frame[4096]; frame[0] = 1; return bytes <= 0 ? 0 : deep(bytes - 4096) + frame[0]; }
static int status_of(void (*act)(void)) {
    fflush(stdout);
    int child = fork(), status = 0;
    if (child == 0) { act(); fflush(stdout); _exit(0); }
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
static void *map(long bytes, int how) { return mmap(0, bytes, PROT_READ | how, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }
static void address_space(void) {
    soft(RLIMIT_AS, 64 * MIB);
    char *a = map(40 * MIB, PROT_WRITE);
    CALL(a);
    CALL(map(40 * MIB, 0));
    CALL(mremap(a, 40 * MIB, 80 * MIB, MREMAP_MAYMOVE));
    CALL(sbrk(40 * MIB));
    CALL(mmap(a, 40 * MIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
    CALL(mremap(a, 40 * MIB, 20 * MIB, MREMAP_MAYMOVE));
    CALL(sbrk(20 * MIB));
    printf("malloc %s\n", malloc(40 * MIB) ? "works" : name());
    munmap(a, 20 * MIB);
    CALL(map(20 * MIB, PROT_WRITE));
}
static void data(void) {
    soft(RLIMIT_DATA, 16 * MIB);
    CALL(map(40 * MIB, PROT_WRITE));
    char *a = map(40 * MIB, 0);
    CALL(a);
    CALL(mprotect(a, 40 * MIB, PROT_READ | PROT_WRITE));
    CALL(mprotect(a, 8 * MIB, PROT_READ | PROT_WRITE));
    CALL(mprotect(a, 8 * MIB, PROT_READ | PROT_WRITE));
    CALL(mmap(0, 40 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    CALL(sbrk(12 * MIB));
    CALL(sbrk(MIB));
}
static void short_stack(void) { soft(RLIMIT_STACK, 256 << 10); deep(128 << 10); printf("128 KiB\n"); fflush(stdout); deep(MIB); printf("1 MiB\n"); }
static void long_stack(void) { soft(RLIMIT_STACK, 64 * MIB); deep(40 * MIB); printf("40 MiB\n"); fflush(stdout); deep(70 * MIB); printf("70 MiB\n"); }
static void usual_stack(void) { deep(7 * MIB); printf("7 MiB\n"); fflush(stdout); deep(9 * MIB); printf("9 MiB\n"); }
static void processes(void) {
    soft(RLIMIT_NPROC, 5);
    int made = 0, child, children[50];
    while (made < 50 && (child = fork()) > 0) children[made++] = child;
    if (child == 0) { pause(); _exit(0); }
    printf("%d %s\n", made, name());
    for (int at = 0; at < made; at++) kill(children[at], SIGKILL);
}
static void locked(void) {
    char *a = map(MIB, PROT_WRITE);
    soft(RLIMIT_MEMLOCK, 64 << 10);
    CALL(mlock(a, 64 << 10));
    CALL(mlock(a, 32 << 10));
    CALL(mlock(a + (64 << 10), 1));
    CALL(munlock(a, 4096));
    CALL(mlock(a + (64 << 10), 1));
    CALL(mlockall(MCL_CURRENT));
    char line[200]; FILE *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, status)) if (!strncmp(line, "VmLck", 5)) printf("%s", line);
    fclose(status);
    fflush(stdout);
    if (fork() == 0) { CALL(mlock(a, 64 << 10)); fflush(stdout); _exit(0); }
    wait(0);
    CALL(munlockall());
    CALL(mlock(a, 64 << 10));
    soft(RLIMIT_MEMLOCK, 0);
    CALL(mlock(a, 1));
}
static void queued(void) {
    sigset_t set; sigemptyset(&set); sigaddset(&set, SIGRTMIN); sigprocmask(SIG_BLOCK, &set, 0);
    soft(RLIMIT_SIGPENDING, 3);
    int made = 0;
    while (made < 100 && !sigqueue(getpid(), SIGRTMIN, (union sigval){0})) made++;
    printf("%d %s\n", made, name());
}
static volatile int told;
static void tell(int signal) { told++; (void)signal; }
static void cpu(void) {
    struct rlimit both = {1, 3};
    setrlimit(RLIMIT_CPU, &both);
    signal(SIGXCPU, tell);
    for (int seen = 0;;) if (told > seen) { seen = told; getrlimit(RLIMIT_CPU, &both); printf("told %d, now %ld\n", seen, (long)both.rlim_cur); fflush(stdout); }
}
static void cpu_at_once(void) { struct rlimit both = {1, 3}; setrlimit(RLIMIT_CPU, &both); for (;;); }
static void programs(void) {
    struct rlimit both = {77, 99};
    setrlimit(RLIMIT_NOFILE, &both);
    execl("/proc/self/exe", "more", "shown", (char *)0);
}
int main(int count, char **words) {
    (void)words;
    setvbuf(stdout, 0, _IOFBF, 1 << 16);
    if (count > 1) {
        struct rlimit both; getrlimit(RLIMIT_NOFILE, &both);
        char line[200]; FILE *limits = fopen("/proc/self/limits", "r");
        while (fgets(line, sizeof line, limits)) if (!strncmp(line, "Max open", 8) || !strncmp(line, "Max core", 8)) printf("%s", line);
        printf("%ld %ld\n", (long)both.rlim_cur, (long)both.rlim_max);
        return 0;
    }
#define RUN(name) printf(#name " ends with %d\n", status_of(name))
    RUN(address_space); RUN(data); RUN(usual_stack); RUN(short_stack); RUN(long_stack); RUN(locked); RUN(queued); RUN(programs);
    RUN(cpu); RUN(cpu_at_once);
    RUN(processes);
    return 0;
}
