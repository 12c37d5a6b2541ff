/* What may be done to a device region: aligned loads and stores. Anything else ends a process by SIGBUS. Ends
 * with the number of the first check that fails. */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static char *device;

static void add(void) { __atomic_fetch_add((uint64_t *)device, 1, __ATOMIC_SEQ_CST); }
static void reserve(void) {
    uint64_t value;
    __asm__ volatile("lr.d %0, (%1)" : "=r"(value) : "r"(device) : "memory");
}
static void load_askew(void) { (void)*(volatile uint32_t *)(device + 2); }
static void store_askew(void) { *(volatile uint16_t *)(device + 63) = 1; }
static void zero_block(void) { __asm__ volatile(".insn i 0x0f, 2, x0, %0, 4" : : "r"(device) : "memory"); }
static void run_it(void) { ((void (*)(void))device)(); }

static int ends_by_bus_error(void (*access)(void)) {
    int status = 0;
    if (fork() == 0) {
        access();
        _exit(0);
    }
    return wait(&status) > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS;
}

int main(void) {
    int file = open("/dev/module/near.device", O_RDWR);
    if (file < 0) return 1;
    device = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_SHARED, file, 0);
    if (device == MAP_FAILED) return 2;
    *(volatile uint64_t *)(device + 8) = 7;
    *(volatile uint8_t *)(device + 4095) = 7;
    __asm__ volatile(".insn i 0x0f, 2, x0, %0, 2" : : "r"(device) : "memory");
    /* There is no program in the module. */
    if (*(volatile uint64_t *)(device + 8) != 0 || *(volatile uint8_t *)(device + 4095) != 0) return 3;
    void (*refused[])(void) = {add, reserve, load_askew, store_askew, zero_block, run_it};
    for (int index = 0; index < 6; index++)
        if (!ends_by_bus_error(refused[index])) return 10 + index;
    return 0;
}
