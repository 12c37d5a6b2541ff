// A storm of system calls: every number, with plausible, random and hostile arguments, from many
// processes and threads at once.
//
//   storm SEED ROUNDS
//
// A keeper starts workers, each in a group of its own, and kills and replaces them as it pleases. A
// worker makes calls until it dies of one. What it forks goes on by itself, so that soon nobody can
// fork any more. The keeper ends after its rounds, whatever became of the others; calls that would
// certainly end it are left out, others may hit it all the same.
//
// Always true: which calls are made follows from the seed, from the numbers of processes, and from
// what the kernel answered.
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef uint64_t word;

enum { CALLS = 470, AREA = 1 << 16, WORKERS = 6, CALLS_OF_A_WORKER = 400, STACK = 1 << 14 };

// What calls take: a file descriptor, a path, bytes with their length, flags, a small number, a size,
// a signal, a process, a time, a list of vectors, any address, a mapped page, an offset; and anything.
// '.' stands for what no call reads.
static const struct { short number; const char *arguments; } SHAPES[] = {
    {0, "naa"}, {2, "nnp"}, {4, "nnnaav"}, {5, "ppbsf"}, {7, "npbsf"}, {8, "ppbs"}, {10, "dpbs"}, {11, "pbs"},
    {17, "bs"}, {19, "nf"}, {20, "f"}, {21, "dnda"}, {22, "dbnta"}, {23, "d"}, {24, "ddf"},
    {25, "dna"}, {25, "dnn"}, {26, "f"}, {27, "dpf"}, {28, "dn"}, {29, "dfa"}, {29, "dna"}, {30, "nPn"}, {32, "dn"},
    {33, "Dpmn"}, {34, "Dpm"}, {35, "Dpf"}, {36, "pDp"}, {37, "DpDpf"}, {43, "pb"}, {44, "db"},
    {45, "po"}, {46, "do"}, {47, "dnoo"}, {48, "Dpn"}, {49, "p"}, {50, "d"}, {52, "dm"}, {53, "Dpm"},
    {54, "Dpnnf"}, {55, "dnn"}, {56, "Dpfm"}, {56, "DpOm"}, {57, "d"}, {59, "bf"}, {61, "dbs"}, {62, "don"},
    {63, "dbs"}, {64, "dbs"}, {65, "dvn"}, {66, "dvn"}, {67, "dbso"}, {68, "dbso"}, {69, "dvno"},
    {70, "dvno"}, {71, "ddas"}, {72, "nbbbta"}, {73, "bnta"}, {74, "dbsf"}, {75, "dvnf"},
    {76, "dadasf"}, {77, "ddsf"}, {78, "Dpbs"}, {79, "Dpbf"}, {80, "db"}, {82, "d"}, {84, "doof"},
    {85, "nf"}, {86, "dfta"}, {87, "db"}, {88, "Dptf"}, {90, "bb"}, {95, "nPbfb"}, {96, "a"},
    {98, "Aantan"}, {98, "Afntan"}, {99, "as"}, {100, "Pbb"}, {101, "tb"}, {102, "nb"}, {103, "ntb"}, {107, "nbb"},
    {108, "nb"}, {109, "n"}, {110, "nftb"}, {111, "n"}, {113, "nb"}, {114, "nb"}, {115, "nfta"},
    {118, "Pb"}, {119, "Pnb"}, {120, "P"}, {122, "Psb"}, {123, "Psb"}, {124, ""}, {129, "Pg"},
    {130, "Pg"}, {131, "PPg"}, {132, "bb"}, {133, "bs"}, {134, "gbbs"}, {135, "nbbs"}, {136, "bs"},
    {137, "bbts"}, {138, "Pgb"}, {139, ""}, {153, "b"}, {154, "PP"}, {155, "P"}, {156, "P"}, {157, ""},
    {160, "b"}, {163, "nb"}, {164, "nb"}, {165, "nb"}, {166, "m"}, {167, "naaaa"}, {168, "bbb"},
    {169, "bb"}, {179, "b"}, {180, "pfmb"}, {181, "p"}, {182, "dbsnt"}, {183, "dbsbt"}, {184, "db"},
    {185, "dbb"}, {186, "nf"}, {187, "nnb"}, {188, "nbsnf"}, {189, "nbsf"}, {190, "nnf"},
    {191, "nnna"}, {192, "nbnt"}, {193, "nbn"}, {194, "nsf"}, {195, "nnb"}, {196, "naf"}, {197, "M"},
    {198, "nnn"}, {198, "nfn"}, {199, "nnnb"}, {200, "dbs"}, {201, "dn"}, {202, "dbb"}, {203, "dbs"}, {204, "dbb"},
    {205, "dbb"}, {206, "dbsfbs"}, {207, "dbsfbb"}, {208, "dnnbs"}, {209, "dnnbb"}, {210, "dn"},
    {211, "dbf"}, {212, "dbf"}, {213, "dos"}, {214, "a"}, {215, "Ms"}, {216, "MssfM"}, {220, "F"},
    {221, "paa"}, {222, "Msnfdo"}, {222, ".snn"}, {223, "doon"}, {226, "Msn"}, {227, "Msf"}, {228, "Ms"},
    {229, "Ms"}, {232, "Msb"}, {233, "Msn"}, {235, "Msnbnf"}, {236, "bbsMf"}, {240, "PPgb"},
    {242, "dbbf"}, {243, "dbnft"}, {259, "MMn"}, {260, "Pbfb"}, {261, "Pnbb"}, {267, "d"},
    {269, "dbnf"}, {270, "Pvnvnf"}, {271, "Pvnvnf"}, {272, "PPnnn"}, {274, "Pbf"}, {275, "Pbsf"},
    {276, "DpDpf"}, {278, "bsf"}, {279, "pf"}, {281, "Dpaaf"}, {283, "ff"}, {284, "Msf"},
    {285, "dadasf"}, {286, "dvnonf"}, {287, "dvnonf"}, {291, "Dpffb"}, {424, "dgbf"}, {434, "Pf"},
    {436, "ddf"}, {437, "Dpbs"}, {438, "ddf"}, {439, "Dpnf"}, {441, "dbntas"}, {452, "Dpmf"},
};

