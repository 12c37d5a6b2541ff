/*
 * End-to-end test: signals, synchronous and not, and what a handler may change.
 *
 *   signals [ROUNDS]      default 200 rounds of the repeated tests
 *
 * Always true: each test prints one line, a function of the argument alone; times and
 * addresses are compared but not printed.
 */
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static volatile sig_atomic_t deliveries;
static volatile sig_atomic_t nesting;
static volatile sig_atomic_t deepest;
static char order[64];

static void install(int signal, void (*handler)(int, siginfo_t *, void *), int flags)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | flags;
    sigemptyset(&action.sa_mask);
    if (sigaction(signal, &action, NULL) != 0) {
        perror("signals: sigaction");
        exit(EXIT_FAILURE);
    }
}

static void count(int signal, siginfo_t *info, void *context)
{
    (void)context;
    deliveries += info->si_signo == signal;
}

static void append(int signal, siginfo_t *info, void *context)
{
    (void)info;
    (void)context;
    const size_t length = strlen(order);
    if (length + 1 < sizeof order) {
        order[length] = signal == SIGUSR1 ? '1' : '2';
    }
}

static void nest(int signal, siginfo_t *info, void *context)
{
    (void)info;
    (void)context;
    nesting++;
    deepest = nesting > deepest ? nesting : deepest;
    if (nesting < 5) {
        raise(signal); /* runs at once with SA_NODEFER, else only after this handler */
    }
    nesting--;
    deliveries++;
}

static void test_raise(int rounds)
{
    install(SIGUSR1, count, 0);
    deliveries = 0;
    for (int i = 0; i < rounds; i++) {
        raise(SIGUSR1);
        kill(getpid(), SIGUSR1);
    }
    printf("raise: %d deliveries\n", deliveries);
    install(SIGUSR1, nest, SA_NODEFER);
    deliveries = nesting = deepest = 0;
    raise(SIGUSR1);
    printf("nested: %d deliveries, depth %d\n", deliveries, deepest);
    install(SIGUSR1, count, SA_RESETHAND);
    raise(SIGUSR1);
    struct sigaction now;
    sigaction(SIGUSR1, NULL, &now);
    printf("once: handler is back to default %d\n", now.sa_handler == SIG_DFL);
    signal(SIGUSR1, SIG_IGN);
    printf("ignored: raise returns %d\n", raise(SIGUSR1));
}

/* Blocked signals wait, each at most once, and come when they are unblocked. */
static void test_mask(void)
{
    sigset_t both, old;
    install(SIGUSR1, append, 0);
    install(SIGUSR2, append, 0);
    sigemptyset(&both);
    sigaddset(&both, SIGUSR1);
    sigaddset(&both, SIGUSR2);
    sigprocmask(SIG_BLOCK, &both, &old);
    raise(SIGUSR2);
    raise(SIGUSR1);
    raise(SIGUSR1);
    const size_t while_blocked = strlen(order);
    sigdelset(&both, SIGUSR2);
    sigprocmask(SIG_UNBLOCK, &both, NULL);
    const size_t after_one = strlen(order);
    sigprocmask(SIG_SETMASK, &old, NULL);
    printf("mask: %zu while blocked, then %zu, in all \"%s\"\n", while_blocked, after_one, order);
}

static char *alternate_stack;
static size_t alternate_stack_bytes;

static void note_stack(int signal, siginfo_t *info, void *context)
{
    char here;
    (void)info;
    (void)context;
    const uintptr_t at = (uintptr_t)&here - (uintptr_t)alternate_stack;
    deliveries = signal == SIGUSR1 && at < alternate_stack_bytes;
}

static void test_alternate_stack(void)
{
    alternate_stack_bytes = 64 * 1024;
    alternate_stack = malloc(alternate_stack_bytes);
    const stack_t stack = {.ss_sp = alternate_stack, .ss_size = alternate_stack_bytes};
    sigaltstack(&stack, NULL);
    install(SIGUSR1, note_stack, SA_ONSTACK);
    raise(SIGUSR1);
    const int on_alternate = deliveries;
    install(SIGUSR1, note_stack, 0);
    raise(SIGUSR1);
    printf("stack: on the alternate one %d, then %d\n", on_alternate, deliveries);
}

