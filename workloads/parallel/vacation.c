/*
 * Travel agency: clients reserve cars, flights and rooms in tables in memory. Stands for STAMP's
 * `vacation` (Minh, Chung, Kozyrakis and Olukotun, IISWC 2008), itself after SPECjbb2000.
 *
 * Four tables, each a red-black tree with one record per id: three of what can be reserved (how
 * many there are, how many are taken, the price) and one of customers, each with a list of what it
 * has reserved at which price. A client's transaction does one of three things, with ids drawn
 * from a part of each table:
 *
 * - Reserve: asks the price of up to n random ids in random tables, and reserves the dearest of
 *   each kind for a customer, who is entered if new.
 * - Leave: takes out a customer and gives all of its reservations back.
 * - Update: for up to n random ids, either adds a hundred pieces at a new price (entering the id
 *   if new), or takes a hundred away if so many are free (a flight: all, if none is taken),
 *   taking out the record that comes to nothing.
 *
 * Locks in place of STAMP's transactions: one per id of each table, and one lock for readers and
 * writers around the shape of each tree. A transaction takes the locks of its ids in ascending
 * order, a customer's first (what a leaving customer holds is known only then), and keeps them to
 * its end, so that transactions are atomic and cannot wait in a circle. The lock of a shape is
 * taken while locks of ids are held, never the other way round: shared by who looks something up,
 * alone by who adds or takes out a record.
 *
 * Memory behaviour: dependent loads down trees of small nodes, stores to a few records and to
 * lists, much allocation and freeing, and locks that many cores touch.
 *
 * Checked: shape of each tree; for each record, free + taken = all there are, and taken = the
 * entries in the customers' lists; that pieces and money at the end are those at the start
 * plus and minus what each client booked. Which reservation succeeds depends on how clients
 * interleave, so the last line tells only what was asked.
 *
 * Options as STAMP's: -n ids per transaction at most, -q per cent of each table that is asked
 * for, -u per cent of transactions that reserve, -r ids per table, -t transactions, -c clients,
 * each of which is a thread.
 */
#define PROGRAM "vacation"
#include "parallel.h"
#include "red_black_tree.h"

/* The order of the tables is the order of their locks. */
enum table_name { CUSTOMERS, CARS, FLIGHTS, ROOMS, TABLES };

static const char *const TABLE_NAMES[TABLES] = {"customers", "cars", "flights", "rooms"};

enum { PIECES_PER_UPDATE = 100, PRICE_STEPS = 5, PRICE_STEP = 10, PRICE_LEAST = 50 };

/* What there is of a car, flight or room. Always taken + free_pieces = total, and total > 0. */
struct offer {
    int64_t taken, free_pieces, total;
    int64_t price;
};

/* What a customer has reserved: a list in ascending order of table and id. */
struct reservation {
    struct reservation *next;
    enum table_name table;
    uint64_t id;
    int64_t price;
};

struct customer {
    struct reservation *reservations;
};

/* A lock that many readers or one writer hold. A writer that waits keeps new readers out. */
struct shape_lock {
    uint32_t state; /* the number of readers, and the bit WRITER */
};

enum { WRITER = 1 << 30 };

struct table {
    _Alignas(CACHE_LINE_BYTES) struct tree records; /* of struct customer or struct offer */
    _Alignas(CACHE_LINE_BYTES) struct shape_lock shape;
    struct spin_lock *id_locks; /* by id; entry 0 is not used */
};

/* What a client has done: the tables must agree with the sum of these. */
struct ledger {
    _Alignas(CACHE_LINE_BYTES)
    int64_t pieces[TABLES]; /* brought in minus taken away; of CUSTOMERS, persons */
    int64_t taken[TABLES];  /* reserved minus given back */
    int64_t money;          /* paid minus paid back */
    uint64_t asked[3];      /* transactions of each kind */
    uint64_t digest;        /* of all that was asked */
};

