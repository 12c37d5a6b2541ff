/*
 * mixture-scoring STATES FRAMES: the acoustic search of a speech recogniser.
 *
 * Computes: which sequence of words was spoken. STATES acoustic states, three to a phone, each with
 * a mixture of eight Gaussians in 39 dimensions; a vocabulary of words of four phones; FRAMES
 * feature vectors generated from a known sequence of words. Every frame scores all mixtures and
 * moves a beam of hypotheses one step on.
 *
 * Algorithm: continuous hidden Markov models with Viterbi beam search: L. R. Rabiner, "A tutorial
 * on hidden Markov models", Proc. IEEE 77 (1989); logarithms as integers to the base 1.0003 with a
 * table for their addition, as in Sphinx: K.-F. Lee, H.-W. Hon, R. Reddy, IEEE Trans. ASSP 38
 * (1990).
 *
 * Memory behaviour that it stands for (sphinx3): every frame streams over all means and variances
 * (2.5 KB a state), which are read only; what is written is small: the scores of the states, the
 * active hypotheses and the list of word ends.
 *
 * Check: the words found are those spoken; sampled scores equal the mixture's logarithm in
 * floating point within the table's error.
 */
#define KERNEL "mixture-scoring"
#include "kernel.h"
#include "kernel_math.h"

enum {
    DIMENSIONS = 39,
    DENSITIES = 8, /* of a mixture */
    PHONE_STATES = 3,
    WORD_PHONES = 4,
    WORD_STATES = WORD_PHONES * PHONE_STATES,
    WORDS_OF_PHONES = 4, /* words for each phone */
    FRAMES_A_STATE = 2,  /* that a spoken state lasts */
    WORD_FRAMES = WORD_STATES * FRAMES_A_STATE,
    ADDITION_TABLE = 30000, /* beyond it, 1 + base^-n rounds to 1 */
};

static const double LOG_OF_BASE = 2.9995500899790065e-4; /* ln 1.0003 */

static const int32_t SCORE_ZERO = INT32_MIN / 4;  /* of what cannot be */
static const int32_t BEAM = 400000;               /* about e^-120 */
static const int32_t STAY = -2311, LEAVE = -2311; /* log 1/2: staying in a state, or leaving it */

struct density {
    float mean[DIMENSIONS];
    float precision[DIMENSIONS]; /* 1 / (2 variance) */
    float constant;              /* log of weight and normalisation */
};

struct mixture {
    struct density densities[DENSITIES];
};

/* One active place in one word: its best score, and the word end that it came from. */
struct token {
    int32_t score;
    uint32_t history;
};

struct word {
    uint32_t phones[WORD_PHONES];
    struct token tokens[WORD_STATES];
    bool active;
};

struct word_end {
    uint32_t word;
    uint32_t before; /* the word end before it */
};

struct recogniser {
    size_t states_count, words_count, frames_count;
    struct mixture *mixtures;
    struct word *words;
    int32_t *scores; /* of all states, for one frame */
    uint16_t *addition;
    struct word_end *ends;
    size_t ends_count, ends_capacity;
    uint64_t evaluated; /* tokens */
};

/* ---- Scores ------------------------------------------------------------------------------- */

static int32_t to_score(double logarithm_value)
{
    return (int32_t)(logarithm_value / LOG_OF_BASE);
}

static uint16_t *make_addition_table(void)
{
    uint16_t *table = allocate(ADDITION_TABLE, sizeof *table);
    /* log_base(1 + base^-n), by the power's recurrence. */
    const double shrink = exponential(-LOG_OF_BASE);
    double power = 1.0;
    for (int n = 0; n < ADDITION_TABLE; n++) {
        table[n] = (uint16_t)(logarithm(1.0 + power) / LOG_OF_BASE + 0.5);
        power *= shrink;
    }
    return table;
}

static inline int32_t add_scores(const uint16_t *table, int32_t a, int32_t b)
{
    const int32_t high = a > b ? a : b;
    const int32_t apart = a > b ? a - b : b - a;
    return apart < ADDITION_TABLE ? high + table[apart] : high;
}

/* The exponent of one density. */
static inline float density_exponent(const struct density *density, const float *feature)
{
    float sum = density->constant;
    for (int d = 0; d < DIMENSIONS; d++) {
        const float apart = feature[d] - density->mean[d];
        sum -= apart * apart * density->precision[d];
    }
    return sum;
}

static int32_t mixture_score(const struct mixture *mixture, const float *feature,
                             const uint16_t *addition)
{
    const float scale = (float)(1.0 / LOG_OF_BASE);
    int32_t score = SCORE_ZERO;
    for (int k = 0; k < DENSITIES; k++) {
        const float exponent = density_exponent(&mixture->densities[k], feature);
        /* what is this far off cannot count, and must not overflow */
        if (exponent > -100000.0F) {
            score = add_scores(addition, score, (int32_t)(exponent * scale));
        }
    }
    return score;
}