static sigjmp_buf escape;
static void *volatile fault_address;
static volatile int fault_code;

static void jump_out(int signal, siginfo_t *info, void *context)
{
    (void)context;
    fault_address = info->si_addr;
    fault_code = info->si_code;
    siglongjmp(escape, signal);
}

/* Faults at known addresses, left by siglongjmp, over and over. */
static void test_faults(int rounds)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) {
        perror("signals: mmap");
        exit(EXIT_FAILURE);
    }
    mprotect(pages + page, page, PROT_READ);
    install(SIGSEGV, jump_out, SA_ONSTACK);
    volatile int denied = 0, unmapped = 0;
    for (volatile int i = 0; i < rounds; i++) {
        volatile char *const target = pages + page + (size_t)i % page;
        if (sigsetjmp(escape, 1) == 0) {
            *target = 1;
        } else {
            denied += fault_address == target && fault_code == SEGV_ACCERR;
        }
    }
    munmap(pages + page, page);
    for (volatile int i = 0; i < rounds; i++) {
        volatile char *const target = pages + page + (size_t)i % page;
        if (sigsetjmp(escape, 1) == 0) {
            (void)*target;
        } else {
            unmapped += fault_address == target && fault_code == SEGV_MAPERR;
        }
    }
    pages[page - 1] = 1;
    munmap(pages, page);
    signal(SIGSEGV, SIG_DFL);
    printf("faults: %d denied, %d unmapped\n", denied, unmapped);
}

/* Grows a page at each fault and goes on with the faulting instruction, as a pager does. */
static char *paged;
static size_t paged_page_bytes;

static void page_in(int signal, siginfo_t *info, void *context)
{
    (void)context;
    char *const page =
        (char *)((uintptr_t)info->si_addr & ~(uintptr_t)(paged_page_bytes - 1));
    if (signal != SIGSEGV || mprotect(page, paged_page_bytes, PROT_READ | PROT_WRITE) != 0) {
        _exit(EXIT_FAILURE);
    }
    deliveries++;
}

