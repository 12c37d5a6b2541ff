/* Maps, unmaps and maps again whole page tables of memory, which two threads look at. Ends with the number of
 * the first check that fails. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

/* What one page table of the last level maps. */
#define TABLE (2ul << 20)
#define ROUNDS 6

static char *const places = (char *)0x2000000000ul;
static pthread_barrier_t barrier;
static __thread sigjmp_buf away;
static char *volatile asked;
static volatile int seen;

static void leave(int signal) {
    (void)signal;
    siglongjmp(away, 1);
}

/* The byte there, -1 if there is none. */
static int look(volatile char *place) {
    return sigsetjmp(away, 1) ? -1 : *place;
}

static void *other(void *none) {
    for (;;) {
        pthread_barrier_wait(&barrier);
        if (!asked) return none;
        seen = look(asked);
        pthread_barrier_wait(&barrier);
    }
}

static void let_look(char *place) {
    asked = place;
    pthread_barrier_wait(&barrier);
    if (place) pthread_barrier_wait(&barrier);
}

/* Whether both threads see that byte there. */
static int both_see(char *place, int byte) {
    let_look(place);
    return seen == byte && look(place) == byte;
}

static char *map(char *place, char byte) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    if (mmap(place, TABLE, PROT_READ | PROT_WRITE, flags, -1, 0) != place) return NULL;
    if (*place == 0) *place = byte;
    return place;
}

int main(void) {
    struct sigaction caught = {.sa_handler = leave};
    pthread_t thread;
    if (sigaction(SIGSEGV, &caught, NULL) || pthread_barrier_init(&barrier, NULL, 2)) return 1;
    if (pthread_create(&thread, NULL, other, NULL)) return 1;
    for (int round = 0; round < ROUNDS; round++) {
        char *first = map(places + 8 * round * TABLE, 'a');
        if (!first || !both_see(first, 'a')) return 2;
        if (munmap(first, TABLE)) return 3;
        /* The table that was the first region's is this one's now. */
        char *second = map(first + TABLE, 'b');
        if (!second || !both_see(second, 'b')) return 4;
        if (!both_see(first, -1)) return 5;
        if (!map(first, 'c') || !both_see(first, 'c') || !both_see(second, 'b')) return 6;
        if (munmap(first, 2 * TABLE)) return 7;
        if (!both_see(first, -1) || !both_see(second, -1)) return 8;
    }
    let_look(NULL);
    return pthread_join(thread, NULL) ? 1 : 0;
}
