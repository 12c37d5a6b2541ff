/* Sparse files, and moving bytes between files. */
#include "facts.h"
#include <sys/sendfile.h>

int main(void) {
    char b[16] = {0};
    int f = open("sparse", O_CREAT | O_RDWR, 0600);
    CALL(pwrite(f, "a", 1, 1 << 20));
    CALL(lseek(f, 0, SEEK_END));
    CALL(pread(f, b, 4, 4096));
    FACT(b[0] | b[3]);
    CALL(lseek(f, 0, SEEK_DATA));
    CALL(lseek(f, 0, SEEK_HOLE));
    CALL(lseek(f, 1 << 20, SEEK_HOLE));
    CALL(lseek(f, 2 << 20, SEEK_DATA));
    CALL(pwrite(f, "b", 1, 1LL << 40));
    CALL(lseek(f, (1 << 20) + 4096, SEEK_DATA));
    struct stat s;
    fstat(f, &s);
    FACT(s.st_size);
    FACT(s.st_blocks < 100);
    CALL(ftruncate(f, 8192));
    CALL(pwrite(f, "cccccccc", 8, 4092));
    CALL(fallocate(f, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4094, 4));
    CALL(pread(f, b, 8, 4092));
    FACT(b[1] == 'c' && b[2] == 0 && b[5] == 0 && b[6] == 'c');
    CALL(fallocate(f, 0, 0, 20000));
    CALL(lseek(f, 0, SEEK_END));
    CALL(fallocate(f, FALLOC_FL_KEEP_SIZE, 0, 40000));
    CALL(lseek(f, 0, SEEK_END));
    CALL(fallocate(f, 0, 0, 0));
    CALL(posix_fallocate(f, 0, 20001));
    CALL(lseek(f, 0, SEEK_END));
    int g = open("copy", O_CREAT | O_RDWR, 0600);
    CALL(pwrite(f, "0123456789", 10, 0));
    CALL(lseek(f, 2, SEEK_SET));
    CALL(copy_file_range(f, 0, g, 0, 5, 0));
    CALL(lseek(f, 0, SEEK_CUR));
    off_t from = 0, to = 100;
    CALL(copy_file_range(f, &from, g, &to, 3, 0));
    FACT(from * 1000 + to);
    CALL(lseek(g, 0, SEEK_CUR));
    off_t at = 1;
    CALL(sendfile(g, f, &at, 4));
    FACT(at);
    CALL(pread(g, b, 9, 0));
    printf("%.9s\n", b);
    int r = open("copy", O_RDONLY);
    CALL(copy_file_range(f, 0, r, 0, 5, 0));
    CALL(sendfile(1, 99, 0, 5));
    int p[2];
    if (pipe(p)) abort();
    at = 0;
    CALL(sendfile(p[1], f, &at, 10));
    CALL(read(p[0], b, 10));
    printf("%.10s\n", b);
    CALL(posix_fadvise(f, 0, 0, POSIX_FADV_SEQUENTIAL));
    CALL(posix_fadvise(p[0], 0, 0, POSIX_FADV_SEQUENTIAL) == ESPIPE);
    return 0;
}
