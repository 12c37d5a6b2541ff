/*
 * discrete-events SWITCHES EVENTS: a packet network, event by event.
 *
 * Computes: what happens in a torus of SWITCHES x SWITCHES switches with four hosts at each. Every
 * host keeps some messages under way to other hosts, most of them nearby; a message is cut into
 * packets, which queue at every link, are sent at the link's rate, travel, are acknowledged by a
 * small packet back, and are dropped and sent again when a queue is full. The simulation stops
 * after EVENTS events.
 *
 * Algorithm: event scheduling with a binary heap as the future event set, as in omnetpp: A. Varga,
 * "The OMNeT++ discrete event simulation system", European Simulation Multiconference (2001);
 * packets follow dimension-order routes (W. J. Dally, C. L. Seitz, IEEE Trans. Computers 36
 * (1987)).
 *
 * Memory behaviour that it stands for (omnetpp): packets, events and messages are small separate
 * objects from malloc, linked in queues and touched at long intervals; the heap holds pointers, so
 * each comparison is a miss of its own. Hardly any locality, many lines written with little in
 * each.
 *
 * Check: bytes are conserved, as sent = delivered + dropped + under way, counted through all
 * queues and events at the end; time never runs backwards; packets between two hosts that were
 * not dropped arrive in the order in which they were sent; no link was busy for longer than time
 * lasted.
 */
#define KERNEL "discrete-events"
#include "kernel.h"

enum {
    HOSTS_A_SWITCH = 4,
    DIRECTIONS = 4, /* east, west, north, south */
    /* the links of a switch: to its neighbours, to its hosts; a host has one link, to its switch */
    LINKS_A_SWITCH = DIRECTIONS + HOSTS_A_SWITCH,
    QUEUE_BYTES_MAX = 6000, /* a link's queue drops what comes beyond it */
    FLOWS_A_HOST = 4,       /* messages that a host keeps under way */
    PACKET_BYTES_MAX = 1500,
    ACKNOWLEDGEMENT_BYTES = 64,
    MESSAGE_PACKETS_MAX = 16,
    NANOSECONDS_A_BYTE = 8, /* 1 Gbit/s */
    TRAVEL_NANOSECONDS = 500,
    THINKING_NANOSECONDS_MAX = 20000,
    TIMEOUT_NANOSECONDS = 1000000,
    REACH = 3,       /* in switches along each axis, of most messages */
    FAR_ONE_IN = 16, /* messages that go anywhere */
};

/* What a packet carries besides its route. */
struct packet {
    struct packet *next; /* in a queue */
    uint64_t sent_at;
    uint32_t source, destination;
    uint32_t flow;     /* of the source, or of the destination for an acknowledgement */
    uint32_t sequence; /* within the flow */
    uint16_t bytes;
    bool acknowledgement;
    uint8_t hops;
    uint32_t payload[6];
};

enum event_kind { LINK_IS_FREE, PACKET_ARRIVES, HOST_WAKES, TIMEOUT };

struct event {
    uint64_t time;
    uint64_t order; /* of scheduling; breaks ties */
    enum event_kind kind;
    uint32_t link; /* or host */
    uint32_t flow;
    uint32_t sequence;
    struct packet *packet;
};

struct link {
    struct packet *first, *last;
    uint64_t busy_nanoseconds;
    uint64_t bytes;
    uint32_t queued_bytes;
    uint32_t to; /* a switch, or a host behind HOST_BIT */
    bool busy;
};

#define HOST_BIT (UINT32_C(1) << 31)

/* One message of a host: sent packet by packet, each after the one before was acknowledged. */
struct flow {
    uint32_t destination;
    uint32_t sequence; /* of the packet under way; never starts again */
    uint32_t packets_left;
    uint32_t last_delivered; /* the highest sequence that has come to the destination */
    uint16_t bytes;
    uint64_t retransmissions;
};

struct host {
    struct flow flows[FLOWS_A_HOST];
    uint64_t random;
};

struct totals {
    uint64_t bytes_sent, bytes_delivered, bytes_dropped;
    uint64_t packets_delivered, packets_dropped, messages, hops;
};

struct network {
    uint32_t side, switches, hosts_count;
    struct link *links; /* of all switches, then of all hosts */
    struct host *hosts;
    struct event **heap;
    size_t heap_count, heap_capacity;
    uint64_t now, orders;
    struct totals totals;
};

/* ---- The future event set ----------------------------------------------------------------- */

static bool before(const struct event *a, const struct event *b)
{
    return a->time != b->time ? a->time < b->time : a->order < b->order;
}

