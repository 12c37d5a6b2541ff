/*
 * genome [-g NUCLEOTIDES] [-s LENGTH] [-n SEGMENTS] [-t THREADS]
 *
 * Computes: a gene of -g nucleotides, from -n segments of -s nucleotides that were cut out of it at
 * random places (and a few more where those leave gaps).
 *
 * Algorithm: that of STAMP's genome (Minh et al., IISWC 2008): (1) put the segments in a hash set,
 * which drops duplicates; (2) enter each one under the hashes of all its beginnings; for each
 * length of overlap, from the longest down, look for every segment that has no successor yet
 * whether its end is the beginning of one that has no predecessor (Rabin and Karp's string search),
 * and link the two unless they are the two ends of one chain; (3) write out the chain.
 *
 * Locks: one spin lock for each bucket of each hash table. Two chains are linked under the locks of
 * their four outer segments, taken in the order of their numbers; which four was found without a
 * lock and is looked at again.
 *
 * Always true: no part of the gene that is as long as the least overlap of neighbouring segments
 * occurs twice in it. So a segment has one possible successor, whatever the interleaving, and the
 * result is the gene.
 *
 * Check: there are as many different segments as there are places that segments were cut from, they
 * all hang together, and the chain written out is the gene.
 */
#define PROGRAM "genome"
#include "parallel.h"

/* A word of two bits a nucleotide holds as many. */
enum { LEAST_OVERLAP_MAX = 31 };

/* In place of an entry's number. */
static const uint32_t NONE = UINT32_MAX;

static const char NUCLEOTIDES[4] = {'a', 'c', 'g', 't'};

/* A segment that was not met before, in its bucket's list. */
struct unique {
    struct unique *next;
    const char *segment;
};

struct unique_bucket {
    struct unique *first;
    struct spin_lock lock;
};

/* A bucket of the table of one length of beginnings: the first entry in it. */
struct start_bucket {
    uint32_t first;
    struct spin_lock lock;
};

/* A unique segment in its chain of overlapping ones, at first a chain of itself. `lock` guards
   all but `segment`. */
struct entry {
    const char *segment;
    struct spin_lock lock;
    uint32_t next;        /* its successor in the chain, or NONE */
    uint32_t overlap;     /* with the successor */
    uint32_t chain_start; /* right in the last segment of a chain only */
    uint32_t chain_end;   /* right in the first segment of a chain only */
    uint32_t is_start;    /* it is the first of its chain */
};

struct problem {
    uint64_t gene_length, segment_length, threads;
    char *gene;
    char *segments; /* number i at i * segment_length */
    uint64_t segment_count;
    uint64_t places; /* different places that segments were cut from */

    pthread_barrier_t barrier;
    struct unique_bucket *unique_buckets;
    uint64_t buckets; /* of a table: a power of two */
    uint64_t unique_count;
    struct entry *entries;
    uint64_t entries_taken;
    struct start_bucket *start_buckets; /* the table of length l from l * buckets on */
    uint32_t *next_starts; /* of entry e and length l, at e * segment_length + l: the next entry in
                              the bucket */
    uint64_t links;
    char *result;
    uint64_t result_length;
};

/* ---- The gene and its segments ------------------------------------------------------------ */

/* A set of words, with open addressing; the word ~0 never occurs. */
struct word_set {
    uint64_t *words;
    uint64_t mask;
};

/* Adds a word; false if it was there. */
static bool add_word(struct word_set *set, uint64_t word)
{
    for (uint64_t at = mix64(word) & set->mask;; at = (at + 1) & set->mask) {
        if (set->words[at] == word) {
            return false;
        }
        if (set->words[at] == UINT64_MAX) {
            set->words[at] = word;
            return true;
        }
    }
}

static uint64_t power_of_two_from(uint64_t least)
{
    uint64_t power = 1;
    while (power < least) {
        power *= 2;
    }
    return power;
}

/* Random nucleotides, no `overlap` consecutive ones twice. */
static void make_gene(struct problem *problem, uint64_t overlap, uint64_t *random)
{
    struct word_set seen = {NULL, power_of_two_from(2 * problem->gene_length) - 1};
    const uint64_t mask = (UINT64_C(1) << (2 * overlap)) - 1;
    uint64_t word = 0;
    seen.words = allocate(seen.mask + 1, sizeof *seen.words);
    memset(seen.words, 0xff, (seen.mask + 1) * sizeof *seen.words);
    for (uint64_t i = 0; i < problem->gene_length; i++) {
        const uint64_t first = random_below(random, 4);
        uint64_t tries = 0;
        uint64_t nucleotide = first;
        while (i + 1 >= overlap && tries < 4 && !add_word(&seen, (word * 4 + nucleotide) & mask)) {
            tries++;
            nucleotide = (first + tries) % 4;
        }
        if (tries == 4) {
            die(STATUS_USAGE,
                "segments of %" PRIu64 " nucleotides (-s) are too short for a gene of %" PRIu64
                " (-g)",
                problem->segment_length, problem->gene_length);
        }
        word = (word * 4 + nucleotide) & mask;
        problem->gene[i] = NUCLEOTIDES[nucleotide];
    }
    free(seen.words);
}