struct agency {
    struct table tables[TABLES];
    uint64_t ids_per_transaction, query_percent, reserve_percent, ids, transactions, clients;
    uint64_t ids_asked; /* ids 1..ids_asked are asked for */
    struct ledger *ledgers;
};

enum action { RESERVE, LEAVE, UPDATE };

/* The name of one id's lock; ascending in the order in which locks are taken. */
struct lock_name {
    enum table_name table;
    uint64_t id;
};

/* A client, with room for what one transaction needs. */
struct client {
    struct agency *agency;
    struct ledger *ledger;
    uint64_t random;
    struct lock_name *held;
    size_t held_count, held_room;
    struct lock_name *asked; /* ids_per_transaction entries */
    bool *adds;              /* as many */
    int64_t *prices;         /* as many */
};

static void *new_block(size_t bytes)
{
    void *block = malloc(bytes);
    if (block == NULL) {
        die(STATUS_USAGE, "no memory for a record");
    }
    return block;
}

/* ---- Locks -------------------------------------------------------------------------------- */

static void shape_take_shared(struct shape_lock *lock)
{
    unsigned spins = 0;
    for (;;) {
        uint32_t state = __atomic_load_n(&lock->state, __ATOMIC_RELAXED);
        if ((state & WRITER) == 0 &&
            __atomic_compare_exchange_n(&lock->state, &state, state + 1, true, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED)) {
            return;
        }
        spin_wait(&spins);
    }
}

static void shape_release_shared(struct shape_lock *lock)
{
    __atomic_fetch_sub(&lock->state, 1, __ATOMIC_RELEASE);
}

static void shape_take_alone(struct shape_lock *lock)
{
    unsigned spins = 0;
    while ((__atomic_fetch_or(&lock->state, WRITER, __ATOMIC_ACQUIRE) & WRITER) != 0) {
        while ((__atomic_load_n(&lock->state, __ATOMIC_RELAXED) & WRITER) != 0) {
            spin_wait(&spins);
        }
    }
    while (__atomic_load_n(&lock->state, __ATOMIC_ACQUIRE) != WRITER) {
        spin_wait(&spins);
    }
}

static void shape_release_alone(struct shape_lock *lock)
{
    __atomic_store_n(&lock->state, 0, __ATOMIC_RELEASE);
}

/* Adds a lock to those that the transaction is to take. */
static void lock_need(struct client *client, struct lock_name name)
{
    if (client->held_count == client->held_room) {
        client->held_room *= 2;
        client->held = realloc(client->held, client->held_room * sizeof *client->held);
        if (client->held == NULL) {
            die(STATUS_USAGE, "no memory for the locks of a transaction");
        }
    }
    client->held[client->held_count++] = name;
}

static int compare_locks(const void *left, const void *right)
{
    const struct lock_name *a = left;
    const struct lock_name *b = right;
    if (a->table != b->table) {
        return a->table < b->table ? -1 : 1;
    }
    return a->id < b->id ? -1 : a->id > b->id;
}

/* Takes the locks needed from number `first` on, in their order and each once. They all come
   after those that are held already. */
static void locks_take(struct client *client, size_t first)
{
    qsort(client->held + first, client->held_count - first, sizeof *client->held, compare_locks);
    size_t kept = first;
    for (size_t i = first; i < client->held_count; i++) {
        if (i == first || compare_locks(&client->held[i], &client->held[i - 1]) != 0) {
            const struct lock_name name = client->held[i];
            spin_lock_take(&client->agency->tables[name.table].id_locks[name.id]);
            client->held[kept++] = name;
        }
    }
    client->held_count = kept;
}

static void locks_release(struct client *client)
{
    while (client->held_count > 0) {
        const struct lock_name name = client->held[--client->held_count];
        spin_lock_release(&client->agency->tables[name.table].id_locks[name.id]);
    }
}

/* ---- Tables: the caller holds the lock of the id ------------------------------------------- */