static const char *const PATHS[] = {
    "", ".", "..", "/", "a", "b", "a/b", "a/../b/c", "deep/deep/deep", "/work/a", "/tmp/a", "/tmp",
    "/dev/null", "/dev/zero", "/dev/full", "/dev/urandom", "/dev/ptmx", "/dev/pts/0", "/dev/tty",
    "/dev/shm/a", "/dev/fd/3", "/proc/self/maps", "/proc/self/fd/4", "/proc/self/exe", "/proc/self",
    "/proc/self/smaps", "/proc/meminfo", "/sys/devices/system/cpu/online", "/etc/passwd", "a/", "//a//b",
    "host", "folder/inner", "folder", "link", "/work/folder/../..", "fifo", "socket", "\xff\xfe",
    "long-long-long-long-long-long-long-long-long-long-long-long-long-long-long-long-long-long-long",
};

static int keeper;
static unsigned char *area;

static word mix(word *state) {
    word z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static word below(word *state, word bound) { return mix(state) % bound; }

static word raw(word number, const word *of) {
    register word a0 __asm__("a0") = of[0], a1 __asm__("a1") = of[1], a2 __asm__("a2") = of[2];
    register word a3 __asm__("a3") = of[3], a4 __asm__("a4") = of[4], a5 __asm__("a5") = of[5];
    register word a7 __asm__("a7") = number;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5), "r"(a7) : "memory");
    return a0;
}

static word any_length(word *state) {
    static const word SIZES[] = {
        0, 1, 4, 8, 16, 24, 64, 100, 128, 4095, 4096, 4097, 1 << 13, 1 << 16, 1 << 20, (1 << 21) + 1,
        1 << 30, 1u << 31, 1ul << 32, 1ul << 40, 1ul << 47, 1ul << 62, -1ul, -4096ul, -1ul >> 1,
    };
    word few = sizeof SIZES / sizeof *SIZES;
    return below(state, 3) ? SIZES[below(state, 16)] : SIZES[below(state, few)];
}

static word any_address(word *state) {
    word own = (word)area, here = (word)&state;
    switch (below(state, 10)) {
    case 0: return 0;
    case 1: return own + AREA - below(state, 32);
    case 2: return here;
    case 3: return (word)any_address;
    case 4: return mix(state);
    case 5: return (1ul << 47) - below(state, 3) * 4096;
    case 6: return own + AREA + below(state, 8) * 4096;
    case 7: return -below(state, 4096);
    default: return own + (below(state, AREA) & ~7ul);
    }
}