/* Cuts `least_count` segments from random places, and more wherever two neighbours, or the gene's
   end and its neighbour, do not overlap enough. */
static void cut_segments(struct problem *problem, uint64_t least_count, uint64_t overlap,
                         uint64_t *random)
{
    const uint64_t length = problem->segment_length;
    const uint64_t last = problem->gene_length - length;
    const uint64_t gap_max = length - overlap;
    bool *is_cut = allocate_zeroed(last + 1, sizeof *is_cut);
    /* Extra segments at most at the two ends and one to each gap. */
    uint64_t *places = allocate(least_count + last / gap_max + 2, sizeof *places);
    uint64_t count = 0;
    while (count < least_count) {
        places[count] = random_below(random, last + 1);
        is_cut[places[count]] = true;
        count++;
    }
    uint64_t gap = gap_max;
    for (uint64_t place = 0; place <= last; place++, gap++) {
        if (!is_cut[place] && (gap == gap_max || place == last)) {
            places[count] = place;
            is_cut[place] = true;
            count++;
        }
        if (is_cut[place]) {
            gap = 0;
            problem->places++;
        }
    }
    problem->segment_count = count;
    problem->segments = allocate(count, length);
    for (uint64_t i = count; i > 0; i--) {
        const uint64_t other = random_below(random, i);
        const uint64_t place = places[other];
        places[other] = places[i - 1];
        memcpy(problem->segments + (i - 1) * length, problem->gene + place, length);
    }
    free(places);
    free(is_cut);
}

/* ---- Step 1: duplicates ------------------------------------------------------------------- */

/* The polynomial hash of the string hashed so far, followed by one more nucleotide. */
static uint64_t hash_more(uint64_t hash, char nucleotide)
{
    return hash * 65599 + (unsigned char)nucleotide;
}

static uint64_t hash_string(const char *string, uint64_t length)
{
    uint64_t hash = 0;
    for (uint64_t i = 0; i < length; i++) {
        hash = hash_more(hash, string[i]);
    }
    return hash;
}

static uint64_t bucket_of(const struct problem *problem, uint64_t hash)
{
    return (hash ^ (hash >> 32)) * UINT64_C(0x9e3779b97f4a7c15) >> 32 & (problem->buckets - 1);
}

/* Adds a segment to the set; false if it was there. */
static bool add_segment(struct problem *problem, const char *segment)
{
    const uint64_t hash = hash_string(segment, problem->segment_length);
    struct unique_bucket *bucket = &problem->unique_buckets[bucket_of(problem, hash)];
    spin_lock_take(&bucket->lock);
    struct unique *unique = bucket->first;
    while (unique != NULL && memcmp(unique->segment, segment, problem->segment_length) != 0) {
        unique = unique->next;
    }
    const bool is_new = unique == NULL;
    if (is_new) {
        unique = malloc(sizeof *unique);
        if (unique == NULL) {
            die(STATUS_USAGE, "no memory for the set of segments");
        }
        unique->segment = segment;
        unique->next = bucket->first;
        bucket->first = unique;
    }
    spin_lock_release(&bucket->lock);
    return is_new;
}

static void drop_duplicates(struct problem *problem, unsigned thread)
{
    const struct share share =
        thread_share(problem->segment_count, (unsigned)problem->threads, thread);
    uint64_t count = 0;
    for (uint64_t i = share.first; i < share.end; i++) {
        count += add_segment(problem, problem->segments + i * problem->segment_length);
    }
    __atomic_fetch_add(&problem->unique_count, count, __ATOMIC_RELAXED);
}

/* ---- Step 2: overlaps --------------------------------------------------------------------- */

/* Memory for the entries, once it is known how many segments are unique. */
static void allocate_entries(struct problem *problem)
{
    const uint64_t tables = problem->segment_length * problem->buckets;
    problem->entries = allocate(problem->unique_count, sizeof *problem->entries);
    problem->next_starts =
        allocate(problem->unique_count * problem->segment_length, sizeof *problem->next_starts);
    problem->start_buckets = allocate(tables, sizeof *problem->start_buckets);
}

