/*
 * intruder [-a PERCENT] [-l LENGTH] [-n FLOWS] [-s SEED] [-t THREADS]
 *
 * Computes: which of -n network flows are attacks. A flow is text of up to -l bytes, cut into
 * fragments of equal length (the last one takes the rest); the packets of all flows come in random
 * order. -a percent of the flows contain a signature of the dictionary, in letters of any case; the
 * others contain none.
 *
 * Algorithm: that of STAMP's intruder (Minh et al., IISWC 2008), after the network intrusion
 * detection of Haagdorens et al. (WISA 2004): each thread captures a packet from a queue; adds it
 * to the fragments of its flow, which a self-balancing tree holds in order, here a treap (Seidel
 * and Aragon, 1996); if the flow is complete, puts its text into a second queue; and takes a text
 * from there, if there is one, which it converts to lower case and searches for each signature.
 *
 * Locks: one spin lock for each of the two queues, and one for each of the trees, among which the
 * flows are dealt by a hash. A complete flow is put together without a lock.
 *
 * Check: every flow was judged once, its text was that which was cut up, and the attacks found are
 * those planted. (The generator makes sure that no other flow contains a signature.)
 */
#define PROGRAM "intruder"
#include "parallel.h"

enum { TREES = 64, FIRST_CAPACITY = 64 };

static const char *const SIGNATURES[] = {
    "admin",  "attack", "backdoor", "botnet", "breach",  "brute",  "bypass",  "chmod",  "cmdexe",
    "cookie", "crack",  "daemon",   "debug",  "decoy",   "delete", "docker",  "drop",   "encode",
    "eval",   "exec",   "exploit",  "filter", "flood",   "format", "ftpd",    "grant",  "hash",
    "hijack", "hook",   "inject",   "insert", "kernel",  "keylog", "leak",    "login",  "malware",
    "mount",  "netcat", "nopsled",  "null",   "overrun", "passwd", "payload", "phish",  "ping",
    "pipe",   "probe",  "proxy",    "ransom", "replay",  "root",   "rsh",     "scan",   "select",
    "setuid", "shadow", "shell",    "sniff",  "spoof",   "stack",  "sudo",    "syn",    "telnet",
    "token",  "trojan", "tunnel",   "union",  "upload",  "virus",  "wget",    "worm",
};
enum { SIGNATURE_COUNT = sizeof SIGNATURES / sizeof *SIGNATURES, SIGNATURE_BYTES_MAX = 8 };

/* A fragment of a flow, on its way; `next` is the one that follows in its flow. */
struct packet {
    struct packet *next;
    uint32_t flow;
    uint32_t fragment, fragments;
    uint32_t length;
    char bytes[];
};

/* What has arrived of a flow, a node of a treap: flows in order from left to right, priorities
   falling from the root down. */
struct session {
    struct session *left, *right;
    uint64_t priority;
    uint32_t flow;
    uint32_t arrived;
    struct packet *first; /* of the fragments, in order */
};

struct tree {
    struct spin_lock lock;
    struct session *root;
} __attribute__((aligned(CACHE_LINE_BYTES)));

/* A flow's whole text, in the queue of texts. */
struct text {
    struct text *next;
    uint32_t flow;
    uint32_t length;
    char bytes[];
};

struct text_queue {
    struct spin_lock lock;
    struct text *first, *last;
} __attribute__((aligned(CACHE_LINE_BYTES)));

struct packet_queue {
    struct spin_lock lock;
    uint64_t first;
    uint64_t end;
    struct packet **packets;
} __attribute__((aligned(CACHE_LINE_BYTES)));

/* What is found, and what should be found, about a flow. */
struct verdict {
    uint32_t flow;
    bool is_attack;
    uint64_t text_digest;
};

/* The verdicts of one thread. */
struct verdicts {
    struct verdict *items;
    uint64_t count, capacity;
} __attribute__((aligned(CACHE_LINE_BYTES)));

struct problem {
    uint64_t flows, threads;
    struct packet_queue captured;
    struct tree trees[TREES];
    struct text_queue complete;
    struct verdict *expected; /* of each flow */
    struct verdicts *verdicts; /* of each thread */
};

/* Memory that is given back with free. */
static void *checked(void *memory)
{
    if (memory == NULL) {
        die(STATUS_USAGE, "no memory");
    }
    return memory;
}

static void to_lower_case(char *bytes, uint64_t length)
{
    for (uint64_t i = 0; i < length; i++) {
        if (bytes[i] >= 'A' && bytes[i] <= 'Z') {
            bytes[i] = (char)(bytes[i] - 'A' + 'a');
        }
    }
}