static void *record_find(struct table *table, uint64_t id)
{
    shape_take_shared(&table->shape);
    void *record = tree_find(&table->records, id);
    shape_release_shared(&table->shape);
    return record;
}

static void record_add(struct table *table, uint64_t id, void *record)
{
    shape_take_alone(&table->shape);
    tree_insert(&table->records, id, record);
    shape_release_alone(&table->shape);
}

static void record_take_out(struct table *table, uint64_t id)
{
    shape_take_alone(&table->shape);
    tree_erase(&table->records, id);
    shape_release_alone(&table->shape);
}

/* Adds pieces at a new price to what there is of an id, which is entered if new. */
static void offer_add(struct table *table, uint64_t id, int64_t pieces, int64_t price)
{
    struct offer *offer = record_find(table, id);
    if (offer != NULL) {
        offer->free_pieces += pieces;
        offer->total += pieces;
        offer->price = price;
        return;
    }
    offer = new_block(sizeof *offer);
    *offer = (struct offer){0, pieces, pieces, price};
    record_add(table, id, offer);
}

/* Takes pieces away if so many are free; of a flight all, if none is taken. Returns how many. */
static int64_t offer_remove(struct agency *agency, enum table_name name, uint64_t id)
{
    struct table *table = &agency->tables[name];
    struct offer *offer = record_find(table, id);
    if (offer == NULL || (name == FLIGHTS && offer->taken > 0)) {
        return 0;
    }
    const int64_t pieces = name == FLIGHTS ? offer->total : PIECES_PER_UPDATE;
    if (offer->free_pieces < pieces) {
        return 0;
    }
    offer->free_pieces -= pieces;
    offer->total -= pieces;
    if (offer->total == 0) {
        record_take_out(table, id);
        free(offer);
    }
    return pieces;
}

/* Reserves a piece for a customer, if there is one left. */
static void reserve(struct client *client, struct customer *customer, enum table_name name,
                    uint64_t id)
{
    struct offer *offer = record_find(&client->agency->tables[name], id);
    if (offer == NULL || offer->free_pieces == 0) {
        return;
    }
    offer->free_pieces--;
    offer->taken++;
    struct reservation **link = &customer->reservations;
    while (*link != NULL &&
           ((*link)->table < name || ((*link)->table == name && (*link)->id < id))) {
        link = &(*link)->next;
    }
    struct reservation *reservation = new_block(sizeof *reservation);
    *reservation = (struct reservation){*link, name, id, offer->price};
    *link = reservation;
    client->ledger->taken[name]++;
    client->ledger->money += offer->price;
}

/* ---- Transactions ------------------------------------------------------------------------- */

static uint64_t random_id(struct client *client)
{
    return random_below(&client->random, client->agency->ids_asked) + 1;
}

static int64_t random_price(uint64_t *random)
{
    return (int64_t)random_below(random, PRICE_STEPS) * PRICE_STEP + PRICE_LEAST;
}

/* Draws ids of cars, flights and rooms, and notes their locks as needed; returns how many. */
static size_t draw_ids(struct client *client)
{
    const size_t count =
        (size_t)random_below(&client->random, client->agency->ids_per_transaction) + 1;
    for (size_t i = 0; i < count; i++) {
        const struct lock_name name = {
            (enum table_name)(CARS + random_below(&client->random, TABLES - CARS)),
            random_id(client)};
        client->asked[i] = name;
        digest_word(&client->ledger->digest, (uint64_t)name.table << 32 | name.id);
        lock_need(client, name);
    }
    return count;
}

