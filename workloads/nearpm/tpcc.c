/*
 * tpcc POOL [OPTION]...: TPC-C's new-order transactions in one warehouse, in the form in which studies of
 * persistent memory reduce them: an order is entered, and its items are taken out of the stock.
 *
 * Our assumptions: rows are lines, found by their numbers; an order is a block with its 5 to 15 lines in
 * it, in a list of its district, the newest first; each thread has districts of its own, and all have one
 * stock, so that a lock over the warehouse keeps transactions apart; no transaction is given up. A stock's
 * quantity goes down by what is ordered, and up by 91 when it would be below 10.
 *
 * Always true: what is in the stock follows from the orders that are there; a district's orders have its
 * numbers without a gap.
 */
#define PROGRAM "tpcc"
#include "run.h"

enum {
    DISTRICTS = 10,
    LINES_MIN = 5,
    LINES_MAX = 15,
    QUANTITY_MAX = 10,
    STOCK_LEAST = 10, /* of an item */
    STOCK_STEP = 91,
    CUSTOMERS_SHARE = 3 /* customers of all districts, of ten items */
};

struct district {
    alignas(LINE_BYTES) uint64_t next_order;
    uint64_t tax, total;
    struct order *newest;
};

struct customer {
    alignas(LINE_BYTES) uint64_t discount;
};

struct item {
    alignas(LINE_BYTES) uint64_t price;
    uint64_t name[4];
};

struct stock {
    alignas(LINE_BYTES) uint64_t quantity;
    uint64_t ordered, orders; /* all quantities together, and in how many lines */
};

struct order_line {
    uint64_t item, quantity, amount, supply_warehouse;
};

struct order {
    alignas(LINE_BYTES) uint64_t used;
    uint64_t operation; /* thread << 32 | index */
    uint64_t number;    /* in its district */
    uint64_t customer;
    uint64_t total;
    uint64_t lines;
    struct order *older;
    struct order_line line[LINES_MAX];
};

/* The first page of each table. */
static uint64_t districts_at, customers_at, items_at, stocks_at;

static void structure_defaults(void)
{
    work.operations = 1000;
    work.elements = 10000;
}

static void structure_plan(void)
{
    if (work.threads > DISTRICTS || work.elements < DISTRICTS) {
        die(STATUS_USAGE, "takes up to %d threads, and needs %d --elements (items)", DISTRICTS, DISTRICTS);
    }
}

static uint64_t structure_operations(uint64_t thread)
{
    return share(work.operations, thread);
}

/* ---- What follows from the command line ------------------------------------------------------- */

enum purpose { OF_OPERATION = 1, OF_LINE, OF_CUSTOMER, OF_ITEM, OF_STOCK, OF_DISTRICT };

static uint64_t customers_all(void)
{
    return work.elements * CUSTOMERS_SHARE / DISTRICTS * DISTRICTS;
}

static uint64_t price_of(uint64_t item)
{
    return 100 + random_at(work.seed, OF_ITEM, item) % 9901;
}

static uint64_t first_quantity(uint64_t item)
{
    return STOCK_LEAST + random_at(work.seed, OF_STOCK, item) % STOCK_STEP;
}

static uint64_t district_of(uint64_t operation)
{
    const uint64_t thread = operation >> 32, own = share(DISTRICTS, thread);
    return thread + work.threads * (random_at(work.seed, OF_DISTRICT, operation) % own);
}

static uint64_t customer_of(uint64_t operation)
{
    const uint64_t of_district = customers_all() / DISTRICTS;
    return district_of(operation) * of_district + random_at(work.seed, OF_OPERATION, operation) % of_district;
}

static uint64_t lines_of(uint64_t operation)
{
    const uint64_t random = random_at(work.seed, OF_OPERATION, operation) >> 32;
    return LINES_MIN + random % (LINES_MAX - LINES_MIN + 1);
}

static struct order_line line_of(uint64_t operation, uint64_t line)
{
    const uint64_t random = random_at(work.seed, OF_LINE, operation * LINES_MAX + line);
    const uint64_t item = (random >> 8) % work.elements, quantity = 1 + random % QUANTITY_MAX;
    return (struct order_line){.item = item, .quantity = quantity, .amount = quantity * price_of(item)};
}

/* ---- The tables ------------------------------------------------------------------------------- */

static uint64_t pages_of_rows(uint64_t rows)
{
    return (rows * LINE_BYTES + PAGE_BYTES - 1) / PAGE_BYTES;
}

static uint64_t structure_pages(void)
{
    districts_at = work.threads;
    customers_at = districts_at + pages_of_rows(DISTRICTS);
    items_at = customers_at + pages_of_rows(customers_all());
    stocks_at = items_at + pages_of_rows(work.elements);
    return np_declare_blocks(&np, (unsigned)work.threads, sizeof(struct order), structure_operations(0),
                             stocks_at + pages_of_rows(work.elements));
}

static void *row_of(uint64_t first_page, uint64_t row)
{
    return np_home(&np, first_page) + row * LINE_BYTES;
}

static struct district *district_at(uint64_t number)
{
    return row_of(districts_at, number);
}

static struct customer *customer_at(uint64_t number)
{
    return row_of(customers_at, number);
}

static struct item *item_at(uint64_t number)
{
    return row_of(items_at, number);
}

static struct stock *stock_at(uint64_t number)
{
    return row_of(stocks_at, number);
}

