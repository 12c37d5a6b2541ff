/* Mapping memory: anonymous, of files, fixed; protections and the faults they cause. */
#include "facts.h"
#include <setjmp.h>

static sigjmp_buf back;
static volatile int code;
static void *volatile where;

static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)context;
    code = info->si_code;
    where = info->si_addr;
    siglongjmp(back, signal);
}

static int reading(volatile char *address) {
    int signal = sigsetjmp(back, 1);
    if (signal == 0) {
        (void)*address;
        return 0;
    }
    return signal * 100 + code + (where == (void *)address ? 0 : 1000000);
}

static int writing(volatile char *address) {
    int signal = sigsetjmp(back, 1);
    if (signal == 0) {
        *address = 1;
        return 0;
    }
    return signal * 100 + code + (where == (void *)address ? 0 : 1000000);
}

int main(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    sigaction(SIGBUS, &action, 0);
    char *p = mmap(0, 5 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    FACT(p != MAP_FAILED && (uintptr_t)p % 4096 == 0);
    FACT(p[0] + p[4 * 4096]);
    memset(p, 7, 5 * 4096);
    CALL(mprotect(p + 4096, 4096, PROT_READ));
    FACT(reading(p + 4096));
    FACT(writing(p + 4096));
    FACT(p[4096]);
    CALL(mprotect(p + 4096, 4096, PROT_NONE));
    FACT(reading(p + 4097));
    CALL(mprotect(p + 4096, 4096, PROT_READ | PROT_WRITE));
    FACT(writing(p + 4096));
    FACT(p[4097]);
    CALL(munmap(p + 2 * 4096, 4096));
    FACT(reading(p + 2 * 4096 + 5));
    FACT(writing(p + 3 * 4096));
    CALL(mprotect(p, 5 * 4096, PROT_READ));
    CALL(munmap(p + 1, 4096));
    CALL(munmap(p, 0));
    FACT(mmap(p + 2 * 4096, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
         p + 2 * 4096);
    FACT(reading(p + 2 * 4096));
    FACT(p[2 * 4096]);
    CALL(mmap(p + 1, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
    CALL(mmap(0, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    CALL(mmap(0, 4096, PROT_READ, MAP_ANONYMOUS, -1, 0));
    CALL(mmap(0, 4096, PROT_READ, MAP_PRIVATE, 77, 0));
    CALL(mprotect(p, 5 * 4096, PROT_READ | PROT_WRITE));
    memset(p, 9, 5 * 4096);
    CALL(madvise(p, 2 * 4096, MADV_DONTNEED));
    FACT(p[0] + p[4096] + p[2 * 4096]);
    FACT(reading((char *)64));

    int f = open("mapped", O_RDWR | O_CREAT | O_TRUNC, 0644);
    char page[6000];
    for (unsigned i = 0; i < sizeof page; i++) page[i] = (char)(i % 100);
    FACT(write(f, page, sizeof page));
    char *shared = mmap(0, 3 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
    char *private = mmap(0, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, f, 0);
    FACT(shared[5999] == 99 && shared[6000] == 0);
    FACT(reading(shared + 2 * 4096));
    shared[10] = 111;
    FACT(private[10]);
    private[20] = 112;
    FACT(shared[20]);
    char byte;
    FACT(pread(f, &byte, 1, 10));
    FACT(byte);
    FACT(pread(f, &byte, 1, 20));
    FACT(byte);
    byte = 113;
    FACT(pwrite(f, &byte, 1, 30));
    FACT(shared[30]);
    CALL(ftruncate(f, 9000));
    FACT(reading(shared + 2 * 4096));
    FACT(shared[6000] + shared[8999]);
    shared[8999] = 5;
    CALL(msync(shared, 3 * 4096, MS_SYNC));
    FACT(pread(f, &byte, 1, 8999));
    FACT(byte);
    CALL(ftruncate(f, 100));
    FACT(reading(shared + 4096));
    FACT(shared[10]);
    CALL(ftruncate(f, 200));
    FACT(shared[150]);
    int r = open("mapped", O_RDONLY);
    CALL(mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, r, 0));
    WORKS(mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, r, 0));
    CALL(mmap(0, 4096, PROT_READ, MAP_PRIVATE, r, 100));
    close(f);
    close(r);
    unlink("mapped");
    FACT(shared[10]);
    char *heap = sbrk(0);
    FACT(sbrk(10000) == heap);
    heap[9999] = 3;
    FACT((char *)sbrk(0) - heap);
    FACT(sbrk(-5000) == heap + 10000);
    FACT((char *)sbrk(0) - heap);
    return 0;
}