static void transaction_reserve(struct client *client)
{
    struct agency *agency = client->agency;
    struct table *customers = &agency->tables[CUSTOMERS];
    const uint64_t customer_id = random_id(client);
    lock_need(client, (struct lock_name){CUSTOMERS, customer_id});
    const size_t count = draw_ids(client);
    digest_word(&client->ledger->digest, customer_id);

    locks_take(client, 0);
    int64_t dearest[TABLES] = {-1, -1, -1, -1};
    uint64_t chosen[TABLES] = {0};
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        const enum table_name name = client->asked[i].table;
        const struct offer *offer = record_find(&agency->tables[name], client->asked[i].id);
        if (offer != NULL && offer->price > dearest[name]) {
            dearest[name] = offer->price;
            chosen[name] = client->asked[i].id;
            any = true;
        }
    }
    if (any) {
        struct customer *customer = record_find(customers, customer_id);
        if (customer == NULL) {
            customer = new_block(sizeof *customer);
            customer->reservations = NULL;
            record_add(customers, customer_id, customer);
            client->ledger->pieces[CUSTOMERS]++;
        }
        for (int name = CARS; name < TABLES; name++) {
            if (chosen[name] != 0) {
                reserve(client, customer, (enum table_name)name, chosen[name]);
            }
        }
    }
    locks_release(client);
}

static void transaction_leave(struct client *client)
{
    struct agency *agency = client->agency;
    struct table *customers = &agency->tables[CUSTOMERS];
    const uint64_t customer_id = random_id(client);
    digest_word(&client->ledger->digest, customer_id);

    lock_need(client, (struct lock_name){CUSTOMERS, customer_id});
    locks_take(client, 0);
    struct customer *customer = record_find(customers, customer_id);
    if (customer != NULL) {
        for (const struct reservation *at = customer->reservations; at != NULL; at = at->next) {
            lock_need(client, (struct lock_name){at->table, at->id});
        }
        locks_take(client, 1);
        while (customer->reservations != NULL) {
            struct reservation *reservation = customer->reservations;
            struct offer *offer =
                record_find(&agency->tables[reservation->table], reservation->id);
            if (offer == NULL) {
                die(STATUS_WRONG, "%s %" PRIu64 " is reserved, but does not exist",
                    TABLE_NAMES[reservation->table], reservation->id);
            }
            offer->taken--;
            offer->free_pieces++;
            client->ledger->taken[reservation->table]--;
            client->ledger->money -= reservation->price;
            customer->reservations = reservation->next;
            free(reservation);
        }
        record_take_out(customers, customer_id);
        client->ledger->pieces[CUSTOMERS]--;
        free(customer);
    }
    locks_release(client);
}

static void transaction_update(struct client *client)
{
    struct agency *agency = client->agency;
    const size_t count = draw_ids(client);
    for (size_t i = 0; i < count; i++) {
        client->adds[i] = random_below(&client->random, 2) == 1;
        client->prices[i] = random_price(&client->random);
        digest_word(&client->ledger->digest,
                    client->adds[i] ? (uint64_t)client->prices[i] : 0);
    }

    locks_take(client, 0);
    for (size_t i = 0; i < count; i++) {
        const struct lock_name name = client->asked[i];
        if (client->adds[i]) {
            offer_add(&agency->tables[name.table], name.id, PIECES_PER_UPDATE, client->prices[i]);
            client->ledger->pieces[name.table] += PIECES_PER_UPDATE;
        } else {
            client->ledger->pieces[name.table] -= offer_remove(agency, name.table, name.id);
        }
    }
    locks_release(client);
}

static void run_client(unsigned thread, void *context)
{
    struct agency *agency = context;
    struct client client = {
        .agency = agency,
        .ledger = &agency->ledgers[thread],
        .random = random_seeded(thread + 1),
        .held_room = agency->ids_per_transaction + 1,
    };
    client.held = new_block(client.held_room * sizeof *client.held);
    client.asked = new_block(agency->ids_per_transaction * sizeof *client.asked);
    client.adds = new_block(agency->ids_per_transaction * sizeof *client.adds);
    client.prices = new_block(agency->ids_per_transaction * sizeof *client.prices);
    client.ledger->digest = DIGEST_START;

    const struct share share =
        thread_share(agency->transactions, (unsigned)agency->clients, thread);
    for (uint64_t i = share.first; i < share.end; i++) {
        enum action action = RESERVE;
        if (random_below(&client.random, 100) >= agency->reserve_percent) {
            action = random_below(&client.random, 2) == 1 ? LEAVE : UPDATE;
        }
        client.ledger->asked[action]++;
        switch (action) {
        case RESERVE: transaction_reserve(&client); break;
        case LEAVE: transaction_leave(&client); break;
        case UPDATE: transaction_update(&client); break;
        }
    }
    free(client.held);
    free(client.asked);
    free(client.adds);
    free(client.prices);
}

