/* Integer and floating-point kernels with a small footprint: sieve, sorting, matrix, hashing,
 * recursion. Bare: no kernel, no library.
 *
 *   riscv64-linux-gnu-gcc -O2 -march=rv64gc -static -nostdlib -ffreestanding -fno-pic \
 *       -fno-tree-loop-distribute-patterns -DKERNEL=all compute.c -o compute
 *
 * KERNEL is all, or one of the functions below.
 */
typedef unsigned long u64;
typedef unsigned int u32;

static u64 random_state = 88172645463325252UL;

static u64 random_next(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

static unsigned char composite[65536];

__attribute__((noinline)) u64 sieve(void)
{
    u64 primes = 0;
    for (int round = 0; round < 120; round++) {
        for (u64 i = 0; i < sizeof composite; i++)
            composite[i] = 0;
        for (u64 i = 2; i < sizeof composite; i++) {
            if (composite[i])
                continue;
            primes++;
            for (u64 j = i * i; j < sizeof composite; j += i)
                composite[j] = 1;
        }
    }
    return primes;
}

static u64 keys[8192];

static void sort_range(u64 *low, u64 *high)
{
    while (high - low > 1) {
        u64 pivot = low[(high - low) / 2];
        u64 *i = low, *j = high - 1;
        while (i <= j) {
            while (*i < pivot)
                i++;
            while (*j > pivot)
                j--;
            if (i <= j) {
                u64 t = *i;
                *i++ = *j;
                *j-- = t;
            }
        }
        sort_range(low, j + 1);
        low = i;
    }
}

__attribute__((noinline)) u64 sort(void)
{
    u64 sum = 0;
    for (int round = 0; round < 60; round++) {
        for (int i = 0; i < 8192; i++)
            keys[i] = random_next();
        sort_range(keys, keys + 8192);
        for (int i = 1; i < 8192; i++)
            sum += keys[i - 1] <= keys[i];
    }
    return sum;
}

static u64 fibonacci(u64 n)
{
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

__attribute__((noinline)) u64 recursion(void)
{
    return fibonacci(32);
}

static unsigned char text[4096];

__attribute__((noinline)) u64 hash(void)
{
    u64 sum = 0;
    for (int i = 0; i < 4096; i++)
        text[i] = (unsigned char)random_next();
    for (int round = 0; round < 6000; round++) {
        u32 h = 2166136261u + (u32)round;
        for (int i = 0; i < 4096; i++)
            h = (h ^ text[i]) * 16777619u;
        sum += h;
    }
    return sum;
}

static double a[64][64], b[64][64], c[64][64];

__attribute__((noinline)) u64 matrix(void)
{
    for (int i = 0; i < 64; i++)
        for (int j = 0; j < 64; j++) {
            a[i][j] = (double)(random_next() >> 11) * 0x1p-53;
            b[i][j] = (double)(random_next() >> 11) * 0x1p-53;
        }
    double trace = 0;
    for (int round = 0; round < 60; round++) {
        for (int i = 0; i < 64; i++)
            for (int j = 0; j < 64; j++) {
                double sum = 0;
                for (int k = 0; k < 64; k++)
                    sum += a[i][k] * b[k][j];
                c[i][j] = sum;
            }
        trace += c[round][round];
    }
    return (u64)(trace * 1e6);
}

u64 all(void)
{
    return sieve() + sort() + recursion() + hash() + matrix();
}

__attribute__((naked, noreturn)) void _start(void)
{
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
    __asm__ volatile(".option push\n.option norelax\nla gp, __global_pointer$\n.option pop\n"
                     "call " TEXT(KERNEL) "\nebreak");
}