static word any_flags(word *state) {
    word flags = 0;
    switch (below(state, 6)) {
    case 0: return 0;
    case 1: return mix(state);
    default:
        for (word n = 1 + below(state, 3); n--;) flags |= 1ul << below(state, below(state, 8) ? 13 : 32);
        return flags;
    }
}

// A word as it may stand in a structure.
static word any_content(word *state) {
    switch (below(state, 8)) {
    case 0: return any_length(state);
    case 1: return any_address(state);
    case 2: return below(state, 1u << 31) << 32 | below(state, 16);
    case 3: return any_flags(state);
    case 4: return 0;
    default: return below(state, 24);
    }
}

static word bytes(word *state) {
    if (below(state, 8) == 0) return any_address(state);
    word *place = (word *)(area + (below(state, AREA / 2) & ~7ul));
    for (word n = below(state, 12); n--;) place[n] = any_content(state);
    return (word)place;
}

static word argument(char kind, word *state) {
    word *place = (word *)(area + (below(state, AREA / 2) & ~7ul));
    if (below(state, 24) == 0) kind = '?';
    switch (kind) {
    case 'd': return below(state, 16) ? below(state, 24) : -below(state, 200);
    case 'D': return below(state, 3) ? (word)AT_FDCWD : below(state, 24);
    case 'p': return (word)PATHS[below(state, sizeof PATHS / sizeof *PATHS)];
    case 'O': return below(state, 3) | (below(state, 2) ? O_CREAT : 0) | (below(state, 4) ? 0 : any_flags(state));
    case 'b': return bytes(state);
    case 's': return any_length(state);
    case 'f': return any_flags(state);
    case 'n': return below(state, 8) ? below(state, 40) : mix(state);
    case 'm': return below(state, 0200000);
    case 'g': return below(state, 66);
    case 'P': {
        word who = below(state, 12);
        return who == 0 ? mix(state) : who == 1 ? -(word)getpid() : who < 5 ? 0 : who < 7 ? (word)getpid() : 2 + below(state, 60);
    }
    case 't':
        if (below(state, 6) == 0) return 0;
        for (int at = 0; at < 4; at += 2) place[at] = 0, place[at + 1] = below(state, 50000);
        if (below(state, 8) == 0) place[below(state, 4)] = mix(state);
        return (word)place;
    case 'v':
        for (int at = 0; at < 16; at += 2) place[at] = any_address(state), place[at + 1] = any_length(state);
        return (word)place;
    case 'A': return (word)area + 8 * below(state, 16);
    case 'M': return below(state, 4) ? (word)area + AREA + below(state, 512) * 4096 : any_address(state);
    case 'o': return below(state, 3) ? below(state, 1 << 16) : any_length(state);
    case 'a': return any_address(state);
    case 'F': return SIGCHLD | (below(state, 4) ? 0 : any_flags(state) & ~(word)(CSIGNAL | CLONE_VM | CLONE_VFORK));
    case '.': return 0;
    default: return below(state, 2) ? mix(state) : any_content(state);
    }
}

// Calls that would only end the worker, or end or stop the keeper and with it everything.
static int is_the_end(word number, const word *of) {
    switch (number) {
    case SYS_exit: case SYS_exit_group: case SYS_rt_sigreturn: return 1;
    case SYS_kill: case SYS_tkill: case SYS_tgkill: case SYS_rt_sigqueueinfo: case SYS_rt_tgsigqueueinfo:
        return (int)of[0] == keeper || (int)of[0] == -1 || (number == SYS_tgkill && (int)of[1] == keeper);
    case SYS_prlimit64: case SYS_process_vm_writev: return (int)of[0] == keeper;
    case SYS_setpgid: return (int)of[0] == keeper || (int)of[1] == keeper;
    default: return 0;
    }
}

static void noted(int signal) { (void)signal; }

static void weather(word seed, int calls);

// A thread of the same process, which goes on with calls on a stack of its own.
static void start_thread(word *state) {
    unsigned char *stack = mmap(0, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED) return;
    word *top = (word *)(stack + STACK - 32);
    top[0] = mix(state);
    register word a0 __asm__("a0") = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
    register word a1 __asm__("a1") = (word)top;
    register word a2 __asm__("a2") = 0, a3 __asm__("a3") = 0, a4 __asm__("a4") = 0, a7 __asm__("a7") = SYS_clone;
    register word s2 __asm__("s2") = (word)weather;
    __asm__ volatile("ecall\n\tbnez a0, 1f\n\tld a0, 0(sp)\n\tli a1, 100\n\tjalr s2\n\tli a7, 93\n\tecall\n1:"
                 : "+r"(a0) : "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a7), "r"(s2)
                 : "memory", "ra", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "a5", "a6");
}

