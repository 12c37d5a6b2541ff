/* The ways to end. */
#include "facts.h"
#include <pthread.h>

static void *leave(void *unused) {
    (void)unused;
    exit(5);
}

static volatile uintptr_t low;

static int deep(int n) {
    volatile char room[4096];
    room[0] = (char)n;
    return n == 0 ? 0 : deep(n + 1) + room[0];
}

int main(int count, char **arguments) {
    const char *how = count > 1 ? arguments[1] : "";
    printf("ending by %s\n", how);
    fflush(stdout);
    if (!strcmp(how, "exit")) return 300;
    if (!strcmp(how, "abort")) abort();
    if (!strcmp(how, "null")) *(volatile int *)low = 1;
    if (!strcmp(how, "jump")) ((void (*)(void))(low + 0x1000))();
    if (!strcmp(how, "illegal")) __asm__ volatile(".4byte 0xffffffff");
    if (!strcmp(how, "trap")) __asm__ volatile("ebreak");
    if (!strcmp(how, "kill")) kill(getpid(), SIGKILL);
    if (!strcmp(how, "stack")) return deep(1);
    if (!strcmp(how, "text")) *(volatile char *)(uintptr_t)main = 1;
    if (!strcmp(how, "alarm")) {
        alarm(1);
        pause();
    }
    if (!strcmp(how, "blocked")) {
        sigset_t all;
        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, 0);
        *(volatile int *)(low + 8) = 1;
    }
    if (!strcmp(how, "thread")) {
        pthread_t t;
        pthread_create(&t, 0, leave, 0);
        pause();
    }
    if (!strcmp(how, "last")) pthread_exit(0);
    return 0;
}
