/*
 * Structure learning: finds a Bayesian network that explains records of yes-or-no variables.
 * Stands for STAMP's `bayes` (Minh, Chung, Kozyrakis and Olukotun, IISWC 2008): hill climbing over
 * networks (Chickering, Heckerman and Meek, UAI 1997) with counts from an AD-tree (Moore and Lee,
 * "Cached sufficient statistics", 1998).
 *
 * A random network makes the records; it is then forgotten. One thread builds the AD-tree, which
 * answers how many records have given values in given variables. Threads then share the
 * variables, score each alone and with its best single parent, and put what pays on a list. From
 * there they take the change with the best resulting score, make it if it still pays, look for
 * the best next change at the same variable (a parent more, a parent less, or an edge turned
 * round), and put that on the list if it pays.
 *
 * The score of a variable is the logarithm of the likelihood of its values given its parents',
 * minus log(records) / 2 times the insertion penalty for its first parent, twice that for its
 * second, and so on; a network's is the sum. It is kept in integers, so that sums do not depend on
 * their order, and rises with each change, so that the climb ends. Two choices of ours: STAMP
 * weighs removals and turns differently from insertions, and makes a change without asking again.
 *
 * Locks in place of STAMP's transactions: one per variable, held while changes to its parents are
 * scored and made (both ends of an edge to be turned, in ascending order), one for the network as
 * a whole, held for the test for cycles and the change itself, and one for the list. A variable's
 * parents are written under its lock and the network's, and read under either.
 *
 * Memory behaviour: the AD-tree, hundreds of thousands of small blocks, is written once and
 * then read by all, along pointers; what is shared and written is small and contended.
 *
 * Checked: the network has no cycle and no variable too many parents; the score is what counting
 * the records themselves gives, to the last bit; it is better than that of a network without
 * edges. Which network is found depends on how threads interleave, so the last line tells only of
 * the records.
 *
 * Options as STAMP's: -v variables, -r records, -n parents at most and -p per cent chance of each
 * when the records are made, -s seed, -i insertion penalty, -e parents at most that are
 * learned, -t threads.
 */
#define PROGRAM "bayes"
#include "parallel.h"

#include <math.h>

enum { VARIABLES_MAX = 64, LEARNED_MAX = 8, MADE_PARENTS_MAX = 16 };

/* A set of variables. */
typedef uint64_t variable_set;

/* A score in units of 2^-20: fine against the least that pays, and exact in sums. */
typedef int64_t score;
static const double SCORE_UNIT = 1.0 / (1 << 20);

struct ad_node;

/* How the records of a node differ in one variable: only those with its less common value have a
   node below; NULL stands for none. The others' counts follow by subtraction. */
struct ad_vary {
    struct ad_node *rare;
    uint8_t common;
};

/* Records that agree in certain variables, all before `first`. */
struct ad_node {
    uint32_t count;
    uint32_t first;
    struct ad_vary vary[]; /* of variables first, first + 1, and so on */
};

enum operation { INSERT, REMOVE, TURN };

/* A change of the edge from one variable to another. */
struct task {
    enum operation operation;
    unsigned from, to;
    score result; /* of the whole network, as it was thought to become */
    struct task *next;
};

struct variable {
    _Alignas(CACHE_LINE_BYTES) struct spin_lock lock;
    variable_set parents;
    struct task task; /* on the list, or in the hands of one thread; each has one at most */
};

struct learner {
    uint64_t variables, records, made_parents, made_percent, seed, penalty, learned_parents,
        threads;
    uint8_t *data; /* by record and variable */
    struct ad_node *tree;
    double log_likelihood_penalty; /* for each unit of `penalty` */
    struct variable *network;
    pthread_barrier_t scored;

    _Alignas(CACHE_LINE_BYTES) struct spin_lock network_lock;
    score total; /* of the network */

    _Alignas(CACHE_LINE_BYTES) struct spin_lock list_lock;
    struct task *tasks; /* the best first */
    uint64_t at_work;
};

/* ---- AD-tree ------------------------------------------------------------------------------ */

