/*
 * End-to-end test: files, as a program writes, renames, syncs and reads them back.
 *
 *   files [KILOBYTES]      size of the large file, default 256
 *
 * Works in the current directory, in files-test.dir, which it removes again; what it leaves
 * behind is files-test.result, whose content is a function of the argument, so that whoever
 * ran it can check what reached the outside. Always true: inode numbers, times and the order
 * of directory entries are not printed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "digest.h"

enum { BLOCK_BYTES = 4096 };

/* Ends the program with the failed call's name unless the condition holds. */
static void require(int condition, const char *what)
{
    if (!condition) {
        printf("files: %s failed: %s\n", what, strerror(errno));
        exit(EXIT_FAILURE);
    }
}

/* Says how a call that should be refused was refused. */
static void refused(int result, const char *what)
{
    printf("%s: %s\n", what, result < 0 ? strerror(errno) : "not refused");
}

static void write_all(int file, const void *data, size_t length)
{
    require(write(file, data, length) == (ssize_t)length, "write");
}

static void print_file(const char *path)
{
    unsigned char buffer[1000]; /* not a divisor of any block size */
    uint64_t digest = DIGEST_EMPTY;
    size_t total = 0;
    ssize_t got;
    struct stat status;
    const int file = open(path, O_RDONLY);
    require(file >= 0, "open for reading");
    while ((got = read(file, buffer, sizeof buffer)) > 0) {
        digest = digest_add(digest, buffer, (size_t)got);
        total += (size_t)got;
    }
    require(got == 0, "read");
    require(fstat(file, &status) == 0, "fstat");
    require(close(file) == 0, "close");
    printf("%s: %zu bytes read, size %lld, digest %016" PRIx64 "\n", path, total,
           (long long)status.st_size, digest);
}

static int compare_names(const void *left, const void *right)
{
    return strcmp(left, right);
}

static void print_directory(const char *path)
{
    char names[32][64];
    size_t count = 0;
    DIR *directory = opendir(path);
    require(directory != NULL, "opendir");
    for (struct dirent *entry; (entry = readdir(directory)) != NULL && count < 32;) {
        snprintf(names[count++], sizeof names[0], "%.60s", entry->d_name);
    }
    closedir(directory);
    qsort(names, count, sizeof names[0], compare_names);
    printf("%s:", path);
    for (size_t i = 0; i < count; i++) {
        printf(" %s", names[i]);
    }
    printf("\n");
}

static void fill_block(unsigned char *block, unsigned number)
{
    for (unsigned i = 0; i < BLOCK_BYTES; i++) {
        block[i] = (unsigned char)((number * 37 + i * 11) ^ (i >> 8));
    }
}

