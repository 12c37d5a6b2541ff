/*
 * A server and its clients in one program, which talk over connections of the machine's loopback.
 *
 * Each thread of run.h is a handler. It has a client, another thread, that sends YCSB's requests over a
 * connection of its own, and awaits each reply before the next request. A handler's operation is to serve its
 * connection until a request has changed the store. So what is measured has the protocol and the waiting for
 * requests in it. After its last write, a client reads all of its records back and asks for what has no
 * effect, which is not measured; with --no-check it goes away at once.
 *
 * Our assumptions: one program, where the paper has a server and YCSB's; the kernel chooses the port. A reply
 * goes out when the commit returns, as it does from programs over PMDK. It tells nobody outside of the
 * machine anything: that is what --acknowledge does, after np_durable.
 *
 * A program defines what is declared below as the protocol's.
 */
#ifndef PERDURE_NEARPM_SERVICE_H
#define PERDURE_NEARPM_SERVICE_H

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "ycsb.h"

/* One end of a connection. */
struct end {
    FILE *in, *out;
};

/* A handler's connection with its client. */
struct session {
    alignas(LINE_BYTES) uint64_t thread;
    struct end handler, client;
    pthread_t id; /* of the client */
};

static struct session sessions[THREADS_MAX];

/* What has become of a request. */
enum served { ANSWERED, CHANGED, CLOSED };

/* ---- The protocol: what a program defines ----------------------------------------------------- */

/* Finds in ordinary memory what the store has. */
static void open_store(void);
/* Takes one request, and answers it. */
OPERATION enum served serve(struct np_transaction transaction, struct end *end);
/* The client's side: each sends a request, and has it answered as it must be. */
static void ask_to_set(struct end *end, const char *key, const char *value);
static void ask_to_get(struct end *end, const char *key, const char *value);
static void ask_for_errors(struct end *end);
static void ask_to_quit(struct end *end);

/* ---- Ends ------------------------------------------------------------------------------------- */

/* A line without its end, which is "\r\n" or "\n"; false if there is none, or it is too long. */
static inline bool read_line(struct end *end, char *line, size_t bytes)
{
    if (fgets(line, (int)bytes, end->in) == NULL) {
        return false;
    }
    char *last = strchr(line, '\n');
    if (last == NULL) {
        return false;
    }
    *(last > line && last[-1] == '\r' ? last - 1 : last) = '\0';
    return true;
}

/* So many bytes and the end of a line. */
static inline bool read_block(struct end *end, char *block, size_t bytes)
{
    char last[2];
    return fread(block, 1, bytes, end->in) == bytes && fread(last, 1, sizeof last, end->in) == sizeof last &&
           memcmp(last, "\r\n", sizeof last) == 0;
}

/* The other end must answer so. */
static inline void expect(struct end *end, const char *expected)
{
    char line[256];
    fflush(end->out);
    if (!read_line(end, line, sizeof line)) {
        die(STATUS_WRONG, "a client was to be told \"%s\", and is told nothing", expected);
    }
    if (strcmp(line, expected) != 0) {
        die(STATUS_WRONG, "a client was to be told \"%s\", and is told \"%s\"", expected, line);
    }
}

static inline void ask(struct end *end, const char *request, const char *expected)
{
    fputs(request, end->out);
    expect(end, expected);
}

static inline void expect_value(struct end *end, const char *key, const char *value)
{
    char block[VALUE_BYTES];
    if (!read_block(end, block, VALUE_BYTES) || memcmp(block, value, VALUE_BYTES) != 0) {
        die(STATUS_WRONG, "a client is told another value of key %s", key);
    }
}

static inline struct end open_end(int socket)
{
    const int yes = 1, twin = dup(socket);
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    const struct end end = {.in = fdopen(socket, "r"), .out = fdopen(twin, "w")};
    if (end.in == NULL || end.out == NULL) {
        die(STATUS_USAGE, "no file for a connection: %s", strerror(errno));
    }
    return end;
}