/* Makes the node of some records, given by their numbers, which it reorders. */
static struct ad_node *ad_make(const struct learner *learner, uint32_t *records, uint32_t count,
                               uint32_t first)
{
    const uint32_t variables = (uint32_t)learner->variables;
    struct ad_node *node =
        malloc(sizeof *node + (variables - first) * sizeof(struct ad_vary));
    if (node == NULL) {
        die(STATUS_USAGE, "no memory for the AD-tree");
    }
    node->count = count;
    node->first = first;
    for (uint32_t variable = first; variable < variables; variable++) {
        /* Records with value 0 to the front. */
        uint32_t zeros = 0;
        for (uint32_t i = 0; i < count; i++) {
            const uint32_t record = records[i];
            if (learner->data[record * variables + variable] == 0) {
                records[i] = records[zeros];
                records[zeros++] = record;
            }
        }
        const uint8_t common = zeros >= count - zeros ? 0 : 1;
        uint32_t *rare = common == 0 ? records + zeros : records;
        const uint32_t rare_count = common == 0 ? count - zeros : zeros;
        node->vary[variable - first].common = common;
        node->vary[variable - first].rare =
            rare_count == 0 ? NULL : ad_make(learner, rare, rare_count, variable + 1);
    }
    return node;
}

static void ad_free(const struct learner *learner, struct ad_node *node)
{
    for (uint32_t i = 0; i < learner->variables - node->first; i++) {
        if (node->vary[i].rare != NULL) {
            ad_free(learner, node->vary[i].rare);
        }
    }
    free(node);
}

/* What is asked of the records: a value for each of some variables, in ascending order. */
struct query {
    unsigned count;
    uint8_t variable[LEARNED_MAX + 1];
    uint8_t value[LEARNED_MAX + 1];
};

/* How many records of the node have the values from number `at` of the query on. */
static int64_t ad_count(const struct ad_node *node, const struct query *query, unsigned at)
{
    if (node == NULL) {
        return 0;
    }
    if (at == query->count) {
        return node->count;
    }
    const struct ad_vary *vary = &node->vary[query->variable[at] - node->first];
    const int64_t rare = ad_count(vary->rare, query, at + 1);
    return query->value[at] == vary->common ? ad_count(node, query, at + 1) - rare : rare;
}

/* The same by looking at every record: for the check. */
static int64_t count_records(const struct learner *learner, const struct query *query)
{
    int64_t count = 0;
    for (uint64_t record = 0; record < learner->records; record++) {
        const uint8_t *values = &learner->data[record * learner->variables];
        bool fits = true;
        for (unsigned i = 0; fits && i < query->count; i++) {
            fits = values[query->variable[i]] == query->value[i];
        }
        count += fits ? 1 : 0;
    }
    return count;
}

/* ---- Scores and networks ------------------------------------------------------------------ */

static variable_set set_of(unsigned variable)
{
    return UINT64_C(1) << variable;
}

static bool set_has(variable_set set, unsigned variable)
{
    return (set >> variable & 1) != 0;
}

static unsigned set_size(variable_set set)
{
    unsigned size = 0;
    for (; set != 0; set &= set - 1) {
        size++;
    }
    return size;
}

enum source { FROM_TREE, FROM_RECORDS };

/* The score of a variable with given parents. */
static score score_of(const struct learner *learner, unsigned variable, variable_set parents,
                      enum source source)
{
    struct query all = {0};   /* the parents and the variable */
    struct query given = {0}; /* the parents */
    unsigned place = 0;       /* of the variable in `all` */
    for (unsigned i = 0; i < learner->variables; i++) {
        if (i == variable) {
            place = all.count;
            all.variable[all.count++] = (uint8_t)i;
        } else if (set_has(parents, i)) {
            all.variable[all.count++] = (uint8_t)i;
            given.variable[given.count++] = (uint8_t)i;
        }
    }
    double log_likelihood = 0;
    for (unsigned values = 0; values < 1U << given.count; values++) {
        for (unsigned i = 0; i < given.count; i++) {
            given.value[i] = (uint8_t)(values >> i & 1);
            all.value[i < place ? i : i + 1] = given.value[i];
        }
        const int64_t with_parents = source == FROM_TREE ? ad_count(learner->tree, &given, 0)
                                                         : count_records(learner, &given);
        for (uint8_t value = 0; value <= 1; value++) {
            all.value[place] = value;
            const int64_t with_all = source == FROM_TREE ? ad_count(learner->tree, &all, 0)
                                                         : count_records(learner, &all);
            if (with_all > 0) {
                log_likelihood +=
                    (double)with_all * log((double)with_all / (double)with_parents);
            }
        }
    }
    const double penalties = (double)(given.count * (given.count + 1) / 2) *
                             (double)learner->penalty * learner->log_likelihood_penalty;
    return (score)floor((log_likelihood - penalties) / SCORE_UNIT + 0.5);
}