static void schedule(struct network *n, uint64_t delay, struct event event)
{
    struct event *entry = malloc(sizeof *entry);
    if (n->heap_count == n->heap_capacity) {
        n->heap_capacity *= 2;
        n->heap = realloc(n->heap, n->heap_capacity * sizeof *n->heap);
    }
    if (entry == NULL || n->heap == NULL) {
        fprintf(stderr, KERNEL ": no memory for an event\n");
        exit(2);
    }
    *entry = event;
    entry->time = n->now + delay;
    entry->order = n->orders++;
    size_t at = n->heap_count++;
    while (at > 0 && before(entry, n->heap[(at - 1) / 2])) {
        n->heap[at] = n->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    n->heap[at] = entry;
}

static struct event *next_event(struct network *n)
{
    struct event *const first = n->heap[0];
    struct event *const entry = n->heap[--n->heap_count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= n->heap_count) {
            break;
        }
        if (child + 1 < n->heap_count && before(n->heap[child + 1], n->heap[child])) {
            child++;
        }
        if (!before(n->heap[child], entry)) {
            break;
        }
        n->heap[at] = n->heap[child];
        at = child;
    }
    n->heap[at] = entry;
    return first;
}

/* ---- Links -------------------------------------------------------------------------------- */

static uint32_t host_link(const struct network *n, uint32_t host)
{
    return n->switches * LINKS_A_SWITCH + host;
}

/* Sends the first packet of the queue, if the link is free and there is one. */
static void start_sending(struct network *n, uint32_t at)
{
    struct link *link = &n->links[at];
    struct packet *packet = link->first;
    if (link->busy || packet == NULL) {
        return;
    }
    link->first = packet->next;
    if (link->first == NULL) {
        link->last = NULL;
    }
    packet->next = NULL;
    link->queued_bytes -= packet->bytes;
    link->busy = true;
    const uint64_t duration = (uint64_t)packet->bytes * NANOSECONDS_A_BYTE;
    link->busy_nanoseconds += duration;
    link->bytes += packet->bytes;
    schedule(n, duration, (struct event){.kind = LINK_IS_FREE, .link = at});
    schedule(n, duration + TRAVEL_NANOSECONDS,
             (struct event){.kind = PACKET_ARRIVES, .link = at, .packet = packet});
}

static void enqueue(struct network *n, uint32_t at, struct packet *packet)
{
    struct link *link = &n->links[at];
    if (link->queued_bytes + packet->bytes > QUEUE_BYTES_MAX) {
        n->totals.bytes_dropped += packet->bytes;
        n->totals.packets_dropped++;
        free(packet);
        return;
    }
    link->queued_bytes += packet->bytes;
    if (link->last != NULL) {
        link->last->next = packet;
    } else {
        link->first = packet;
    }
    link->last = packet;
    start_sending(n, at);
}

/* The way along one ring of the torus: 0 there, 1 up, 2 down. */
static int ring_way(uint32_t from, uint32_t to, uint32_t side)
{
    if (from == to) {
        return 0;
    }
    const uint32_t up = to > from ? to - from : to + side - from;
    return 2 * up <= side ? 1 : 2;
}

/* The link by which the switch sends the packet on: first along x, then along y, then to the host.
 */
static uint32_t route(const struct network *n, uint32_t at, const struct packet *packet)
{
    const uint32_t goal = packet->destination / HOSTS_A_SWITCH;
    const int along_x = ring_way(at % n->side, goal % n->side, n->side);
    const int along_y = ring_way(at / n->side, goal / n->side, n->side);
    uint32_t link;
    if (along_x != 0) {
        link = (uint32_t)along_x - 1;
    } else if (along_y != 0) {
        link = (uint32_t)along_y + 1;
    } else {
        link = DIRECTIONS + packet->destination % HOSTS_A_SWITCH;
    }
    return at * LINKS_A_SWITCH + link;
}

/* ---- Hosts -------------------------------------------------------------------------------- */

static void send_packet(struct network *n, struct packet packet)
{
    struct packet *copy = malloc(sizeof *copy);
    if (copy == NULL) {
        fprintf(stderr, KERNEL ": no memory for a packet\n");
        exit(2);
    }
    *copy = packet;
    copy->sent_at = n->now;
    n->totals.bytes_sent += copy->bytes;
    enqueue(n, host_link(n, copy->source), copy);
}

/* Sends the flow's current packet, and sets its timeout. */
static void send_current(struct network *n, uint32_t host, uint32_t number)
{
    const struct flow *flow = &n->hosts[host].flows[number];
    struct packet packet = {.source = host, .destination = flow->destination, .flow = number};
    packet.sequence = flow->sequence;
    packet.bytes = flow->bytes;
    for (size_t i = 0; i < sizeof packet.payload / sizeof packet.payload[0]; i++) {
        packet.payload[i] = host + number * (uint32_t)i;
    }
    send_packet(n, packet);
    schedule(
        n, TIMEOUT_NANOSECONDS,
        (struct event){.kind = TIMEOUT, .link = host, .flow = number, .sequence = flow->sequence});
}