/* ---- Building ----------------------------------------------------------------------------- */

static float random_offset(uint64_t *random, float scale)
{
    return scale * ((float)(random_next(random) >> 40) * 0x1.0p-24F - 0.5F);
}

/* A state's densities lie around its own centre. */
static void make_mixtures(struct recogniser *r)
{
    uint64_t random = random_seeded(1);
    const float constant = (float)logarithm(1.0 / DENSITIES);
    for (size_t s = 0; s < r->states_count; s++) {
        float centre[DIMENSIONS];
        for (int d = 0; d < DIMENSIONS; d++) {
            centre[d] = random_offset(&random, 8.0F);
        }
        for (int k = 0; k < DENSITIES; k++) {
            struct density *density = &r->mixtures[s].densities[k];
            uint64_t bits = random_next(&random);
            for (int d = 0; d < DIMENSIONS; d++) {
                bits = bits * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
                density->mean[d] = centre[d] + (float)((bits >> 40) & 1023) * 0x1.0p-9F - 1.0F;
                density->precision[d] = 0.25F + (float)((bits >> 52) & 255) * 0x1.0p-9F;
            }
            density->constant = constant;
        }
    }
}

static void make_words(struct recogniser *r)
{
    uint64_t random = random_seeded(2);
    const size_t phones = r->states_count / PHONE_STATES;
    for (size_t w = 0; w < r->words_count; w++) {
        struct word *word = &r->words[w];
        word->phones[0] = (uint32_t)(w % phones);
        for (int p = 1; p < WORD_PHONES; p++) {
            word->phones[p] = (uint32_t)random_below(&random, phones);
        }
        word->active = false;
        for (int s = 0; s < WORD_STATES; s++) {
            word->tokens[s] = (struct token){SCORE_ZERO, 0};
        }
    }
}

static uint32_t state_of(const struct word *word, int place)
{
    return word->phones[place / PHONE_STATES] * PHONE_STATES + (uint32_t)(place % PHONE_STATES);
}

/* A frame as the word's state would emit it: one of its means, and some noise. */
static void make_feature(const struct recogniser *r, uint32_t state, uint64_t *random,
                         float feature[DIMENSIONS])
{
    const struct density *density = &r->mixtures[state].densities[random_below(random, DENSITIES)];
    for (int d = 0; d < DIMENSIONS; d++) {
        feature[d] = density->mean[d] + random_offset(random, 2.0F);
    }
}

/* ---- The search --------------------------------------------------------------------------- */

static uint32_t note_word_end(struct recogniser *r, uint32_t word, uint32_t before)
{
    if (r->ends_count == r->ends_capacity) {
        r->ends_capacity *= 2;
        r->ends = realloc(r->ends, r->ends_capacity * sizeof *r->ends);
        if (r->ends == NULL) {
            fprintf(stderr, KERNEL ": no memory for the word ends\n");
            exit(2);
        }
    }
    r->ends[r->ends_count] = (struct word_end){word, before};
    return (uint32_t)r->ends_count++;
}

/* Moves the word's tokens one frame on; `entry` may come into its first state. Returns the best
   score. */
static int32_t advance_word(struct recogniser *r, struct word *word, struct token entry,
                            int32_t threshold)
{
    int32_t best = SCORE_ZERO;
    bool active = false;
    for (int s = WORD_STATES; s-- > 0;) {
        struct token *token = &word->tokens[s];
        const struct token from = s > 0 ? word->tokens[s - 1] : entry;
        const int32_t stay = token->score + STAY;
        const int32_t come = from.score + LEAVE;
        const int32_t higher = stay > come ? stay : come;
        if (higher < threshold) {
            *token = (struct token){SCORE_ZERO, 0};
            continue;
        }
        r->evaluated++;
        const uint32_t history = stay > come ? token->history : from.history;
        *token = (struct token){higher + r->scores[state_of(word, s)], history};
        best = token->score > best ? token->score : best;
        active = true;
    }
    word->active = active;
    return best;
}

/* Lets the scores start from the best one again, so that they never overflow. */
static void rescale(struct recogniser *r, int32_t best)
{
    for (size_t w = 0; w < r->words_count; w++) {
        struct word *word = &r->words[w];
        for (int s = 0; word->active && s < WORD_STATES; s++) {
            struct token *token = &word->tokens[s];
            token->score = token->score > SCORE_ZERO ? token->score - best : SCORE_ZERO;
        }
    }
}