/* All that lead to a variable, not counting itself unless there is a cycle; by parents' sets. */
static variable_set ancestors(const variable_set *parents, unsigned variable)
{
    variable_set found = parents[variable];
    variable_set left = found;
    for (unsigned i = 0; left != 0; i = (i + 1) % VARIABLES_MAX) {
        if (set_has(left, i)) {
            left &= ~set_of(i);
            left |= parents[i] & ~found;
            found |= parents[i];
        }
    }
    return found;
}

/* Whether a change can be made: an edge to be inserted is new and closes no cycle, one to be
   removed or turned is there, and closes none the other way round; nobody gets too many parents.
   */
static bool is_possible(const struct learner *learner, const variable_set *parents,
                        const struct task *task)
{
    const unsigned from = task->from;
    const unsigned to = task->to;
    const bool is_edge = set_has(parents[to], from);
    switch (task->operation) {
    case INSERT:
        return !is_edge && from != to && set_size(parents[to]) < learner->learned_parents &&
               !set_has(ancestors(parents, from), to);
    case REMOVE: return is_edge;
    case TURN: {
        if (!is_edge || set_size(parents[from]) >= learner->learned_parents) {
            return false;
        }
        variable_set without[VARIABLES_MAX];
        memcpy(without, parents, learner->variables * sizeof *without);
        without[to] &= ~set_of(from);
        return !set_has(ancestors(without, to), from);
    }
    }
    return false;
}

/* What a change adds to the score, given the parents of both ends. */
static score gain_of(const struct learner *learner, const struct task *task,
                     variable_set parents_of_from, variable_set parents_of_to)
{
    const variable_set changed = task->operation == INSERT ? parents_of_to | set_of(task->from)
                                                           : parents_of_to & ~set_of(task->from);
    score gain = score_of(learner, task->to, changed, FROM_TREE) -
                 score_of(learner, task->to, parents_of_to, FROM_TREE);
    if (task->operation == TURN) {
        gain += score_of(learner, task->from, parents_of_from | set_of(task->to), FROM_TREE) -
                score_of(learner, task->from, parents_of_from, FROM_TREE);
    }
    return gain;
}

/* ---- The list of tasks --------------------------------------------------------------------- */

static void list_add(struct learner *learner, struct task *task)
{
    spin_lock_take(&learner->list_lock);
    struct task **link = &learner->tasks;
    while (*link != NULL && (*link)->result >= task->result) {
        link = &(*link)->next;
    }
    task->next = *link;
    *link = task;
    spin_lock_release(&learner->list_lock);
}

/* The best task, or NULL when there is none and no thread is left to find one. */
static struct task *next_task(struct learner *learner)
{
    unsigned spins = 0;
    for (;;) {
        spin_lock_take(&learner->list_lock);
        struct task *task = learner->tasks;
        if (task != NULL) {
            learner->tasks = task->next;
            learner->at_work++;
        }
        const bool finished = task == NULL && learner->at_work == 0;
        spin_lock_release(&learner->list_lock);
        if (task != NULL || finished) {
            return task;
        }
        spin_wait(&spins);
    }
}

static void task_done(struct learner *learner)
{
    spin_lock_take(&learner->list_lock);
    learner->at_work--;
    spin_lock_release(&learner->list_lock);
}

/* ---- Learning ----------------------------------------------------------------------------- */

/* A copy of all parents at one moment; returns the score at that moment. */
static score copy_parents(struct learner *learner, variable_set *parents)
{
    spin_lock_take(&learner->network_lock);
    for (uint64_t i = 0; i < learner->variables; i++) {
        parents[i] = learner->network[i].parents;
    }
    const score total = learner->total;
    spin_lock_release(&learner->network_lock);
    return total;
}

