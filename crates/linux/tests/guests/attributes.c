// Extended attributes: names, values, limits, errors, and what goes with a file.
#include "facts.h"
#include <sys/xattr.h>

static char large[70000], *volatile nowhere = (char *)8;

static void names(const char *path)
{
    char text[512];
    ssize_t count = listxattr(path, text, sizeof text);
    printf("%s has %zd:", path, count);
    for (ssize_t at = 0; at < count; at += (ssize_t)strlen(text + at) + 1)
        printf(" %s", text + at);
    printf("\n");
}

int main(void)
{
    char text[64] = "";
    int file = open("file", O_RDWR | O_CREAT, 0600);
    mkdir("directory", 0700), symlink("file", "link"), mkfifo("fifo", 0600);
    CALL(getxattr("file", "user.a", text, 64));
    CALL(listxattr("file", NULL, 0));
    CALL(setxattr("file", "user.a", "value", 5, XATTR_REPLACE));
    CALL(setxattr("file", "user.a", "value", 5, XATTR_CREATE));
    CALL(setxattr("file", "user.a", "other", 5, XATTR_CREATE));
    CALL(getxattr("file", "user.a", text, 64));
    printf("%s\n", text);
    CALL(getxattr("file", "user.a", NULL, 0));
    CALL(getxattr("file", "user.a", text, 4));
    CALL(fsetxattr(file, "user.b", "", 0, 0));
    CALL(fgetxattr(file, "user.b", text, 64));
    CALL(lsetxattr("directory", "user.c", "123", 3, 0));
    names("file"), names("directory"), names("link");
    CALL(listxattr("file", text, 3));
    CALL(getxattr("link", "user.a", text, 64));
    CALL(lgetxattr("link", "user.a", text, 64));
    CALL(lsetxattr("link", "user.a", "x", 1, 0));
    CALL(llistxattr("link", text, 64));
    CALL(setxattr("fifo", "user.a", "x", 1, 0));
    CALL(setxattr("none", "user.a", "x", 1, 0));
    CALL(setxattr("file", "user.a", "x", 1, 4));
    CALL(setxattr("file", "user.", "x", 1, 0));
    CALL(setxattr("file", "", "x", 1, 0));
    CALL(setxattr("file", "nothing.a", "x", 1, 0));
    CALL(getxattr("file", "nothing.a", text, 1));
    CALL(setxattr("file", "trusted.a", "x", 1, 0));
    CALL(getxattr("file", "trusted.a", text, 1));
    CALL(removexattr("file", "trusted.a"));
    CALL(getxattr("file", "security.none", text, 1));
    memset(large, 'x', sizeof large);
    CALL(setxattr("file", "user.large", large, 65537, 0));
    CALL(setxattr("file", "user.large", large, 65536, 0));
    CALL(setxattr("file", "user.large", large, 3000, 0));
    CALL(setxattr("file", "user.more", large, 3000, 0));
    CALL(setxattr("file", nowhere, "x", 1, 0));
    CALL(setxattr("file", "user.x", nowhere, 1, 0));
    char name[300] = "user.";
    memset(name + 5, 'n', 251);
    CALL(setxattr("file", name, "x", 1, 0));
    name[255] = 0;
    CALL(setxattr("file", name, "x", 1, 0));
    CALL(removexattr("file", name));
    CALL(removexattr("file", name));
    int read_only = open("file", O_RDONLY);
    CALL(fsetxattr(read_only, "user.d", "d", 1, 0));
    CALL(fremovexattr(read_only, "user.large"));
    int path = open("file", O_PATH);
    CALL(fgetxattr(path, "user.a", text, 64));
    CALL(fgetxattr(99, "user.a", text, 64));
    CALL(chmod("file", 0400));
    CALL(setxattr("file", "user.a", "x", 1, 0));
    CALL(chmod("file", 0200));
    CALL(getxattr("file", "user.a", text, 64));
    CALL(rename("file", "moved") | link("moved", "second"));
    chmod("second", 0600);
    names("second");
    CALL(unlink("moved") | unlink("second"));
    CALL(fgetxattr(file, "user.a", text, 64));
    close(file);
    CALL(open("second", O_RDWR | O_CREAT, 0600) >= 0);
    names("second");
    return 0;
}