/* A thread's part of the tables of beginnings, made empty. */
static void clear_tables(struct problem *problem, unsigned thread)
{
    const struct share share = thread_share(problem->segment_length * problem->buckets,
                                            (unsigned)problem->threads, thread);
    for (uint64_t i = share.first; i < share.end; i++) {
        problem->start_buckets[i] = (struct start_bucket){.first = NONE};
    }
}

/* Makes a segment an entry, and enters it under all its beginnings. */
static void enter_segment(struct problem *problem, const char *segment)
{
    const uint32_t number =
        (uint32_t)__atomic_fetch_add(&problem->entries_taken, 1, __ATOMIC_RELAXED);
    uint64_t hash = 0;
    problem->entries[number] = (struct entry){.segment = segment,
                                              .next = NONE,
                                              .chain_start = number,
                                              .chain_end = number,
                                              .is_start = true};
    for (uint64_t length = 1; length < problem->segment_length; length++) {
        hash = hash_more(hash, segment[length - 1]);
        struct start_bucket *bucket =
            &problem->start_buckets[length * problem->buckets + bucket_of(problem, hash)];
        uint32_t *next = &problem->next_starts[number * problem->segment_length + length];
        spin_lock_take(&bucket->lock);
        *next = bucket->first;
        bucket->first = number;
        spin_lock_release(&bucket->lock);
    }
}

static void enter_segments(struct problem *problem, unsigned thread)
{
    const struct share share = thread_share(problem->buckets, (unsigned)problem->threads, thread);
    for (uint64_t i = share.first; i < share.end; i++) {
        const struct unique *unique = problem->unique_buckets[i].first;
        for (; unique != NULL; unique = unique->next) {
            enter_segment(problem, unique->segment);
        }
    }
}

/* Takes, or releases, the locks of the different ones of four entries, given in order. */
static void lock_four(struct entry *entries, const uint32_t numbers[4], bool take)
{
    for (int i = 0; i < 4; i++) {
        if (i > 0 && numbers[i] == numbers[i - 1]) {
            continue;
        }
        if (take) {
            spin_lock_take(&entries[numbers[i]].lock);
        } else {
            spin_lock_release(&entries[numbers[i]].lock);
        }
    }
}

static void sort_four(uint32_t numbers[4])
{
    for (int i = 1; i < 4; i++) {
        const uint32_t number = numbers[i];
        int at = i;
        for (; at > 0 && numbers[at - 1] > number; at--) {
            numbers[at] = numbers[at - 1];
        }
        numbers[at] = number;
    }
}

/* Links the chain that ends with entry `end` to the one that starts with entry `start`; false if
   none starts there any more, or it is the same chain. No other thread gives `end` a successor. */
static bool link_chains(struct entry *entries, uint32_t end, uint32_t start, uint32_t overlap)
{
    for (;;) {
        const uint32_t first = __atomic_load_n(&entries[end].chain_start, __ATOMIC_RELAXED);
        const uint32_t last = __atomic_load_n(&entries[start].chain_end, __ATOMIC_RELAXED);
        if (first == start || !__atomic_load_n(&entries[start].is_start, __ATOMIC_RELAXED)) {
            return false;
        }
        uint32_t numbers[4] = {first, end, start, last};
        sort_four(numbers);
        lock_four(entries, numbers, true);
        const bool is_same = entries[end].chain_start == first &&
                             entries[start].chain_end == last && entries[start].is_start;
        if (is_same) {
            entries[end].next = start;
            entries[end].overlap = overlap;
            __atomic_store_n(&entries[start].is_start, false, __ATOMIC_RELAXED);
            __atomic_store_n(&entries[first].chain_end, last, __ATOMIC_RELAXED);
            __atomic_store_n(&entries[last].chain_start, first, __ATOMIC_RELAXED);
        }
        lock_four(entries, numbers, false);
        if (is_same) {
            return true;
        }
    }
}

/* Looks for a successor of an entry, with an overlap of just `overlap`. */
static bool find_successor(struct problem *problem, uint32_t number, uint64_t overlap)
{
    const char *end = problem->entries[number].segment + problem->segment_length - overlap;
    const uint64_t bucket = bucket_of(problem, hash_string(end, overlap));
    uint32_t start = problem->start_buckets[overlap * problem->buckets + bucket].first;
    while (start != NONE) {
        const struct entry *candidate = &problem->entries[start];
        if (__atomic_load_n(&candidate->is_start, __ATOMIC_RELAXED) &&
            memcmp(candidate->segment, end, overlap) == 0 &&
            link_chains(problem->entries, number, start, (uint32_t)overlap)) {
            return true;
        }
        start = problem->next_starts[start * problem->segment_length + overlap];
    }
    return false;
}