/* Another host: mostly one at a switch nearby, now and then any. */
static uint32_t choose_destination(struct network *n, uint32_t host)
{
    uint64_t *random = &n->hosts[host].random;
    uint32_t other;
    if (random_below(random, FAR_ONE_IN) == 0) {
        other = (uint32_t)random_below(random, n->hosts_count);
    } else {
        const uint32_t at = host / HOSTS_A_SWITCH;
        const uint32_t offset = n->side - REACH % n->side;
        const uint32_t x = at % n->side + offset + (uint32_t)random_below(random, 2 * REACH + 1);
        const uint32_t y = at / n->side + offset + (uint32_t)random_below(random, 2 * REACH + 1);
        other = (y % n->side * n->side + x % n->side) * HOSTS_A_SWITCH +
                (uint32_t)random_below(random, HOSTS_A_SWITCH);
    }
    if (other == host) {
        return host + 1 < n->hosts_count ? host + 1 : 0;
    }
    return other;
}

static void start_message(struct network *n, uint32_t host, uint32_t number)
{
    struct host *self = &n->hosts[host];
    struct flow *flow = &self->flows[number];
    flow->destination = choose_destination(n, host);
    flow->packets_left = 1 + (uint32_t)random_below(&self->random, MESSAGE_PACKETS_MAX);
    flow->bytes = (uint16_t)(ACKNOWLEDGEMENT_BYTES +
                             random_below(&self->random, PACKET_BYTES_MAX - ACKNOWLEDGEMENT_BYTES));
    flow->sequence++;
    n->totals.messages++;
    send_current(n, host, number);
}

/* The current packet was acknowledged: the next one, or a pause and the next message. */
static void acknowledged(struct network *n, uint32_t host, const struct packet *packet)
{
    struct flow *flow = &n->hosts[host].flows[packet->flow];
    if (packet->sequence != flow->sequence) {
        return; /* of a packet that was sent twice */
    }
    flow->packets_left--;
    if (flow->packets_left > 0) {
        flow->sequence++;
        send_current(n, host, packet->flow);
    } else {
        schedule(n, 1 + random_below(&n->hosts[host].random, THINKING_NANOSECONDS_MAX),
                 (struct event){.kind = HOST_WAKES, .link = host, .flow = packet->flow});
    }
}

/* A packet has come to its destination: it is checked, answered and freed. */
static void deliver(struct network *n, struct packet *packet)
{
    const uint32_t host = packet->destination;
    n->totals.bytes_delivered += packet->bytes;
    n->totals.packets_delivered++;
    n->totals.hops += packet->hops;
    if (packet->acknowledgement) {
        acknowledged(n, host, packet);
    } else {
        struct flow *flow = &n->hosts[packet->source].flows[packet->flow];
        if (packet->sequence < flow->last_delivered) {
            wrong("packet %" PRIu32 " of host %" PRIu32 " was overtaken by %" PRIu32,
                  packet->sequence, packet->source, flow->last_delivered);
        }
        if (packet->payload[3] != packet->source + 3 * packet->flow) {
            wrong("a packet of host %" PRIu32 " was damaged", packet->source);
        }
        flow->last_delivered = packet->sequence;
        send_packet(n, (struct packet){.source = host,
                                       .destination = packet->source,
                                       .flow = packet->flow,
                                       .sequence = packet->sequence,
                                       .bytes = ACKNOWLEDGEMENT_BYTES,
                                       .acknowledgement = true});
    }
    free(packet);
}

static void timed_out(struct network *n, uint32_t host, uint32_t number, uint32_t sequence)
{
    struct flow *flow = &n->hosts[host].flows[number];
    if (flow->sequence == sequence && flow->packets_left > 0) {
        flow->retransmissions++;
        send_current(n, host, number);
    }
}

static void handle(struct network *n, const struct event *event)
{
    switch (event->kind) {
    case LINK_IS_FREE:
        n->links[event->link].busy = false;
        start_sending(n, event->link);
        break;
    case PACKET_ARRIVES: {
        const uint32_t to = n->links[event->link].to;
        event->packet->hops++;
        if (to & HOST_BIT) {
            deliver(n, event->packet);
        } else {
            enqueue(n, route(n, to, event->packet), event->packet);
        }
        break;
    }
    case HOST_WAKES: start_message(n, event->link, event->flow); break;
    case TIMEOUT: timed_out(n, event->link, event->flow, event->sequence); break;
    }
}

/* ---- Building and checking ---------------------------------------------------------------- */

