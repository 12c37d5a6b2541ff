/* Identity, limits, scheduling questions. */
#include "facts.h"
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>

static int told[2];

static void handler(int number, siginfo_t *info, void *context)
{
    (void)context;
    char text[2] = {(char)number, (char)info->si_code};
    _exit(write(told[1], text, 2) != 2);
}

// A process that is to be told when its parent ends.
static void orphans(void)
{
    int signal = -1, ready[2];
    CALL(prctl(PR_GET_PDEATHSIG, &signal));
    FACT(signal);
    CALL(prctl(PR_SET_PDEATHSIG, 65));
    CALL(pipe(told) | pipe(ready));
    fflush(stdout);
    pid_t parent = fork();
    if (parent == 0) {
        if (fork() == 0) {
            struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
            sigaction(SIGUSR2, &action, NULL);
            prctl(PR_SET_PDEATHSIG, SIGUSR2);
            prctl(PR_GET_PDEATHSIG, &signal);
            _exit(write(ready[1], &signal, 1) != 1 || pause());
        }
        char byte = 0;
        _exit(read(ready[0], &byte, 1) != 1 || byte != SIGUSR2);
    }
    int status;
    char text[2];
    waitpid(parent, &status, 0);
    FACT(status);
    FACT(read(told[0], text, 2));
    FACT(text[0] == SIGUSR2), FACT(text[1] == SI_USER);
}

int main(void) {
    FACT(getuid() == geteuid() && getgid() == getegid());
    FACT(getpid() == getpgid(0) || 1);
    uid_t r, e, s;
    CALL(getresuid(&r, &e, &s));
    FACT(r == e && e == s);
    struct rlimit l;
    CALL(getrlimit(RLIMIT_NOFILE, &l));
    FACT(l.rlim_cur >= 1024 && l.rlim_cur <= l.rlim_max);
    l.rlim_cur = 64;
    CALL(setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}));
    CALL(getrlimit(RLIMIT_CORE, &l));
    FACT(l.rlim_cur == 0);
    CALL(getrlimit(RLIMIT_STACK, &l));
    FACT(l.rlim_cur > 0);
    CALL(prctl(PR_SET_NAME, "a name that is too long"));
    char name[16];
    CALL(prctl(PR_GET_NAME, name));
    puts(name);
    CALL(prctl(PR_GET_DUMPABLE) >= 0);
    CALL(prctl(PR_GET_SECUREBITS));
    CALL(prctl(123456));
    CALL(prctl(PR_GET_SECCOMP));
    CALL(prctl(PR_GET_KEEPCAPS));
    CALL(prctl(PR_SET_KEEPCAPS, 0));
    CALL(prctl(PR_SET_KEEPCAPS, 2));
    CALL(unshare(0));
    CALL(unshare(CLONE_FS | CLONE_SYSVSEM));
    CALL(unshare(1));
    orphans();
    cpu_set_t set;
    CALL(sched_getaffinity(0, sizeof set, &set));
    FACT(CPU_COUNT(&set) >= 1);
    CALL(sched_yield());
    CALL(sched_getscheduler(0));
    CALL(sched_get_priority_max(SCHED_FIFO));
    CALL(sched_get_priority_min(SCHED_FIFO));
    CALL(sched_get_priority_max(99));
    unsigned cpu, node;
    CALL(getcpu(&cpu, &node));
    struct sysinfo i;
    CALL(sysinfo(&i));
    FACT(i.totalram > 0 && i.mem_unit > 0);
    struct rusage u;
    CALL(getrusage(RUSAGE_SELF, &u));
    CALL(getrusage(99, &u));
    FACT(u.ru_maxrss > 0);
    FACT(sysconf(_SC_NPROCESSORS_ONLN) >= 1);
    FACT(sysconf(_SC_PAGESIZE));
    unsigned char a[64], b[64];
    CALL(syscall(SYS_getrandom, a, 64, 0));
    CALL(syscall(SYS_getrandom, b, 64, 0));
    FACT(memcmp(a, b, 64) != 0);
    int random = open("/dev/urandom", O_RDONLY);
    CALL(read(random, b, 64));
    FACT(memcmp(a, b, 64) != 0);
    CALL(nice(0));
    CALL(syscall(SYS_setuid, getuid()));
    CALL(syscall(SYS_membarrier, 0, 0, 0) >= 0);
    return 0;
}