static uint64_t digest_of_text(const char *bytes, uint64_t length)
{
    uint64_t digest = DIGEST_START;
    digest_bytes(&digest, bytes, length);
    return digest;
}

/* ---- The traffic -------------------------------------------------------------------------- */

/* Random characters that can be printed, and a terminating zero. */
static void make_text(char *text, uint64_t length, uint64_t *random)
{
    for (uint64_t i = 0; i < length; i++) {
        text[i] = (char)('!' + random_below(random, '~' - '!' + 1));
    }
    text[length] = '\0';
}

/* Whether the text, of which `lower_case` receives a copy, contains a signature: place by place,
   unlike the detector, which goes signature by signature. */
static bool is_signed(const char *text, char *lower_case, uint64_t length)
{
    memcpy(lower_case, text, length + 1);
    to_lower_case(lower_case, length);
    for (const char *place = lower_case; *place != '\0'; place++) {
        if (*place < 'a' || *place > 'z') {
            continue;
        }
        for (int i = 0; i < SIGNATURE_COUNT; i++) {
            if (*place == *SIGNATURES[i] &&
                strncmp(place, SIGNATURES[i], strlen(SIGNATURES[i])) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* Text of up to `length_max` bytes that contains a signature; its length. */
static uint64_t make_attack(char *text, uint64_t length_max, uint64_t *random)
{
    const char *signature = SIGNATURES[random_below(random, SIGNATURE_COUNT)];
    const uint64_t signature_length = strlen(signature);
    uint64_t length = 1 + random_below(random, length_max);
    if (length < signature_length) {
        length = signature_length;
    }
    make_text(text, length, random);
    char *place = text + random_below(random, length - signature_length + 1);
    for (uint64_t i = 0; i < signature_length; i++) {
        const bool is_upper = random_below(random, 2) == 0;
        place[i] = (char)(is_upper ? signature[i] - 'a' + 'A' : signature[i]);
    }
    return length;
}

/* Text of up to `length_max` bytes that contains no signature; its length. */
static uint64_t make_harmless(char *text, char *scratch, uint64_t length_max, uint64_t *random)
{
    const uint64_t length = 1 + random_below(random, length_max);
    do {
        make_text(text, length, random);
    } while (is_signed(text, scratch, length));
    return length;
}

/* Cuts a flow into a random number of packets, which it adds to the queue. */
static void cut_flow(struct packet_queue *queue, uint64_t *capacity, uint32_t flow,
                     const char *text, uint64_t length, uint64_t *random)
{
    const uint64_t fragments = 1 + random_below(random, length);
    const uint64_t equal = length / fragments;
    for (uint64_t i = 0; i < fragments; i++) {
        const uint64_t bytes = i + 1 < fragments ? equal : length - equal * (fragments - 1);
        struct packet *packet = checked(malloc(sizeof *packet + bytes));
        *packet = (struct packet){.flow = flow,
                                  .fragment = (uint32_t)i,
                                  .fragments = (uint32_t)fragments,
                                  .length = (uint32_t)bytes};
        memcpy(packet->bytes, text + i * equal, bytes);
        if (queue->end == *capacity) {
            *capacity = *capacity == 0 ? FIRST_CAPACITY : 2 * *capacity;
            queue->packets = checked(realloc(queue->packets, *capacity * sizeof *queue->packets));
        }
        queue->packets[queue->end] = packet;
        queue->end++;
    }
}

static void make_traffic(struct problem *problem, uint64_t percent, uint64_t length_max,
                         uint64_t seed)
{
    struct packet_queue *queue = &problem->captured;
    const uint64_t bytes = length_max + SIGNATURE_BYTES_MAX + 1;
    char *text = allocate(bytes, 1);
    char *scratch = allocate(bytes, 1);
    uint64_t random = random_seeded(seed);
    uint64_t capacity = 0;
    problem->expected = allocate(problem->flows, sizeof *problem->expected);
    for (uint32_t flow = 0; flow < problem->flows; flow++) {
        const bool is_attack = random_below(&random, 100) < percent;
        const uint64_t length = is_attack ? make_attack(text, length_max, &random)
                                          : make_harmless(text, scratch, length_max, &random);
        problem->expected[flow] =
            (struct verdict){flow, is_attack, digest_of_text(text, length)};
        cut_flow(queue, &capacity, flow, text, length, &random);
    }
    for (uint64_t i = queue->end; i > 1; i--) {
        const uint64_t other = random_below(&random, i);
        struct packet *packet = queue->packets[i - 1];
        queue->packets[i - 1] = queue->packets[other];
        queue->packets[other] = packet;
    }
    free(scratch);
    free(text);
}

/* ---- Capture ------------------------------------------------------------------------------ */

/* The next packet, or NULL if all have been taken. */
static struct packet *capture(struct packet_queue *queue)
{
    struct packet *packet = NULL;
    spin_lock_take(&queue->lock);
    if (queue->first < queue->end) {
        packet = queue->packets[queue->first];
        queue->first++;
    }
    spin_lock_release(&queue->lock);
    return packet;
}

/* ---- Reassembly --------------------------------------------------------------------------- */

/* Where a tree holds a flow, or would hold it as a leaf. */
static struct session **find_session(struct session **link, uint32_t flow)
{
    while (*link != NULL && (*link)->flow != flow) {
        link = flow < (*link)->flow ? &(*link)->left : &(*link)->right;
    }
    return link;
}

/* Adds a session of a flow that the tree does not hold: where the priorities want it, with what was
   there parted to its left and right. */
static struct session *insert_session(struct session **link, uint32_t flow)
{
    struct session *session = checked(malloc(sizeof *session));
    *session = (struct session){.priority = mix64(flow), .flow = flow};
    while (*link != NULL && (*link)->priority > session->priority) {
        link = flow < (*link)->flow ? &(*link)->left : &(*link)->right;
    }
    struct session *rest = *link;
    struct session **smaller = &session->left;
    struct session **larger = &session->right;
    while (rest != NULL) {
        if (rest->flow < flow) {
            *smaller = rest;
            smaller = &rest->right;
            rest = rest->right;
        } else {
            *larger = rest;
            larger = &rest->left;
            rest = rest->left;
        }
    }
    *smaller = NULL;
    *larger = NULL;
    *link = session;
    return session;
}

/* Takes a session out of its tree: its two subtrees are zipped together. */
static void remove_session(struct session **link)
{
    struct session *left = (*link)->left;
    struct session *right = (*link)->right;
    while (left != NULL && right != NULL) {
        if (left->priority > right->priority) {
            *link = left;
            link = &left->right;
            left = left->right;
        } else {
            *link = right;
            link = &right->left;
            right = right->left;
        }
    }
    *link = left != NULL ? left : right;
}

/* Adds a packet to its flow. If the flow is complete with it, returns the session, which is no
   longer in the tree; else NULL. */
static struct session *add_packet(struct tree *tree, struct packet *packet)
{
    struct session *complete = NULL;
    spin_lock_take(&tree->lock);
    struct session **link = find_session(&tree->root, packet->flow);
    struct session *session = *link;
    if (session == NULL) {
        session = insert_session(&tree->root, packet->flow);
        link = NULL;
    }
    struct packet **place = &session->first;
    while (*place != NULL && (*place)->fragment < packet->fragment) {
        place = &(*place)->next;
    }
    packet->next = *place;
    *place = packet;
    session->arrived++;
    if (session->arrived == packet->fragments) {
        remove_session(link != NULL ? link : find_session(&tree->root, packet->flow));
        complete = session;
    }
    spin_lock_release(&tree->lock);
    return complete;
}

/* The text of a complete flow, whose fragments and session are given back. */
static struct text *join_fragments(struct session *session)
{
    uint64_t length = 0;
    for (const struct packet *packet = session->first; packet != NULL; packet = packet->next) {
        length += packet->length;
    }
    struct text *text = checked(malloc(sizeof *text + length));
    *text = (struct text){.flow = session->flow, .length = (uint32_t)length};
    uint64_t at = 0;
    for (struct packet *packet = session->first; packet != NULL;) {
        struct packet *next = packet->next;
        memcpy(text->bytes + at, packet->bytes, packet->length);
        at += packet->length;
        free(packet);
        packet = next;
    }
    free(session);
    return text;
}

static void put_text(struct text_queue *queue, struct text *text)
{
    spin_lock_take(&queue->lock);
    if (queue->first == NULL) {
        queue->first = text;
    } else {
        queue->last->next = text;
    }
    queue->last = text;
    spin_lock_release(&queue->lock);
}

/* The text that has waited longest, or NULL if none waits. */
static struct text *take_text(struct text_queue *queue)
{
    spin_lock_take(&queue->lock);
    struct text *text = queue->first;
    if (text != NULL) {
        queue->first = text->next;
    }
    spin_lock_release(&queue->lock);
    return text;
}

/* ---- Detection ---------------------------------------------------------------------------- */

static bool contains(const char *bytes, uint64_t length, const char *signature)
{
    for (uint64_t start = 0; start < length; start++) {
        uint64_t same = 0;
        while (signature[same] != '\0' && start + same < length &&
               bytes[start + same] == signature[same]) {
            same++;
        }
        if (signature[same] == '\0') {
            return true;
        }
    }
    return false;
}

static bool is_attack(const char *bytes, uint64_t length)
{
    for (int i = 0; i < SIGNATURE_COUNT; i++) {
        if (contains(bytes, length, SIGNATURES[i])) {
            return true;
        }
    }
    return false;
}

/* Judges a text, which is given back. */
static void judge(struct verdicts *verdicts, struct text *text)
{
    struct verdict verdict = {.flow = text->flow,
                              .text_digest = digest_of_text(text->bytes, text->length)};
    to_lower_case(text->bytes, text->length);
    verdict.is_attack = is_attack(text->bytes, text->length);
    free(text);
    if (verdicts->count == verdicts->capacity) {
        verdicts->capacity = verdicts->capacity == 0 ? FIRST_CAPACITY : 2 * verdicts->capacity;
        verdicts->items =
            checked(realloc(verdicts->items, verdicts->capacity * sizeof *verdicts->items));
    }
    verdicts->items[verdicts->count] = verdict;
    verdicts->count++;
}

/* ---- The whole and its check -------------------------------------------------------------- */

/* No text is left over in the end: each thread that puts one there takes one, if there is any. */
static void process_packets(unsigned thread, void *context)
{
    struct problem *problem = context;
    struct packet *packet;
    while ((packet = capture(&problem->captured)) != NULL) {
        struct tree *tree = &problem->trees[mix64(~(uint64_t)packet->flow) % TREES];
        struct session *session = add_packet(tree, packet);
        if (session != NULL) {
            put_text(&problem->complete, join_fragments(session));
        }
        struct text *text = take_text(&problem->complete);
        if (text != NULL) {
            judge(&problem->verdicts[thread], text);
        }
    }
}

/* Compares what was found with what was planted; the number of attacks. */
static uint64_t check(const struct problem *problem)
{
    bool *is_judged = allocate_zeroed(problem->flows, sizeof *is_judged);
    uint64_t judged = 0;
    uint64_t attacks = 0;
    for (uint64_t t = 0; t < problem->threads; t++) {
        for (uint64_t i = 0; i < problem->verdicts[t].count; i++) {
            const struct verdict *found = &problem->verdicts[t].items[i];
            const struct verdict *expected = &problem->expected[found->flow];
            if (is_judged[found->flow]) {
                die(STATUS_WRONG, "flow %" PRIu32 " was judged twice", found->flow);
            }
            if (found->text_digest != expected->text_digest) {
                die(STATUS_WRONG, "flow %" PRIu32 " was put together wrongly", found->flow);
            }
            if (found->is_attack != expected->is_attack) {
                die(STATUS_WRONG, "flow %" PRIu32 " %s an attack", found->flow,
                    expected->is_attack ? "is" : "is not");
            }
            is_judged[found->flow] = true;
            judged++;
            attacks += found->is_attack;
        }
    }
    if (judged != problem->flows) {
        die(STATUS_WRONG, "%" PRIu64 " of %" PRIu64 " flows were judged", judged, problem->flows);
    }
    free(is_judged);
    return attacks;
}

int main(int argc, char **argv)
{
    struct problem *problem = allocate_zeroed(1, sizeof *problem);
    uint64_t percent = 10;
    uint64_t length_max = 24;
    uint64_t seed = 1;
    problem->flows = 32768;
    problem->threads = THREADS_DEFAULT;
    const struct parameter parameters[] = {
        option_whole('a', "percentage of attacks", 0, 100, &percent),
        option_whole('l', "bytes in a flow at most, longer signatures apart", 1, 1 << 16,
                     &length_max),
        option_whole('n', "flows", 1, 1 << 24, &problem->flows),
        option_whole('s', "seed of the random traffic", 0, UINT32_MAX, &seed),
        option_threads('t', &problem->threads),
    };
    parse_options(argc, argv, parameters, sizeof parameters / sizeof *parameters);

    make_traffic(problem, percent, length_max, seed);
    problem->verdicts = allocate_zeroed(problem->threads, sizeof *problem->verdicts);
    const uint64_t packets = problem->captured.end;
    ready("%" PRIu64 " flows in %" PRIu64 " packets", problem->flows, packets);

    run_threads((unsigned)problem->threads, process_packets, problem);

    const uint64_t attacks = check(problem);
    uint64_t digest = DIGEST_START;
    for (uint64_t flow = 0; flow < problem->flows; flow++) {
        digest_word(&digest, problem->expected[flow].text_digest);
        digest_word(&digest, problem->expected[flow].is_attack);
    }
    return verified(digest, "%" PRIu64 " attacks in %" PRIu64 " flows of %" PRIu64 " packets",
                    attacks, problem->flows, packets);
}