/* One frame; `entry` is the best word end so far, and is replaced by this frame's. */
static void search_frame(struct recogniser *r, const float *feature, struct token *entry)
{
    for (size_t s = 0; s < r->states_count; s++) {
        r->scores[s] = mixture_score(&r->mixtures[s], feature, r->addition);
    }
    int32_t best = SCORE_ZERO;
    for (size_t w = 0; w < r->words_count; w++) {
        struct word *word = &r->words[w];
        if (word->active || entry->score > -BEAM) {
            const int32_t score = advance_word(r, word, *entry, -BEAM);
            best = score > best ? score : best;
        }
    }
    rescale(r, best);
    uint32_t word_of_best = 0;
    struct token end = {SCORE_ZERO, 0};
    for (size_t w = 0; w < r->words_count; w++) {
        const struct token last = r->words[w].tokens[WORD_STATES - 1];
        if (r->words[w].active && last.score > end.score) {
            end = last;
            word_of_best = (uint32_t)w;
        }
    }
    *entry = end;
    if (end.score > -BEAM) {
        entry->history = note_word_end(r, word_of_best, end.history);
    }
}

/* ---- The check ---------------------------------------------------------------------------- */

static void check_score(const struct recogniser *r, size_t state, const float *feature)
{
    double highest = -1e300;
    double exponents[DENSITIES];
    for (int k = 0; k < DENSITIES; k++) {
        const struct density *density = &r->mixtures[state].densities[k];
        exponents[k] = density->constant;
        for (int d = 0; d < DIMENSIONS; d++) {
            const double apart = (double)feature[d] - density->mean[d];
            exponents[k] -= apart * apart * density->precision[d];
        }
        highest = exponents[k] > highest ? exponents[k] : highest;
    }
    double sum = 0.0;
    for (int k = 0; k < DENSITIES; k++) {
        sum += exponential(exponents[k] - highest);
    }
    const double exact = highest + logarithm(sum);
    const int32_t apart = r->scores[state] - to_score(exact);
    if (apart > 20 || apart < -20) {
        wrong("state %zu scores %" PRId32 ", but must score %" PRId32, state, r->scores[state],
              to_score(exact));
    }
}

/* The words along the history against those spoken, from the last back. */
static void check_words(const struct recogniser *r, uint32_t history, const uint32_t *spoken,
                        size_t spoken_count)
{
    for (size_t i = spoken_count; i-- > 0;) {
        if (history == 0) {
            wrong("only %zu of %zu words were found", spoken_count - 1 - i, spoken_count);
        }
        if (r->ends[history].word != spoken[i]) {
            wrong("word %zu was taken for %" PRIu32 ", but is %" PRIu32, i, r->ends[history].word,
                  spoken[i]);
        }
        history = r->ends[history].before;
    }
    if (history != 0) {
        wrong("more words were found than spoken");
    }
}

int main(int argc, char **argv)
{
    struct recogniser r = {.ends_count = 1, .ends_capacity = 256};
    r.states_count = argument(argc, argv, 1, "acoustic states", 2 * PHONE_STATES, 1000000);
    const size_t frames = argument(argc, argv, 2, "frames", 1, 100000);
    arguments_end(argc, 2);
    r.states_count -= r.states_count % PHONE_STATES;
    r.words_count = r.states_count / PHONE_STATES * WORDS_OF_PHONES;
    const size_t spoken_count = (frames + WORD_FRAMES - 1) / WORD_FRAMES;
    r.frames_count = spoken_count * WORD_FRAMES;
    r.mixtures = allocate(r.states_count, sizeof *r.mixtures);
    r.words = allocate(r.words_count, sizeof *r.words);
    r.scores = allocate(r.states_count, sizeof *r.scores);
    r.ends = allocate(r.ends_capacity, sizeof *r.ends);
    r.ends[0] = (struct word_end){0, 0}; /* the start of the utterance */
    r.addition = make_addition_table();
    make_mixtures(&r);
    make_words(&r);
    uint32_t *spoken = allocate(spoken_count, sizeof *spoken);
    uint64_t random = random_seeded(3);
    for (size_t i = 0; i < spoken_count; i++) {
        spoken[i] = (uint32_t)random_below(&random, r.words_count);
    }
    steady("%zu states, %zu words, %zu frames", r.states_count, r.words_count, r.frames_count);

    struct token entry = {0, 0};
    float feature[DIMENSIONS];
    for (size_t f = 0; f < r.frames_count; f++) {
        const struct word *word = &r.words[spoken[f / WORD_FRAMES]];
        make_feature(&r, state_of(word, (int)(f % WORD_FRAMES / FRAMES_A_STATE)), &random, feature);
        search_frame(&r, feature, &entry);
    }

    for (size_t s = 0; s < r.states_count; s += r.states_count / 20 + 1) {
        check_score(&r, s, feature);
    }
    check_words(&r, entry.history, spoken, spoken_count);
    uint64_t digest = r.evaluated;
    for (size_t s = 0; s < r.states_count; s++) {
        digest_word(&digest, (uint64_t)r.scores[s]);
    }
    return verified(digest, "%zu words, %" PRIu64 " tokens", spoken_count, r.evaluated);
}