static struct network make_network(uint32_t side)
{
    struct network n = {.side = side, .switches = side * side};
    n.hosts_count = n.switches * HOSTS_A_SWITCH;
    const size_t links = (size_t)n.switches * LINKS_A_SWITCH + n.hosts_count;
    n.links = allocate_zeroed(links, sizeof *n.links);
    n.hosts = allocate_zeroed(n.hosts_count, sizeof *n.hosts);
    n.heap_capacity = 1024;
    n.heap = allocate(n.heap_capacity, sizeof(struct event *));
    for (uint32_t at = 0; at < n.switches; at++) {
        const uint32_t x = at % side;
        const uint32_t row = at - x;
        struct link *links_here = &n.links[at * LINKS_A_SWITCH];
        links_here[0].to = row + (x + 1) % side;
        links_here[1].to = row + (x + side - 1) % side;
        links_here[2].to = (at + side) % n.switches;
        links_here[3].to = (at + n.switches - side) % n.switches;
        for (uint32_t h = 0; h < HOSTS_A_SWITCH; h++) {
            const uint32_t host = at * HOSTS_A_SWITCH + h;
            links_here[DIRECTIONS + h].to = HOST_BIT | host;
            n.links[host_link(&n, host)].to = at;
        }
    }
    for (uint32_t host = 0; host < n.hosts_count; host++) {
        n.hosts[host].random = random_seeded(host);
        for (uint32_t flow = 0; flow < FLOWS_A_HOST; flow++) {
            schedule(&n, random_below(&n.hosts[host].random, THINKING_NANOSECONDS_MAX),
                     (struct event){.kind = HOST_WAKES, .link = host, .flow = flow});
        }
    }
    return n;
}

static void check(const struct network *n)
{
    uint64_t under_way = 0;
    for (size_t i = 0; i < n->heap_count; i++) {
        if (n->heap[i]->kind == PACKET_ARRIVES) {
            under_way += n->heap[i]->packet->bytes;
        }
        if (n->heap[i]->time < n->now) {
            wrong("an event was left behind at %" PRIu64 " ns", n->heap[i]->time);
        }
    }
    const size_t links = (size_t)n->switches * LINKS_A_SWITCH + n->hosts_count;
    for (size_t i = 0; i < links; i++) {
        const struct link *link = &n->links[i];
        uint32_t queued = 0;
        for (const struct packet *packet = link->first; packet != NULL; packet = packet->next) {
            queued += packet->bytes;
        }
        if (queued != link->queued_bytes || queued > QUEUE_BYTES_MAX) {
            wrong("link %zu holds %" PRIu32 " bytes, but counts %" PRIu32, i, queued,
                  link->queued_bytes);
        }
        under_way += queued;
        const uint64_t last = (uint64_t)PACKET_BYTES_MAX * NANOSECONDS_A_BYTE;
        if (link->busy_nanoseconds > n->now + last ||
            link->busy_nanoseconds != link->bytes * NANOSECONDS_A_BYTE) {
            wrong("link %zu was busy for %" PRIu64 " ns of %" PRIu64, i, link->busy_nanoseconds,
                  n->now);
        }
    }
    const struct totals *t = &n->totals;
    if (t->bytes_sent != t->bytes_delivered + t->bytes_dropped + under_way) {
        wrong("of %" PRIu64 " bytes %" PRIu64 " were delivered, %" PRIu64 " dropped, %" PRIu64
              " are under way",
              t->bytes_sent, t->bytes_delivered, t->bytes_dropped, under_way);
    }
}

int main(int argc, char **argv)
{
    const uint32_t side = (uint32_t)argument(argc, argv, 1, "switches along a side", 2, 1000);
    const uint64_t events = argument(argc, argv, 2, "events", 1, UINT64_C(1000000000000));
    arguments_end(argc, 2);

    struct network network = make_network(side);
    steady("%" PRIu32 " switches, %" PRIu32 " hosts, %" PRIu64 " events", network.switches,
           network.hosts_count, events);
    for (uint64_t i = 0; i < events; i++) {
        struct event *event = next_event(&network);
        if (event->time < network.now) {
            wrong("time runs from %" PRIu64 " to %" PRIu64 " ns", network.now, event->time);
        }
        network.now = event->time;
        handle(&network, event);
        free(event);
    }

    check(&network);
    const struct totals *t = &network.totals;
    uint64_t digest = network.now;
    digest_word(&digest, t->bytes_delivered);
    digest_word(&digest, t->bytes_dropped);
    digest_word(&digest, t->hops);
    for (uint32_t i = 0; i < network.hosts_count; i++) {
        digest_word(&digest, network.hosts[i].random);
    }
    return verified(digest,
                    "%" PRIu64 " ns, %" PRIu64 " messages, %" PRIu64 " packets delivered, %" PRIu64
                    " dropped",
                    network.now, t->messages, t->packets_delivered, t->packets_dropped);
}
