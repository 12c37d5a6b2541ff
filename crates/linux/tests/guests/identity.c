/* Identity, limits, scheduling questions. */
#include "facts.h"
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

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
