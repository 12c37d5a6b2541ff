/* As little as a program can be: it writes a line and ends. */
static long call(long number, long a, long b, long c) {
    register long a0 __asm__("a0") = a, a1 __asm__("a1") = b, a2 __asm__("a2") = c;
    register long a7 __asm__("a7") = number;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a2), "r"(a7) : "memory");
    return a0;
}

static char line[] = "small\n";
static volatile char zeros[10000];

__attribute__((used)) void _start(void) {
    call(64, 1, (long)line, sizeof line - 1 + zeros[5000]);
    for (;;) call(94, 0, 0, 0);
}