static void weather(word seed, int calls) {
    word state = seed;
    while (calls-- > 0) {
        word number = below(&state, CALLS), of[6];
        word shapes = sizeof SHAPES / sizeof *SHAPES;
        if (below(&state, 8)) {
            word row = below(&state, shapes);
            number = SHAPES[row].number;
            const char *kinds = SHAPES[row].arguments;
            for (int at = 0; at < 6; at++) of[at] = argument(*kinds ? *kinds++ : '?', &state);
        } else {
            for (int at = 0; at < 6; at++) of[at] = argument("dpbsfnPaM?"[below(&state, 10)], &state);
            if (below(&state, 64) == 0) number = mix(&state);
        }
        if (number == SYS_clone && (of[0] & (CLONE_VM | CLONE_VFORK))) {
            start_thread(&state);
            continue;
        }
        if (is_the_end(number, of)) continue;
        word answer = raw(number, of);
        // A child goes its own way, and not much further than its parent.
        if (number == SYS_clone && answer == 0) {
            state ^= (word)getpid() << 32;
            setpgid(0, 0);
        }
    }
}

static void work(word seed) {
    setpgid(0, 0);
    for (int signal = 1; signal < 65; signal++)
        if (signal != SIGSEGV && signal != SIGBUS && signal != SIGILL && signal % 3)
            sigaction(signal, &(struct sigaction){.sa_handler = noted}, 0);
    // Whoever waits is woken now and then.
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 700}, {0, 700}}, 0);
    for (int more = below(&seed, 3); more > 0; more--) start_thread(&seed);
    weather(seed, CALLS_OF_A_WORKER);
    _exit(0);
}

int main(int count, char **arguments) {
    word seed = count > 1 ? strtoul(arguments[1], 0, 0) : 1;
    int rounds = count > 2 ? atoi(arguments[2]) : 20;
    int workers[WORKERS] = {0};
    keeper = getpid();
    area = mmap(0, AREA + (2 << 20), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int page = 0; page < AREA / 4096; page++) area[page * 4096] = page;
    mmap(area + AREA, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    mprotect(area + AREA, 4096, PROT_READ);
    mprotect(area + AREA + 4096, 4096, PROT_NONE);
    // Something to do calls on.
    int ends[2];
    open("a", O_RDWR | O_CREAT, 0644), mkdir("folder", 0755), symlink("a", "link"), mkfifo("fifo", 0644);
    open("folder", O_RDONLY | O_DIRECTORY), open("fifo", O_RDWR | O_NONBLOCK);
    pipe(ends), syscall(SYS_socketpair, 1, 1, 0, ends), syscall(SYS_socketpair, 1, 2, 0, ends);
    syscall(SYS_socket, 2, 1, 0), syscall(SYS_socket, 2, 2, 0), syscall(SYS_socket, 10, 1, 0);
    syscall(SYS_eventfd2, 3, 0), syscall(SYS_epoll_create1, 0), syscall(SYS_inotify_init1, 0);
    syscall(SYS_timerfd_create, 1, 0), open("/dev/zero", O_RDWR), open("/dev/ptmx", O_RDWR);
    syscall(SYS_memfd_create, "m", 2), open("/proc/self/maps", O_RDONLY);
    for (int round = 0; round < rounds; round++) {
        for (int at = 0; at < WORKERS; at++) {
            if (workers[at] > 0 && below(&seed, 6) == 0) kill(-workers[at], SIGKILL), kill(workers[at], SIGKILL);
            if (workers[at] > 0 && waitpid(workers[at], 0, WNOHANG) == 0) continue;
            word own = mix(&seed);
            int child = fork();
            if (child == 0) work(own);
            workers[at] = child;
        }
        while (waitpid(-1, 0, WNOHANG) > 0) continue;
        usleep(1000);
    }
    for (int at = 0; at < WORKERS; at++)
        if (workers[at] > 0) kill(-workers[at], SIGKILL), kill(workers[at], SIGKILL);
    return 0;
}