static void find_overlaps(struct problem *problem, unsigned thread)
{
    const struct share share =
        thread_share(problem->unique_count, (unsigned)problem->threads, thread);
    uint64_t links = 0;
    for (uint64_t overlap = problem->segment_length - 1; overlap > 0; overlap--) {
        for (uint64_t i = share.first; i < share.end; i++) {
            if (problem->entries[i].next == NONE) {
                links += find_successor(problem, (uint32_t)i, overlap);
            }
        }
        barrier_wait(&problem->barrier);
    }
    __atomic_fetch_add(&problem->links, links, __ATOMIC_RELAXED);
}

/* ---- Step 3: the result ------------------------------------------------------------------- */

/* Writes out all chains, of which there should be one. */
static void write_result(struct problem *problem)
{
    const uint64_t length = problem->segment_length;
    problem->result = allocate(problem->unique_count, length);
    for (uint64_t i = 0; i < problem->unique_count; i++) {
        if (!problem->entries[i].is_start) {
            continue;
        }
        uint64_t overlap = 0;
        for (uint64_t at = i; at != NONE; at = problem->entries[at].next) {
            memcpy(problem->result + problem->result_length,
                   problem->entries[at].segment + overlap, length - overlap);
            problem->result_length += length - overlap;
            overlap = problem->entries[at].overlap;
        }
    }
}

static void assemble(unsigned thread, void *context)
{
    struct problem *problem = context;
    drop_duplicates(problem, thread);
    barrier_wait(&problem->barrier);
    if (thread == 0) {
        allocate_entries(problem);
    }
    barrier_wait(&problem->barrier);
    clear_tables(problem, thread);
    barrier_wait(&problem->barrier);
    enter_segments(problem, thread);
    barrier_wait(&problem->barrier);
    find_overlaps(problem, thread);
    barrier_wait(&problem->barrier);
    if (thread == 0) {
        write_result(problem);
    }
}

static void check(const struct problem *problem)
{
    if (problem->unique_count != problem->places || problem->entries_taken != problem->places) {
        die(STATUS_WRONG,
            "found %" PRIu64 " different segments, but they are from %" PRIu64 " places",
            problem->unique_count, problem->places);
    }
    if (problem->links + 1 != problem->unique_count) {
        die(STATUS_WRONG, "%" PRIu64 " segments were linked by %" PRIu64 " overlaps",
            problem->unique_count, problem->links);
    }
    if (problem->result_length != problem->gene_length ||
        memcmp(problem->result, problem->gene, problem->gene_length) != 0) {
        die(STATUS_WRONG, "the segments were not put together to the gene");
    }
}

int main(int argc, char **argv)
{
    struct problem problem = {
        .gene_length = 4096, .segment_length = 64, .threads = THREADS_DEFAULT};
    uint64_t least_segments = 65536;
    const struct parameter parameters[] = {
        option_whole('g', "nucleotides in the gene", 4, 1 << 24, &problem.gene_length),
        option_whole('s', "nucleotides in a segment", 4, 1 << 12, &problem.segment_length),
        option_whole('n', "least number of segments", 1, 1 << 24, &least_segments),
        option_threads('t', &problem.threads),
    };
    parse_options(argc, argv, parameters, sizeof parameters / sizeof *parameters);
    if (problem.segment_length > problem.gene_length) {
        die(STATUS_USAGE, "-s (nucleotides in a segment) is more than -g (in the gene)");
    }

    uint64_t random = random_seeded(1);
    const uint64_t half = problem.segment_length / 2;
    const uint64_t overlap = half < LEAST_OVERLAP_MAX ? half : LEAST_OVERLAP_MAX;
    problem.gene = allocate(problem.gene_length, sizeof *problem.gene);
    make_gene(&problem, overlap, &random);
    cut_segments(&problem, least_segments, overlap, &random);
    problem.buckets = power_of_two_from(problem.gene_length);
    problem.unique_buckets = allocate_zeroed(problem.buckets, sizeof *problem.unique_buckets);
    barrier_init(&problem.barrier, (unsigned)problem.threads);
    ready("%" PRIu64 " segments of %" PRIu64 " nucleotides from a gene of %" PRIu64,
          problem.segment_count, problem.segment_length, problem.gene_length);

    run_threads((unsigned)problem.threads, assemble, &problem);

    check(&problem);
    uint64_t digest = DIGEST_START;
    digest_bytes(&digest, problem.result, problem.result_length);
    return verified(digest,
                    "a gene of %" PRIu64 " nucleotides from %" PRIu64 " segments, %" PRIu64
                    " of them different",
                    problem.gene_length, problem.segment_count, problem.unique_count);
}
