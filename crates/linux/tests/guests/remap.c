/* mremap: growing, shrinking and moving mappings with their contents. */
#include "facts.h"

static void fill(char *p, int pages) {
    for (int i = 0; i < pages; i++) p[i * 4096] = (char)(i + 1);
}

static int sum(char *p, int pages) {
    int total = 0;
    for (int i = 0; i < pages; i++) total = total * 3 + p[i * 4096];
    return total;
}

int main(void) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    char *p = mmap(0, 64 * 4096, PROT_READ | PROT_WRITE, flags, -1, 0);
    fill(p, 8);
    munmap(p + 8 * 4096, 56 * 4096);
    FACT(mremap(p, 8 * 4096, 16 * 4096, 0) == p);
    FACT(sum(p, 9));
    FACT(mremap(p, 16 * 4096, 4 * 4096, 0) == p);
    FACT(sum(p, 4));
    char *wall = mmap(p + 4 * 4096, 4096, PROT_READ, flags | MAP_FIXED, -1, 0);
    FACT(wall == p + 4 * 4096);
    CALL(mremap(p, 4 * 4096, 8 * 4096, 0));
    char *q = mremap(p, 4 * 4096, 8 * 4096, MREMAP_MAYMOVE);
    FACT(q != MAP_FAILED && q != p);
    FACT(sum(q, 8));
    unsigned char vector[8];
    FACT(mincore(p, 4096, vector) == -1 && errno == ENOMEM);
    char *target = mmap(0, 16 * 4096, PROT_READ | PROT_WRITE, flags, -1, 0);
    fill(target, 16);
    FACT(mremap(q, 8 * 4096, 8 * 4096, MREMAP_MAYMOVE | MREMAP_FIXED, target + 4 * 4096) ==
         target + 4 * 4096);
    FACT(sum(target, 16));
    CALL(mremap(target, 4096, 4096, MREMAP_FIXED, q));
    CALL(mremap(target, 8192, 8192, MREMAP_FIXED | MREMAP_MAYMOVE, target + 4096));
    CALL(mremap(target + 1, 4096, 8192, MREMAP_MAYMOVE));
    int f = open("f", O_CREAT | O_RDWR, 0600);
    FACT(ftruncate(f, 5 * 4096));
    FACT(pwrite(f, "page three", 10, 3 * 4096));
    char *m = mmap(0, 2 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, f, 2 * 4096);
    char *n = mremap(m, 2 * 4096, 3 * 4096, MREMAP_MAYMOVE);
    printf("%.10s\n", n + 4096);
    n[2 * 4096] = 'x';
    char b;
    FACT(pread(f, &b, 1, 4 * 4096));
    FACT(b);
    char *huge = realloc(malloc(1 << 20), 40 << 20);
    huge[(40 << 20) - 1] = 1;
    huge = realloc(huge, 80 << 20);
    FACT(huge[(40 << 20) - 1]);
    return 0;
}
