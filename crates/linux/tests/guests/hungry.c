/* Takes memory until there is none. */
#include "facts.h"

int main(void) {
    for (;;) {
        char *p = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) return 1;
        for (int i = 0; i < 1 << 20; i += 4096) p[i] = 1;
    }
}