static inline void close_end(struct end *end)
{
    fclose(end->out);
    fclose(end->in);
}

/* ---- Clients ---------------------------------------------------------------------------------- */

/* Writes from the first operation that is not there on; which operation is the last on each record. */
static inline uint64_t *write_records(struct session *session)
{
    const uint64_t thread = session->thread, all = structure_operations(thread);
    uint64_t *last = ordinary(records_of(thread), sizeof *last);
    for (uint64_t index = 0; index < all; index++) {
        const struct written written = write_of(thread, index);
        last[(uint32_t)written.record] = written.operation;
        if (runners[thread].there == NULL || runners[thread].there[index] == 0) {
            const struct key key = key_of(written.record);
            char value[VALUE_BYTES];
            fill_value(value, written);
            ask_to_set(&session->client, key.text, value);
        }
    }
    return last;
}

static inline void read_records(struct session *session, const uint64_t *last)
{
    for (uint64_t number = 0; number < records_of(session->thread); number++) {
        const struct written written = {session->thread << THREAD_SHIFT | number, last[number]};
        const struct key key = key_of(written.record);
        char value[VALUE_BYTES];
        fill_value(value, written);
        ask_to_get(&session->client, key.text, value);
    }
}

static inline void *run_client(void *context)
{
    struct session *session = context;
    uint64_t *last = write_records(session);
    if (no_check == 0) {
        read_records(session, last);
        ask_for_errors(&session->client);
    }
    ask_to_quit(&session->client);
    close_end(&session->client);
    free(last);
    return NULL;
}

/* ---- Handlers --------------------------------------------------------------------------------- */

static inline int checked(int answer, const char *what)
{
    if (answer < 0) {
        die(STATUS_USAGE, "cannot %s: %s", what, strerror(errno));
    }
    return answer;
}

static inline void start_clients(void)
{
    const int listener = checked(socket(AF_INET, SOCK_STREAM, 0), "make a socket");
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr *any = (struct sockaddr *)(void *)&address;
    socklen_t bytes = sizeof address;
    checked(bind(listener, any, bytes), "bind a socket");
    checked(listen(listener, THREADS_MAX), "listen");
    checked(getsockname(listener, any, &bytes), "find the port");
    for (uint64_t thread = 0; thread < work.threads; thread++) {
        struct session *session = &sessions[thread];
        const int client = checked(socket(AF_INET, SOCK_STREAM, 0), "make a socket");
        checked(connect(client, any, bytes), "connect");
        session->thread = thread;
        session->client = open_end(client);
        session->handler = open_end(checked(accept(listener, NULL, NULL), "accept a connection"));
    }
    close(listener);
    for (uint64_t thread = 0; thread < work.threads; thread++) {
        if (pthread_create(&sessions[thread].id, NULL, run_client, &sessions[thread]) != 0) {
            die(STATUS_USAGE, "cannot start client %" PRIu64, thread);
        }
    }
}

static inline void open_service(void)
{
    open_store();
    start_clients();
}

OPERATION void structure_operation(struct np_transaction transaction, uint64_t index)
{
    enum served served = ANSWERED;
    while (served == ANSWERED) {
        served = serve(transaction, &sessions[transaction.thread->tag].handler);
    }
    if (served == CLOSED) {
        die(STATUS_WRONG, "client %u goes before operation %" PRIu64, transaction.thread->tag, index);
    }
}

static inline void close_service(struct np_transaction transaction)
{
    struct session *session = &sessions[transaction.thread->tag];
    while (serve(transaction, &session->handler) != CLOSED) {
    }
    close_end(&session->handler);
    pthread_join(session->id, NULL);
}

static inline void structure_defaults(void)
{
    work.elements = 1000;
    work.operations = 10000;
    structure_open = open_service;
    structure_close = close_service;
}

static inline void plan_service(void)
{
    if (work.elements < work.threads) {
        die(STATUS_USAGE, "--elements is %" PRIu64 ", but every client needs one (records)", work.elements);
    }
    weigh_records();
}

#endif