static void structure_make(void)
{
    for (uint64_t i = 0; i < DISTRICTS; i++) {
        district_at(i)->tax = random_at(work.seed, OF_DISTRICT, i) % 2001;
    }
    for (uint64_t i = 0; i < customers_all(); i++) {
        customer_at(i)->discount = random_at(work.seed, OF_CUSTOMER, i) % 5001;
    }
    for (uint64_t i = 0; i < work.elements; i++) {
        item_at(i)->price = price_of(i);
        stock_at(i)->quantity = first_quantity(i);
    }
}

/* ---- New orders ------------------------------------------------------------------------------- */

OPERATION void take_from_stock(struct np_transaction transaction, const struct order_line *line)
{
    struct stock *stock = NP_WRITE(transaction, stock_at(line->item));
    const bool enough = stock->quantity >= line->quantity + STOCK_LEAST;
    stock->quantity += (enough ? 0 : STOCK_STEP) - line->quantity;
    stock->ordered += line->quantity;
    stock->orders++;
}

/* What the customer pays, in ten-thousandths of ten-thousandths. */
static uint64_t total_of(uint64_t amount, uint64_t tax, uint64_t discount)
{
    return amount * (10000 - discount) * (10000 + tax);
}

OPERATION void structure_operation(struct np_transaction transaction, uint64_t index)
{
    const uint64_t operation = transaction.thread->number * (UINT64_C(1) << 32) + index;
    const uint64_t customer = customer_of(operation), lines = lines_of(operation);
    struct district *district_home = district_at(district_of(operation));
    uint64_t amount = 0;
    lock();
    struct order *home = np_allocate(transaction, 0);
    struct order *order = NP_WRITE(transaction, home);
    struct district *district = NP_WRITE(transaction, district_home);
    for (uint64_t i = 0; i < lines; i++) {
        order->line[i] = line_of(operation, i);
        const uint64_t price = NP_READ(transaction, item_at(order->line[i].item))->price;
        order->line[i].amount = order->line[i].quantity * price;
        take_from_stock(transaction, &order->line[i]);
        amount += order->line[i].amount;
    }
    order->operation = operation;
    order->customer = customer;
    order->lines = lines;
    order->total = total_of(amount, district->tax, NP_READ(transaction, customer_at(customer))->discount);
    order->number = district->next_order++;
    order->older = district->newest;
    district->newest = home;
    district->total += order->total;
    np_commit(transaction);
    unlock(transaction);
}

/* ---- Checking --------------------------------------------------------------------------------- */

/* Of each item: what the orders that are there have taken. */
static struct stock *taken;

static uint64_t check_lines(const struct order *order)
{
    uint64_t amount = 0;
    for (uint64_t i = 0; i < order->lines; i++) {
        const struct order_line expected = line_of(order->operation, i);
        if (memcmp(&order->line[i], &expected, sizeof expected) != 0) {
            die(STATUS_WRONG, "line %" PRIu64 " of an order is damaged", i);
        }
        taken[expected.item].ordered += expected.quantity;
        taken[expected.item].orders++;
        amount += expected.amount;
    }
    return amount;
}

static void check_district(uint64_t number)
{
    const struct district *district = LOOK(district_at(number));
    uint64_t expected = district->next_order, total = 0;
    for (const struct order *home = district->newest; home != NULL;) {
        const struct order *order = LOOK((const struct order *)claim_block(0, home));
        const uint64_t operation = order->operation;
        if (order->number != --expected || operation >> 32 >= work.threads ||
            district_of(operation) != number || order->customer != customer_of(operation) ||
            order->lines != lines_of(operation)) {
            die(STATUS_WRONG, "order %" PRIu64 " of district %" PRIu64 " is damaged", order->number, number);
        }
        const uint64_t amount = check_lines(order), discount = LOOK(customer_at(order->customer))->discount;
        if (order->total != total_of(amount, district->tax, discount)) {
            die(STATUS_WRONG, "order %" PRIu64 " of district %" PRIu64 " has a wrong total", expected, number);
        }
        total += order->total;
        found_done(operation >> 32, (uint32_t)operation);
        found(operation);
        home = order->older;
    }
    if (expected != 0 || total != district->total) {
        die(STATUS_WRONG, "district %" PRIu64 " lacks orders", number);
    }
}

static void check_stock(uint64_t item)
{
    const struct stock *stock = LOOK(stock_at(item));
    /* Each step up by 91 came when it had to, whatever the order of orders. */
    const uint64_t before = first_quantity(item) - STOCK_LEAST + taken[item].ordered * (STOCK_STEP - 1);
    if (stock->ordered != taken[item].ordered || stock->orders != taken[item].orders ||
        stock->quantity != STOCK_LEAST + before % STOCK_STEP) {
        die(STATUS_WRONG, "the stock of item %" PRIu64 " does not follow from the orders", item);
    }
    found(item << 32 | stock->quantity);
}

static void structure_check(void)
{
    free(taken);
    taken = ordinary(work.elements, sizeof *taken);
    for (uint64_t i = 0; i < DISTRICTS; i++) {
        check_district(i);
    }
    for (uint64_t i = 0; i < work.elements; i++) {
        if (LOOK(item_at(i))->price != price_of(i)) {
            die(STATUS_WRONG, "item %" PRIu64 " is damaged", i);
        }
        check_stock(i);
    }
}