/* ---- Set-up and check --------------------------------------------------------------------- */

/* Fills the tables, each in a random order of its ids. Books what comes in. */
static void fill_tables(struct agency *agency, struct ledger *ledger)
{
    uint64_t random = random_seeded(0);
    uint64_t *order = allocate(agency->ids, sizeof *order);
    for (uint64_t i = 0; i < agency->ids; i++) {
        order[i] = i + 1;
    }
    for (int name = CUSTOMERS; name < TABLES; name++) {
        struct table *table = &agency->tables[name];
        tree_init(&table->records);
        table->shape.state = 0;
        table->id_locks = allocate_zeroed(agency->ids + 1, sizeof *table->id_locks);
        for (uint64_t i = agency->ids; i > 1; i--) {
            const uint64_t other = random_below(&random, i);
            const uint64_t id = order[other];
            order[other] = order[i - 1];
            order[i - 1] = id;
        }
        for (uint64_t i = 0; i < agency->ids; i++) {
            if (name == CUSTOMERS) {
                struct customer *customer = new_block(sizeof *customer);
                customer->reservations = NULL;
                tree_insert(&table->records, order[i], customer);
                ledger->pieces[CUSTOMERS]++;
                continue;
            }
            const int64_t pieces =
                ((int64_t)random_below(&random, PRICE_STEPS) + 1) * PIECES_PER_UPDATE;
            offer_add(table, order[i], pieces, random_price(&random));
            ledger->pieces[name] += pieces;
        }
    }
    free(order);
}

/* What the check of one table sees and adds up. */
struct audit {
    struct agency *agency;
    enum table_name table;
    int64_t *reserved[TABLES]; /* by id: entries in customers' lists */
    struct ledger found;
};

static void audit_customer(uint64_t id, void *value, void *context)
{
    struct audit *audit = context;
    const struct customer *customer = value;
    const struct reservation *before = NULL;
    audit->found.pieces[CUSTOMERS]++;
    for (const struct reservation *at = customer->reservations; at != NULL; at = at->next) {
        if (at->table < CARS || at->table > ROOMS || at->id < 1 || at->id > audit->agency->ids ||
            (before != NULL &&
             (at->table < before->table || (at->table == before->table && at->id < before->id)))) {
            die(STATUS_WRONG, "the list of customer %" PRIu64 " is out of order", id);
        }
        audit->reserved[at->table][at->id]++;
        audit->found.taken[at->table]++;
        audit->found.money += at->price;
        before = at;
    }
}

static void audit_offer(uint64_t id, void *value, void *context)
{
    struct audit *audit = context;
    const struct offer *offer = value;
    const char *name = TABLE_NAMES[audit->table];
    if (offer->free_pieces < 0 || offer->total <= 0 ||
        offer->taken + offer->free_pieces != offer->total) {
        die(STATUS_WRONG,
            "%s %" PRIu64 ": %" PRId64 " taken and %" PRId64 " free are not %" PRId64, name, id,
            offer->taken, offer->free_pieces, offer->total);
    }
    if (offer->taken != audit->reserved[audit->table][id]) {
        die(STATUS_WRONG,
            "%s %" PRIu64 ": %" PRId64 " taken, but customers hold %" PRId64, name, id,
            offer->taken, audit->reserved[audit->table][id]);
    }
    audit->reserved[audit->table][id] = 0;
    audit->found.pieces[audit->table] += offer->total;
}

