/* UNIX sockets that have names in the file tree. */
#ifndef NAMED_H
#define NAMED_H
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

static struct sockaddr_un path_name(const char *path) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    strcpy(a.sun_path, path);
    return a;
}

/* A socket of that name, -1 if it cannot have it. */
static int named_socket(int type, const char *path) {
    int fd = socket(AF_UNIX, type, 0);
    struct sockaddr_un a = path_name(path);
    return bind(fd, (void *)&a, sizeof a) ? -1 : fd;
}

#endif