/* Makes a change if it is possible and pays. */
static void make_change(struct learner *learner, const struct task *task)
{
    struct variable *from = &learner->network[task->from];
    struct variable *to = &learner->network[task->to];
    struct variable *second = task->operation != TURN ? NULL : task->from > task->to ? from : to;
    struct variable *first = second == from || second == NULL ? to : from;
    spin_lock_take(&first->lock);
    if (second != NULL) {
        spin_lock_take(&second->lock);
    }
    /* The parents of `from` are this thread's to read for a turn only, and not needed otherwise. */
    const score gain =
        gain_of(learner, task, second != NULL ? from->parents : 0, to->parents);
    if (gain > 0) {
        variable_set parents[VARIABLES_MAX];
        spin_lock_take(&learner->network_lock);
        for (uint64_t i = 0; i < learner->variables; i++) {
            parents[i] = learner->network[i].parents;
        }
        if (is_possible(learner, parents, task)) {
            learner->total += gain;
            to->parents ^= set_of(task->from);
            if (task->operation == TURN) {
                from->parents ^= set_of(task->to);
            }
        }
        spin_lock_release(&learner->network_lock);
    }
    if (second != NULL) {
        spin_lock_release(&second->lock);
    }
    spin_lock_release(&first->lock);
}

/* Keeps a change as the variable's task if it is possible and gains more than what is there. */
static void consider(const struct learner *learner, const variable_set *parents,
                     enum operation operation, unsigned from, unsigned to, score *best_gain,
                     struct task *best)
{
    const struct task task = {operation, from, to, 0, NULL};
    if (is_possible(learner, parents, &task)) {
        const score gain = gain_of(learner, &task, parents[from], parents[to]);
        if (gain > *best_gain) {
            *best_gain = gain;
            *best = task;
        }
    }
}

/* Puts the best change of a variable's parents on the list, if there is one that pays. */
static void find_change(struct learner *learner, unsigned variable)
{
    variable_set parents[VARIABLES_MAX];
    struct task *best = &learner->network[variable].task;
    score best_gain = 0;
    const score total = copy_parents(learner, parents);
    for (unsigned other = 0; other < learner->variables; other++) {
        if (set_has(parents[variable], other)) {
            consider(learner, parents, REMOVE, other, variable, &best_gain, best);
            consider(learner, parents, TURN, other, variable, &best_gain, best);
        } else {
            consider(learner, parents, INSERT, other, variable, &best_gain, best);
        }
    }
    if (best_gain > 0) {
        best->result = total + best_gain;
        list_add(learner, best);
    }
}

static void run_learner(unsigned thread, void *context)
{
    struct learner *learner = context;
    const struct share share =
        thread_share(learner->variables, (unsigned)learner->threads, thread);
    score sum = 0;
    for (uint64_t i = share.first; i < share.end; i++) {
        sum += score_of(learner, (unsigned)i, 0, FROM_TREE);
    }
    spin_lock_take(&learner->network_lock);
    learner->total += sum;
    spin_lock_release(&learner->network_lock);
    barrier_wait(&learner->scored);
    for (uint64_t i = share.first; i < share.end; i++) {
        find_change(learner, (unsigned)i);
    }
    barrier_wait(&learner->scored);

    struct task *task;
    while ((task = next_task(learner)) != NULL) {
        make_change(learner, task);
        find_change(learner, task->to);
        task_done(learner);
    }
}

/* ---- Set-up and check --------------------------------------------------------------------- */

/* Makes a random network and fills the records by it. */
static void make_records(struct learner *learner)
{
    const unsigned variables = (unsigned)learner->variables;
    uint64_t random = random_seeded(learner->seed);
    variable_set parents[VARIABLES_MAX] = {0};
    uint8_t *percent[VARIABLES_MAX]; /* of yes, by the parents' values */
    for (unsigned variable = 0; variable < variables; variable++) {
        for (uint64_t i = 0; i < learner->made_parents; i++) {
            const bool is_wanted = random_below(&random, 100) < learner->made_percent;
            const unsigned parent = (unsigned)random_below(&random, variables);
            if (is_wanted && parent != variable &&
                !set_has(ancestors(parents, parent), variable)) {
                parents[variable] |= set_of(parent);
            }
        }
    }
    for (unsigned variable = 0; variable < variables; variable++) {
        const size_t combinations = (size_t)1 << set_size(parents[variable]);
        percent[variable] = allocate(combinations, 1);
        for (size_t i = 0; i < combinations; i++) {
            percent[variable][i] = (uint8_t)random_below(&random, 101);
        }
    }
    unsigned order[VARIABLES_MAX]; /* parents before children */
    variable_set ordered = 0;
    for (unsigned count = 0; count < variables;) {
        for (unsigned variable = 0; variable < variables; variable++) {
            if (!set_has(ordered, variable) && (parents[variable] & ~ordered) == 0) {
                order[count++] = variable;
                ordered |= set_of(variable);
            }
        }
    }
    learner->data = allocate(learner->records * variables, 1);
    for (uint64_t record = 0; record < learner->records; record++) {
        uint8_t *values = &learner->data[record * variables];
        for (unsigned i = 0; i < variables; i++) {
            size_t combination = 0;
            for (unsigned parent = 0; parent < variables; parent++) {
                if (set_has(parents[order[i]], parent)) {
                    combination = 2 * combination + values[parent];
                }
            }
            values[order[i]] =
                random_below(&random, 100) < percent[order[i]][combination] ? 1 : 0;
        }
    }
    for (unsigned variable = 0; variable < variables; variable++) {
        free(percent[variable]);
    }
}