/* Compares all tables with one another and with what was booked. */
static void check_tables(struct agency *agency, const struct ledger *booked)
{
    struct audit audit = {.agency = agency};
    for (int name = CARS; name < TABLES; name++) {
        audit.reserved[name] = allocate_zeroed(agency->ids + 1, sizeof *audit.reserved[name]);
    }
    for (int name = CUSTOMERS; name < TABLES; name++) {
        audit.table = (enum table_name)name;
        tree_check(&agency->tables[name].records,
                   name == CUSTOMERS ? audit_customer : audit_offer, &audit);
    }
    for (int name = CUSTOMERS; name < TABLES; name++) {
        if (audit.found.pieces[name] != booked->pieces[name] ||
            audit.found.taken[name] != booked->taken[name]) {
            die(STATUS_WRONG,
                "%s: there are %" PRId64 ", %" PRId64 " of them reserved, but booked were %" PRId64
                " and %" PRId64,
                TABLE_NAMES[name], audit.found.pieces[name], audit.found.taken[name],
                booked->pieces[name], booked->taken[name]);
        }
    }
    if (audit.found.money != booked->money) {
        die(STATUS_WRONG, "customers owe %" PRId64 ", but booked were %" PRId64,
            audit.found.money, booked->money);
    }
    for (int name = CARS; name < TABLES; name++) {
        for (uint64_t id = 1; id <= agency->ids; id++) {
            if (audit.reserved[name][id] != 0) {
                die(STATUS_WRONG, "%s %" PRIu64 " is reserved, but does not exist",
                    TABLE_NAMES[name], id);
            }
        }
        free(audit.reserved[name]);
    }
}

int main(int argc, char **argv)
{
    static struct agency agency = {
        .ids_per_transaction = 40,
        .query_percent = 60,
        .reserve_percent = 90,
        .ids = 16384,
        .transactions = 65536,
        .clients = THREADS_DEFAULT,
    };
    const struct parameter parameters[] = {
        option_whole('n', "ids per transaction at most", 1, 1 << 16, &agency.ids_per_transaction),
        option_whole('q', "per cent of the ids that are asked for", 0, 100, &agency.query_percent),
        option_whole('u', "per cent of transactions that reserve", 0, 100,
                     &agency.reserve_percent),
        option_whole('r', "ids per table", 1, 1 << 22, &agency.ids),
        option_whole('t', "transactions", 0, 1 << 30, &agency.transactions),
        option_threads('c', &agency.clients),
    };
    parse_options(argc, argv, parameters, sizeof parameters / sizeof *parameters);
    agency.ids_asked = (agency.ids * agency.query_percent + 50) / 100;
    if (agency.ids_asked == 0) {
        agency.ids_asked = 1;
    }

    struct ledger total = {.digest = DIGEST_START};
    agency.ledgers = allocate_zeroed(agency.clients, sizeof *agency.ledgers);
    fill_tables(&agency, &total);
    ready("%" PRIu64 " customers, and as many cars, flights and rooms; %" PRIu64
          " transactions of %" PRIu64 " clients",
          agency.ids, agency.transactions, agency.clients);
    run_threads((unsigned)agency.clients, run_client, &agency);

    for (uint64_t i = 0; i < agency.clients; i++) {
        const struct ledger *ledger = &agency.ledgers[i];
        for (int name = CUSTOMERS; name < TABLES; name++) {
            total.pieces[name] += ledger->pieces[name];
            total.taken[name] += ledger->taken[name];
        }
        for (int action = RESERVE; action <= UPDATE; action++) {
            total.asked[action] += ledger->asked[action];
        }
        total.money += ledger->money;
        digest_word(&total.digest, ledger->digest);
    }
    check_tables(&agency, &total);
    return verified(total.digest,
                    "asked to reserve %" PRIu64 " times, to leave %" PRIu64
                    ", to update %" PRIu64 "; pieces and money conserved",
                    total.asked[RESERVE], total.asked[LEAVE], total.asked[UPDATE]);
}
