/* Policies and niceness: what nobody gets back, and what is not handed on. policies.txt has the facts as
 * Linux itself states them. */
#include "facts.h"
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>

struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
    uint32_t least, most;
};

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    enum { RESET = 1, KEEP_POLICY = 8, KEEP_PARAMETERS = 16 };
    struct sched_param none = {0};
    struct timespec time;
    struct attributes all = {.size = 48, .nice = 3}, told = {0};
    CALL(sched_getscheduler(-1));
    CALL(sched_getparam(-1, &none));
    CALL(sched_getparam(0, NULL));
    CALL(sched_rr_get_interval(-1, &time));
    CALL(syscall(SYS_sched_setattr, 0, &all, 0));
    all.nice = 2;
    CALL(syscall(SYS_sched_setattr, 0, &all, 0));
    CALL(nice(0));
    all.flags = KEEP_PARAMETERS;
    CALL(syscall(SYS_sched_setattr, 0, &all, 0));
    all.flags = KEEP_POLICY, all.policy = SCHED_FIFO, all.nice = 4;
    CALL(syscall(SYS_sched_setattr, 0, &all, 0));
    CALL(nice(0));
    all.flags = 1 << 20;
    CALL(syscall(SYS_sched_setattr, 0, &all, 0));
    all.flags = 0, all.size = 20;
    CALL(syscall(SYS_sched_setattr, 0, &all, 0));
    FACT(all.size);
    CALL(sched_setscheduler(0, SCHED_BATCH | SCHED_RESET_ON_FORK, &none));
    FACT(sched_getscheduler(0));
    CALL(syscall(SYS_sched_getattr, 0, &told, sizeof told, 0));
    FACT(told.policy);
    FACT(told.flags);
    FACT(told.nice);
    pid_t child = fork();
    if (child == 0) {
        FACT(sched_getscheduler(0));
        CALL(nice(0));
        CALL(sched_setscheduler(0, SCHED_BATCH, &none));
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    CALL(sched_setscheduler(0, SCHED_BATCH, &none));
    CALL(sched_setscheduler(0, SCHED_IDLE | SCHED_RESET_ON_FORK, &none));
    CALL(sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &none));
    FACT(sched_getscheduler(0));
    CALL(setpriority(PRIO_PROCESS, 0, 6));
    CALL(setpriority(PRIO_PROCESS, 0, 5));
    return 0;
}