static void make_tree(struct learner *learner)
{
    const uint32_t count = (uint32_t)learner->records;
    uint32_t *records = allocate(count, sizeof *records);
    for (uint32_t i = 0; i < count; i++) {
        records[i] = i;
    }
    learner->tree = ad_make(learner, records, count, 0);
    free(records);
}

static void check_network(const struct learner *learner)
{
    variable_set parents[VARIABLES_MAX];
    score total = 0;
    score start = 0;
    unsigned edges = 0;
    for (unsigned i = 0; i < learner->variables; i++) {
        parents[i] = learner->network[i].parents;
        if (set_size(parents[i]) > learner->learned_parents) {
            die(STATUS_WRONG, "variable %u has %u parents", i, set_size(parents[i]));
        }
        edges += set_size(parents[i]);
        total += score_of(learner, i, parents[i], FROM_RECORDS);
        start += score_of(learner, i, 0, FROM_RECORDS);
    }
    for (unsigned i = 0; i < learner->variables; i++) {
        if (set_has(ancestors(parents, i), i)) {
            die(STATUS_WRONG, "variable %u is its own ancestor", i);
        }
    }
    if (total != learner->total) {
        die(STATUS_WRONG, "the score is %.6f, but the records say %.6f",
            (double)learner->total * SCORE_UNIT, (double)total * SCORE_UNIT);
    }
    if (edges > 0 ? total <= start : total != start) {
        die(STATUS_WRONG, "the score went from %.6f to %.6f with %u edges",
            (double)start * SCORE_UNIT, (double)total * SCORE_UNIT, edges);
    }
}

int main(int argc, char **argv)
{
    static struct learner learner = {
        .variables = 32,
        .records = 1024,
        .made_parents = 2,
        .made_percent = 20,
        .seed = 0,
        .penalty = 2,
        .learned_parents = 2,
        .threads = THREADS_DEFAULT,
    };
    const struct parameter parameters[] = {
        option_whole('v', "variables", 1, VARIABLES_MAX, &learner.variables),
        option_whole('r', "records", 1, 1 << 20, &learner.records),
        option_whole('n', "parents at most when the records are made", 0, MADE_PARENTS_MAX,
                     &learner.made_parents),
        option_whole('p', "per cent chance of each of these parents", 0, 100,
                     &learner.made_percent),
        option_whole('s', "seed", 0, UINT32_MAX, &learner.seed),
        option_whole('i', "insertion penalty", 0, 1000, &learner.penalty),
        option_whole('e', "parents at most that are learned", 0, LEARNED_MAX,
                     &learner.learned_parents),
        option_threads('t', &learner.threads),
    };
    parse_options(argc, argv, parameters, sizeof parameters / sizeof *parameters);
    learner.log_likelihood_penalty = 0.5 * log((double)learner.records);

    make_records(&learner);
    make_tree(&learner);
    learner.network = allocate_zeroed(learner.variables, sizeof *learner.network);
    barrier_init(&learner.scored, (unsigned)learner.threads);
    uint64_t digest = DIGEST_START;
    digest_bytes(&digest, learner.data, learner.records * learner.variables);
    ready("%" PRIu64 " records of %" PRIu64 " variables", learner.records, learner.variables);
    run_threads((unsigned)learner.threads, run_learner, &learner);

    check_network(&learner);
    pthread_barrier_destroy(&learner.scored);
    ad_free(&learner, learner.tree);
    return verified(digest,
                    "%" PRIu64 " records of %" PRIu64
                    " variables: network without cycles, score as counted anew",
                    learner.records, learner.variables);
}