/* A file written in order, with an fsync now and then. */
static void test_large_file(unsigned blocks)
{
    unsigned char block[BLOCK_BYTES];
    const int file = open("large", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    require(file >= 0, "create large");
    for (unsigned i = 0; i < blocks; i++) {
        fill_block(block, i);
        write_all(file, block, sizeof block);
        if (i % 16 == 15) {
            require(fsync(file) == 0, "fsync");
        }
    }
    require(fdatasync(file) == 0, "fdatasync");
    require(close(file) == 0, "close");
    print_file("large");
}

/* Out of order, with a hole, cut short and grown again, in place, appended, by vectors. */
static void test_offsets(void)
{
    const int file = open("sparse", O_RDWR | O_CREAT | O_EXCL, 0600);
    require(file >= 0, "create sparse");
    require(pwrite(file, "tail", 4, 10000) == 4, "pwrite");
    require(pwrite(file, "middle", 6, 5000) == 6, "pwrite");
    require(lseek(file, 0, SEEK_CUR) == 0, "pwrite leaves the offset");
    write_all(file, "head", 4);
    require(lseek(file, -4, SEEK_END) == 10000, "lseek from the end");
    char text[5] = {0};
    require(read(file, text, 4) == 4, "read at the end");
    print_file("sparse");
    require(ftruncate(file, 5003) == 0, "ftruncate down");
    require(ftruncate(file, 6000) == 0, "ftruncate up");
    char after[4] = "xxx";
    require(pread(file, after, 3, 5003) == 3, "pread");
    printf("sparse: \"%s\" at the end, zeros after the cut: %d\n", text,
           memcmp(after, "\0\0\0", 3) == 0);
    print_file("sparse");
    require(close(file) == 0, "close");

    const int log = open("log", O_WRONLY | O_CREAT | O_APPEND, 0644);
    require(log >= 0, "create log");
    for (int i = 0; i < 20; i++) {
        char number[16];
        const struct iovec parts[] = {
            {.iov_base = "line ", .iov_len = 5},
            {.iov_base = number, .iov_len = (size_t)snprintf(number, sizeof number, "%d", i)},
            {.iov_base = "\n", .iov_len = 1},
        };
        require(lseek(log, 0, SEEK_SET) == 0, "lseek");
        require(writev(log, parts, 3) > 0, "writev");
    }
    require(close(log) == 0, "close");
    print_file("log");
}

/* The usual way to replace a file as a whole: write a new one, sync it, rename it. */
static void test_rename(void)
{
    for (int version = 1; version <= 5; version++) {
        char text[64];
        const int length = snprintf(text, sizeof text, "version %d of the settings\n", version);
        const int file = open("settings.new", O_WRONLY | O_CREAT | O_TRUNC, 0644);
        require(file >= 0, "create settings.new");
        write_all(file, text, (size_t)length);
        require(fsync(file) == 0, "fsync");
        require(close(file) == 0, "close");
        require(rename("settings.new", "settings") == 0, "rename");
        const int directory = open(".", O_RDONLY | O_DIRECTORY);
        require(directory >= 0, "open the directory");
        require(fsync(directory) == 0, "fsync of the directory");
        require(close(directory) == 0, "close");
    }
    print_file("settings");
}

/* A removed file lives on while it is open; a duplicate shares the offset. */
static void test_descriptors(void)
{
    const int file = open("doomed", O_RDWR | O_CREAT | O_TRUNC, 0644);
    require(file >= 0, "create doomed");
    write_all(file, "still here", 10);
    require(unlink("doomed") == 0, "unlink");
    const int copy = dup(file);
    require(copy >= 0, "dup");
    require(lseek(copy, 6, SEEK_SET) == 6, "lseek");
    char text[8] = {0};
    require(read(file, text, 4) == 4, "read of an unlinked file");
    printf("doomed: \"%s\", exists: %d\n", text, access("doomed", F_OK) == 0);
    close(file);
    close(copy);

    int ends[2];
    require(pipe(ends) == 0, "pipe");
    write_all(ends[1], "through a pipe", 14);
    close(ends[1]);
    char message[32] = {0};
    const ssize_t first = read(ends[0], message, sizeof message);
    const ssize_t second = read(ends[0], message + 20, 4);
    close(ends[0]);
    printf("pipe: \"%s\", then %zd, end %zd\n", message, first, second);
}

/* A file changed through shared memory, and a private view that must not change it. */
static void test_mappings(void)
{
    const int file = open("mapped", O_RDWR | O_CREAT | O_TRUNC, 0644);
    require(file >= 0, "create mapped");
    require(ftruncate(file, 2 * BLOCK_BYTES) == 0, "ftruncate");
    unsigned char *shared =
        mmap(NULL, 2 * BLOCK_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    require(shared != MAP_FAILED, "shared mmap");
    fill_block(shared, 1);
    fill_block(shared + BLOCK_BYTES, 2);
    require(msync(shared, 2 * BLOCK_BYTES, MS_SYNC) == 0, "msync");
    unsigned char *private =
        mmap(NULL, BLOCK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, BLOCK_BYTES);
    require(private != MAP_FAILED, "private mmap");
    const int same = memcmp(private, shared + BLOCK_BYTES, BLOCK_BYTES) == 0;
    memset(private, 0, BLOCK_BYTES);
    require(munmap(private, BLOCK_BYTES) == 0, "munmap");
    require(munmap(shared, 2 * BLOCK_BYTES) == 0, "munmap");
    require(close(file) == 0, "close");
    printf("mapped: private view equal %d\n", same);
    print_file("mapped");
}

static void test_errors(void)
{
    refused(open("missing", O_RDONLY), "open of a missing file");
    refused(open("log", O_WRONLY | O_CREAT | O_EXCL, 0644), "exclusive creation");
    refused(open("log/below", O_RDONLY), "open below a file");
    refused(mkdir("large", 0755), "mkdir over a file");
    refused(unlink("missing"), "unlink of a missing file");
    refused((int)write(999, "x", 1), "write to no descriptor");
    const int log = open("log", O_RDONLY);
    require(log >= 0, "open log");
    refused((int)lseek(log, -1, SEEK_SET), "lseek before the start");
    refused((int)write(log, "x", 1), "write to a file opened for reading");
    close(log);
    require(mkdir("nested", 0755) == 0, "mkdir");
    const int inner = open("nested/inner", O_WRONLY | O_CREAT, 0644);
    require(inner >= 0, "create nested/inner");
    close(inner);
    refused(rmdir("nested"), "rmdir of a full directory");
    require(unlink("nested/inner") == 0, "unlink nested/inner");
    require(rmdir("nested") == 0, "rmdir");
}

static void test_stdio(void)
{
    FILE *file = fopen("numbers", "w+");
    require(file != NULL, "fopen");
    for (int i = 0; i < 2000; i++) {
        fprintf(file, "%d %x\n", i * i, i);
    }
    require(fseek(file, 0, SEEK_SET) == 0, "fseek");
    int square, hexadecimal;
    long sum = 0;
    while (fscanf(file, "%d %x", &square, (unsigned *)&hexadecimal) == 2) {
        sum += square - hexadecimal * hexadecimal;
    }
    const int end = feof(file);
    require(fclose(file) == 0, "fclose");
    printf("numbers: differences %ld, end of file %d\n", sum, end != 0);
    print_file("numbers");
}

static void leave_result(unsigned blocks)
{
    char text[64];
    const int length = snprintf(text, sizeof text, "files: %u blocks written\n", blocks);
    const int file = open("files-test.result", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    require(file >= 0, "create files-test.result");
    write_all(file, text, (size_t)length);
    require(fsync(file) == 0, "fsync");
    require(close(file) == 0, "close");
}

int main(int argc, char **argv)
{
    static const char *const left_over[] = {"large",  "sparse", "log",
                                            "mapped", "numbers", "settings"};
    const int kilobytes = argc > 1 ? atoi(argv[1]) : 256;
    if (argc > 2 || kilobytes < 4 || kilobytes > 1024 * 1024) {
        fprintf(stderr, "usage: files [KILOBYTES (4 to 1048576)]\n");
        return 2;
    }
    const unsigned blocks = (unsigned)kilobytes / 4;
    require(mkdir("files-test.dir", 0755) == 0, "mkdir files-test.dir");
    require(chdir("files-test.dir") == 0, "chdir");
    test_large_file(blocks);
    test_offsets();
    test_rename();
    test_descriptors();
    test_mappings();
    test_errors();
    test_stdio();
    print_directory(".");
    for (size_t i = 0; i < sizeof left_over / sizeof left_over[0]; i++) {
        require(unlink(left_over[i]) == 0, "unlink");
    }
    require(chdir("..") == 0, "chdir");
    require(rmdir("files-test.dir") == 0, "rmdir files-test.dir");
    leave_result(blocks);
    printf("files: done\n");
    return EXIT_SUCCESS;
}
