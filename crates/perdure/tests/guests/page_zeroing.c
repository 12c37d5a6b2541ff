/* Has pages of a module zeroed by its device (docs/examples/page_zeroing.rs), and stores to them beside that.
 * Its argument is a seed. Ends with the number of the first check that fails. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PAGE 4096
#define PAGES 16
#define WORDS (PAGE / 8)
#define ROUNDS 16

static volatile uint64_t *commands, *memory;
static uint64_t expected[PAGES][WORDS], state, commanded;

static uint64_t below(uint64_t bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % bound;
}

static void clean(volatile uint64_t *line) { __asm__ volatile(".insn i 0x0f, 2, x0, %0, 1" : : "r"(line) : "memory"); }
static void flush(volatile uint64_t *line) { __asm__ volatile(".insn i 0x0f, 2, x0, %0, 2" : : "r"(line) : "memory"); }
static void fence(void) { __asm__ volatile("fence rw, rw" : : : "memory"); }

/* The device zeroes what memory has, and caches do not hear of it. */
static void let_go(uint64_t page) {
    for (int word = 0; word < WORDS; word += 8) flush(memory + page * WORDS + word);
}

static void zero(uint64_t page) {
    *commands = page;
    commanded++;
    for (int word = 0; word < WORDS; word++) expected[page][word] = 0;
}

static void store(uint64_t page) {
    for (uint64_t count = 1 + below(6); count > 0; count--) {
        uint64_t word = below(WORDS);
        memory[page * WORDS + word] = expected[page][word] = below(1u << 31);
        if (below(4) > 0) clean(memory + page * WORDS + word);
    }
    if (below(4) > 0) fence();
}

static int differs(uint64_t page) {
    for (int word = 0; word < WORDS; word++)
        if (memory[page * WORDS + word] != expected[page][word]) return 1;
    return 0;
}

static volatile uint64_t *map(const char *name, int pages) {
    int file = open(name, O_RDWR);
    void *mapped = mmap(0, pages * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return mapped == MAP_FAILED ? 0 : mapped;
}

int main(int count, char **arguments) {
    state = count > 1 ? strtoull(arguments[1], 0, 10) : 1;
    memory = map("/dev/module/near", PAGES);
    commands = map("/dev/module/near.device", 1);
    if (!memory || !commands) return 1;
    for (uint64_t page = 1; page < PAGES; page++)
        for (int word = 0; word < WORDS; word += 5) memory[page * WORDS + word] = expected[page][word] = page;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t first = 1 + below(PAGES - 1), many = 1 + below(7), last = first + many < PAGES ? first + many : PAGES;
        for (uint64_t page = first; page < last; page++) let_go(page);
        if (below(2)) fence();
        for (uint64_t page = first; page < last; page++) zero(page);
        for (uint64_t stores = below(6); stores > 0; stores--) store(first + below(last - first));
        if (differs(first + below(last - first))) return 2;
        store(1 + below(PAGES - 1));
    }
    while (*commands != commanded) {
    }
    for (uint64_t page = 1; page < PAGES; page++)
        if (differs(page)) return 3;
    return 0;
}
