/*
 * End-to-end test: a program that dies, in the way that its argument names.
 *
 *   fault KIND
 *
 * Always true: it prints one line, which is flushed, and then does what the kind says. A shell
 * reports 128 plus the signal's number (or the exit status itself), and a run on the
 * machine must end with the same.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void die_illegal(void)
{
    __asm__ volatile(".balign 4\n\t.word 0xffffffff");
}

static void die_load(void)
{
    __asm__ volatile("ld a0, 16(%0)" : : "r"(0L) : "a0");
}

static void die_store(void)
{
    __asm__ volatile("sd zero, 0(%0)" : : "r"(0x10L) : "memory");
}

/* A write to the program's own text. */
static void die_text(void)
{
    __asm__ volatile("la a0, die_here\n\tdie_here: sd zero, 0(a0)" : : : "a0", "memory");
}

static void die_jump(void)
{
    __asm__ volatile("jr %0" : : "r"(0x40L));
}

static void die_breakpoint(void)
{
    __asm__ volatile("ebreak");
}

static void die_stack(void)
{
    __asm__ volatile("1: addi sp, sp, -1024\n\tsd zero, 0(sp)\n\tj 1b" : : : "memory");
}

static void die_terminated(void)
{
    raise(SIGTERM);
}

static void exit_7(void)
{
    exit(7);
}

/* No flush, no handlers: straight to the kernel. */
static void exit_now(void)
{
    printf("this line is never flushed");
    _exit(300 % 256);
}

static const struct {
    const char *name;
    void (*run)(void);
} kinds[] = {
    {"illegal", die_illegal}, {"load", die_load},       {"store", die_store},
    {"text", die_text},       {"jump", die_jump},       {"breakpoint", die_breakpoint},
    {"stack", die_stack},     {"abort", abort},         {"terminated", die_terminated},
    {"exit", exit_7},         {"exit-now", exit_now},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 2 && i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(argv[1], kinds[i].name) == 0) {
            printf("fault: %s\n", kinds[i].name);
            fflush(stdout);
            kinds[i].run();
            printf("fault: survived\n");
            return 1;
        }
    }
    fprintf(stderr, "usage: fault KIND, one of:");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        fprintf(stderr, " %s", kinds[i].name);
    }
    fprintf(stderr, "\n");
    return 2;
}