static void test_pager(void)
{
    enum { PAGES = 32 };
    paged_page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    paged = mmap(NULL, PAGES * paged_page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    install(SIGSEGV, page_in, 0);
    deliveries = 0;
    for (size_t i = 0; i < PAGES * paged_page_bytes; i += 512) {
        paged[i] = (char)(i >> 9);
    }
    unsigned sum = 0;
    for (size_t i = 0; i < PAGES * paged_page_bytes; i += 512) {
        sum += (unsigned char)paged[i];
    }
    munmap(paged, PAGES * paged_page_bytes);
    signal(SIGSEGV, SIG_DFL);
    printf("pager: %d faults, sum %u\n", deliveries, sum);
}

/* Steps over an illegal instruction, whose four bytes are all zero, and sets a register. */
static void step_over(int signal, siginfo_t *info, void *context)
{
    ucontext_t *const machine = context;
    (void)info;
    deliveries += signal == SIGILL;
    machine->uc_mcontext.__gregs[REG_PC] += 4;
    machine->uc_mcontext.__gregs[REG_A0] += 100;
}

static void test_illegal_instruction(int rounds)
{
    register long total __asm__("a0") = 0;
    install(SIGILL, step_over, 0);
    deliveries = 0;
    for (int i = 0; i < rounds; i++) {
        __asm__ volatile(".balign 4\n\t.word 0\n\t" : "+r"(total) : : "memory");
    }
    const long seen = total;
    signal(SIGILL, SIG_DFL);
    printf("illegal: %d instructions, register %ld\n", deliveries, seen);
}

/* A handler that uses every floating-point register must not disturb the program's. */
static void spoil_floating_point(int signal, siginfo_t *info, void *context)
{
    (void)info;
    (void)context;
    volatile double sum = signal;
    for (int i = 1; i < 40; i++) {
        sum = sum / 3.0 + i;
    }
    __asm__ volatile("fmv.d.x fa0, zero\n\tfmv.d.x fs0, zero\n\tfmv.d.x ft0, zero\n\t"
                     "fmv.d.x ft11, zero\n\tfsrmi 1"
                     :
                     :
                     : "fa0", "fs0", "ft0", "ft11", "memory");
}

static void test_floating_point(void)
{
    unsigned long a, s, t, rounding;
    install(SIGALRM, spoil_floating_point, 0);
    const long process = getpid();
    __asm__ volatile("fmv.d.x fa0, %4\n\tfmv.d.x fs0, %5\n\tfmv.d.x ft11, %6\n\tfsrmi 3\n\t"
                     "mv a0, %7\n\tli a1, %8\n\tli a7, 129\n\tecall\n\t" /* kill */
                     "fmv.x.d %0, fa0\n\tfmv.x.d %1, fs0\n\tfmv.x.d %2, ft11\n\tfrrm %3\n\t"
                     "fsrmi 0"
                     : "=&r"(a), "=&r"(s), "=&r"(t), "=&r"(rounding)
                     : "r"(0x1111L), "r"(0x2222L), "r"(0x3333L), "r"(process), "i"(SIGALRM)
                     : "a0", "a1", "a7", "fa0", "fs0", "ft11", "memory");
    printf("fp: %lx %lx %lx, rounding %lu\n", a, s, t, rounding);
}

static void test_timer(void)
{
    install(SIGALRM, count, SA_RESTART);
    deliveries = 0;
    const struct timeval millisecond = {.tv_usec = 1000};
    const struct itimerval timer = {.it_interval = millisecond, .it_value = millisecond};
    const struct itimerval stopped = {.it_value = {.tv_usec = 0}};
    setitimer(ITIMER_REAL, &timer, NULL);
    volatile unsigned long spins = 0;
    while (deliveries < 3) {
        spins++;
    }
    const struct timespec nap = {.tv_sec = 5};
    struct timespec left = {0};
    const int interrupted = nanosleep(&nap, &left);
    setitimer(ITIMER_REAL, &stopped, NULL);
    printf("timer: at least 3 %d, sleep interrupted %d, time left %d\n", deliveries >= 4,
           interrupted, left.tv_sec >= 3);
}

/* Signals to one thread of several: the handler runs in that one. */
enum { THREADS = 4 };
static pthread_t threads[THREADS];
static volatile int hits[THREADS];
static volatile int misdelivered;
static pthread_barrier_t started;
static volatile int stop;

static void note_thread(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)info;
    (void)context;
    for (int i = 0; i < THREADS; i++) {
        if (pthread_equal(pthread_self(), threads[i])) {
            __atomic_fetch_add(&hits[i], 1, __ATOMIC_SEQ_CST);
            return;
        }
    }
    misdelivered = 1;
}

static void *wait_for_signals(void *argument)
{
    pthread_barrier_wait(&started);
    const struct timespec nap = {.tv_nsec = 1000000};
    while (!__atomic_load_n(&stop, __ATOMIC_SEQ_CST)) {
        if (argument != NULL) { /* half of them sleep, half spin */
            nanosleep(&nap, NULL);
        }
    }
    return NULL;
}

static void test_threads(int rounds)
{
    install(SIGUSR2, note_thread, SA_RESTART);
    pthread_barrier_init(&started, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, wait_for_signals, i % 2 == 0 ? &threads : NULL);
    }
    pthread_barrier_wait(&started);
    for (int round = 0; round < rounds / 10 + 1; round++) {
        for (int i = 0; i < THREADS; i++) {
            const int before = __atomic_load_n(&hits[i], __ATOMIC_SEQ_CST);
            pthread_kill(threads[i], SIGUSR2);
            while (__atomic_load_n(&hits[i], __ATOMIC_SEQ_CST) == before) {
                sched_yield();
            }
        }
    }
    __atomic_store_n(&stop, 1, __ATOMIC_SEQ_CST);
    int total = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        total += hits[i];
    }
    printf("threads: %d deliveries, misdelivered %d\n", total, misdelivered);
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 200;
    if (argc > 2 || rounds < 1) {
        fprintf(stderr, "usage: signals [ROUNDS]\n");
        return 2;
    }
    test_raise(rounds);
    test_mask();
    test_alternate_stack();
    test_faults(rounds);
    test_pager();
    test_illegal_instruction(rounds);
    test_floating_point();
    test_timer();
    test_threads(rounds);
    printf("signals: done\n");
    return EXIT_SUCCESS;
}
