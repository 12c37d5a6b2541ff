/*
 * video WIDTH HEIGHT FRAMES: a video encoder, and a decoder to check it.
 *
 * Computes: the compressed form of FRAMES generated grey pictures: textured ground that drifts,
 * squares that move over it, noise. The first frame is coded by itself, each later one by motion
 * from the one before, in macroblocks of 16 x 16.
 *
 * Algorithm: the core of H.264 (T. Wiegand et al., IEEE Trans. Circuits and Systems for Video
 * Technology 13 (2003)): full search for motion with early termination, refined to half pixels; the
 * 4 x 4 integer transform and its quantisation (H. S. Malvar et al., in the same issue);
 * exponential Golomb codes (S. W. Golomb, IEEE Trans. Information Theory 12 (1966)) for runs and
 * levels.
 *
 * Memory behaviour that it stands for (h264ref): sums of absolute differences over small blocks
 * that caches hold, with short strided rows; arithmetic dominates; a frame and a bit stream are
 * written slowly.
 *
 * Check: a separate decoder, which sees nothing but the bits, must rebuild every frame exactly as
 * the encoder did; each frame's error must be what the quantiser allows.
 */
#define KERNEL "video"
#include "kernel.h"

enum {
    MACROBLOCK = 16,
    BLOCK = 4,
    COEFFICIENTS = BLOCK * BLOCK,
    SEARCH_RANGE = 8,            /* pixels each way around the predicted motion */
    BORDER = 16,                 /* around a reference frame, repeated from its edge */
    MOTION_MAX = 2 * BORDER - 2, /* in half pixels; no further than the border lets */
    QUANTISER = 26,              /* H.264's QP: a step of 13 */
    MEAN_SQUARE_ERROR_MAX = 60,  /* between 30 and 31 dB */
};

struct frame {
    uint32_t width, height, stride;
    uint8_t *memory;
    uint8_t *pixels; /* the upper left one, inside the border */
};

struct motion {
    int x, y; /* half pixels */
};

struct bits {
    uint8_t *bytes;
    size_t count, capacity; /* in bits; in bytes */
};

/* What encoder and decoder both carry from frame to frame. */
struct coder {
    struct frame reference, current; /* as the decoder sees them */
};

static const uint8_t ZIGZAG[COEFFICIENTS] = {0, 1, 4, 8, 5, 2, 3, 6, 9, 12, 13, 10, 7, 11, 14, 15};

/* H.264's scaling factors by QP modulo 6, for places (even, even), (odd, odd) and others. */
static const int32_t QUANTISE[6][3] = {{13107, 5243, 8066}, {11916, 4660, 7490},
                                       {10082, 4194, 6554}, {9362, 3647, 5825},
                                       {8192, 3355, 5243},  {7282, 2893, 4559}};
static const int32_t RESCALE[6][3] = {{10, 16, 13}, {11, 18, 14}, {13, 20, 16},
                                      {14, 23, 18}, {16, 25, 20}, {18, 29, 23}};

/* ---- Frames ------------------------------------------------------------------------------- */

static struct frame make_frame(uint32_t width, uint32_t height)
{
    struct frame f = {.width = width, .height = height, .stride = width + 2 * BORDER};
    const size_t bytes = (size_t)f.stride * (height + 2 * BORDER);
    f.memory = allocate(bytes, 1);
    memset(f.memory, 0, bytes);
    f.pixels = f.memory + BORDER * f.stride + BORDER;
    return f;
}

/* Repeats the edges into the border. */
static void extend(struct frame *f)
{
    for (uint32_t y = 0; y < f->height; y++) {
        uint8_t *row = f->pixels + (size_t)y * f->stride;
        memset(row - BORDER, row[0], BORDER);
        memset(row + f->width, row[f->width - 1], BORDER);
    }
    const uint8_t *top = f->pixels - BORDER;
    const uint8_t *bottom = top + (size_t)(f->height - 1) * f->stride;
    for (uint32_t i = 1; i <= BORDER; i++) {
        memcpy(f->pixels - BORDER - (size_t)i * f->stride, top, f->stride);
        memcpy(f->pixels - BORDER + (size_t)(f->height - 1 + i) * f->stride, bottom, f->stride);
    }
}

/* Ground texture from a coarse lattice of random heights, interpolated. */
static uint32_t texture(uint32_t x, uint32_t y)
{
    const uint32_t column = x / 8;
    const uint32_t row = y / 8;
    uint32_t corner[4];
    for (uint32_t i = 0; i < 4; i++) {
        corner[i] =
            ((column + (i & 1)) * UINT32_C(2654435761) + (row + (i >> 1)) * UINT32_C(2246822519)) >>
            25;
    }
    const uint32_t right = x % 8;
    const uint32_t down = y % 8;
    return ((corner[0] * (8 - right) + corner[1] * right) * (8 - down) +
            (corner[2] * (8 - right) + corner[3] * right) * down) /
           64;
}

static void draw(struct frame *f, uint32_t number)
{
    uint64_t random = random_seeded(number);
    for (uint32_t y = 0; y < f->height; y++) {
        uint8_t *row = f->pixels + (size_t)y * f->stride;
        uint64_t noise = 0;
        for (uint32_t x = 0; x < f->width; x++) {
            noise = x % 16 == 0 ? random_next(&random) : noise >> 4;
            row[x] = (uint8_t)(64 + texture(x + 3 * number, y + number) + (noise & 3));
        }
    }
    for (uint32_t square = 0; square < 6; square++) {
        const uint32_t side = 20 + 4 * square;
        const uint32_t left = (square * 97 + number * (square + 1)) % (f->width - side);
        const uint32_t top = (square * 61 + number * (6 - square)) % (f->height - side);
        for (uint32_t y = 0; y < side; y++) {
            uint8_t *row = f->pixels + (size_t)(top + y) * f->stride + left;
            for (uint32_t x = 0; x < side; x++) {
                row[x] = (uint8_t)(32 * square + texture(2 * x, 3 * y));
            }
        }
    }
}

/* ---- Bits --------------------------------------------------------------------------------- */

static void put_bits(struct bits *b, uint32_t value, uint32_t count)
{
    if (b->count / 8 + 8 > b->capacity) {
        b->capacity *= 2;
        b->bytes = realloc(b->bytes, b->capacity);
        if (b->bytes == NULL) {
            fprintf(stderr, KERNEL ": no memory for the bits\n");
            exit(2);
        }
    }
    for (uint32_t i = count; i-- > 0;) {
        const uint8_t mask = (uint8_t)(128 >> (b->count % 8));
        uint8_t *byte = &b->bytes[b->count / 8];
        *byte = (uint8_t)(value >> i & 1 ? *byte | mask : *byte & ~mask);
        b->count++;
    }
}

static void put_unsigned(struct bits *b, uint32_t value)
{
    const uint32_t length = 31 - (uint32_t)__builtin_clz(value + 1);
    put_bits(b, 0, length);
    put_bits(b, value + 1, length + 1);
}

static void put_signed(struct bits *b, int32_t value)
{
    put_unsigned(b, value > 0 ? 2 * (uint32_t)value - 1 : 2 * (uint32_t)-value);
}

struct reader {
    const struct bits *bits;
    size_t at;
};

static uint32_t get_bit(struct reader *r)
{
    if (r->at >= r->bits->count) {
        wrong("the bits end before the frames");
    }
    const uint32_t bit = r->bits->bytes[r->at / 8] >> (7 - r->at % 8) & 1;
    r->at++;
    return bit;
}

static uint32_t get_unsigned(struct reader *r)
{
    uint32_t length = 0;
    while (get_bit(r) == 0) {
        if (++length > 31) {
            wrong("the bits hold no number");
        }
    }
    uint32_t value = 1;
    for (uint32_t i = 0; i < length; i++) {
        value = value << 1 | get_bit(r);
    }
    return value - 1;
}

static int32_t get_signed(struct reader *r)
{
    const uint32_t value = get_unsigned(r);
    return value & 1 ? (int32_t)(value / 2 + 1) : -(int32_t)(value / 2);
}

/* ---- Transform and quantisation ----------------------------------------------------------- */

static int scale_class(int place)
{
    const int x = place % BLOCK;
    const int y = place / BLOCK;
    if (x % 2 == 0 && y % 2 == 0) {
        return 0;
    }
    return x % 2 == 1 && y % 2 == 1 ? 1 : 2;
}

/* One dimension of the forward transform, on four values `step` apart. */
static inline void forward_4(int32_t *v, int step)
{
    const int32_t a = v[0] + v[3 * step];
    const int32_t b = v[step] + v[2 * step];
    const int32_t c = v[step] - v[2 * step];
    const int32_t d = v[0] - v[3 * step];
    v[0] = a + b;
    v[step] = 2 * d + c;
    v[2 * step] = a - b;
    v[3 * step] = d - 2 * c;
}

static inline void inverse_4(int32_t *v, int step)
{
    const int32_t a = v[0] + v[2 * step];
    const int32_t b = v[0] - v[2 * step];
    const int32_t c = (v[step] >> 1) - v[3 * step];
    const int32_t d = v[step] + (v[3 * step] >> 1);
    v[0] = a + d;
    v[step] = b + c;
    v[2 * step] = b - c;
    v[3 * step] = a - d;
}

/* Residual to levels, in place. */
static void quantise(int32_t block[COEFFICIENTS])
{
    for (int i = 0; i < BLOCK; i++) {
        forward_4(block + i * BLOCK, 1);
    }
    for (int i = 0; i < BLOCK; i++) {
        forward_4(block + i, BLOCK);
    }
    const int shift = 15 + QUANTISER / 6;
    for (int i = 0; i < COEFFICIENTS; i++) {
        const int32_t size = block[i] < 0 ? -block[i] : block[i];
        const int32_t level =
            (size * QUANTISE[QUANTISER % 6][scale_class(i)] + (1 << shift) / 6) >> shift;
        block[i] = block[i] < 0 ? -level : level;
    }
}

/* Levels to residual, in place. */
static void rescale(int32_t block[COEFFICIENTS])
{
    for (int i = 0; i < COEFFICIENTS; i++) {
        block[i] *= RESCALE[QUANTISER % 6][scale_class(i)] * (1 << QUANTISER / 6);
    }
    for (int i = 0; i < BLOCK; i++) {
        inverse_4(block + i * BLOCK, 1);
    }
    for (int i = 0; i < BLOCK; i++) {
        inverse_4(block + i, BLOCK);
    }
    for (int i = 0; i < COEFFICIENTS; i++) {
        block[i] = (block[i] + 32) >> 6;
    }
}

static uint8_t clipped(int32_t value)
{
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* The block's pixels: the prediction and the rescaled levels. */
static void rebuild(uint8_t *to, size_t stride, const uint8_t prediction[COEFFICIENTS],
                    int32_t levels[COEFFICIENTS])
{
    rescale(levels);
    for (int i = 0; i < COEFFICIENTS; i++) {
        to[(size_t)(i / BLOCK) * stride + (size_t)(i % BLOCK)] = clipped(prediction[i] + levels[i]);
    }
}

/* ---- Prediction --------------------------------------------------------------------------- */

/* The mean of the pixels above and to the left, which are there already. */
static void predict_from_neighbours(const struct frame *f, uint32_t x, uint32_t y,
                                    uint8_t prediction[COEFFICIENTS])
{
    const uint8_t *at = f->pixels + (size_t)y * f->stride + x;
    uint32_t sum = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < BLOCK; i++) {
        if (y > 0) {
            sum += *(at - f->stride + i);
            count++;
        }
        if (x > 0) {
            sum += *(at + (size_t)i * f->stride - 1);
            count++;
        }
    }
    memset(prediction, count > 0 ? (int)((sum + count / 2) / count) : 128, COEFFICIENTS);
}

/* A row of a block that lies half pixels off, by the mean of two or four neighbours. */
static void predict_row(const struct frame *f, int x, int y, int width, uint8_t *row)
{
    const uint8_t *at = f->pixels + (ptrdiff_t)(y >> 1) * (ptrdiff_t)f->stride + (x >> 1);
    const ptrdiff_t right = x & 1;
    const ptrdiff_t down = y & 1 ? (ptrdiff_t)f->stride : 0;
    if (right == 0 && down == 0) {
        memcpy(row, at, (size_t)width);
        return;
    }
    for (int i = 0; i < width; i++) {
        row[i] = (uint8_t)((at[i] + at[i + right] + at[i + down] + at[i + right + down] + 2) >> 2);
    }
}

static void predict_from_motion(const struct frame *f, uint32_t x, uint32_t y, struct motion m,
                                uint8_t prediction[COEFFICIENTS])
{
    for (int row = 0; row < BLOCK; row++) {
        predict_row(f, 2 * (int)x + m.x, 2 * ((int)y + row) + m.y, BLOCK, prediction + row * BLOCK);
    }
}

/* ---- The encoder -------------------------------------------------------------------------- */

static void put_levels(struct bits *b, const int32_t levels[COEFFICIENTS])
{
    uint32_t count = 0;
    for (int i = 0; i < COEFFICIENTS; i++) {
        count += levels[i] != 0;
    }
    put_unsigned(b, count);
    uint32_t run = 0;
    for (int i = 0; i < COEFFICIENTS; i++) {
        if (levels[ZIGZAG[i]] == 0) {
            run++;
            continue;
        }
        put_unsigned(b, run);
        put_signed(b, levels[ZIGZAG[i]]);
        run = 0;
    }
}

static void encode_block(struct bits *b, const struct frame *source, struct frame *current,
                         uint32_t x, uint32_t y, const uint8_t prediction[COEFFICIENTS])
{
    const uint8_t *from = source->pixels + (size_t)y * source->stride + x;
    int32_t block[COEFFICIENTS];
    for (uint32_t i = 0; i < COEFFICIENTS; i++) {
        block[i] = from[(size_t)(i / BLOCK) * source->stride + i % BLOCK] - prediction[i];
    }
    quantise(block);
    put_levels(b, block);
    rebuild(current->pixels + (size_t)y * current->stride + x, current->stride, prediction, block);
}

/* The sum of absolute differences along a row of a macroblock. */
static inline uint32_t row_difference(const uint8_t *a, const uint8_t *b)
{
    uint32_t sum = 0;
    for (int i = 0; i < MACROBLOCK; i++) {
        const int32_t apart = a[i] - b[i];
        sum += (uint32_t)(apart < 0 ? -apart : apart);
    }
    return sum;
}

/* That of a macroblock at a motion in whole pixels; it stops where it exceeds `limit`. */
static uint32_t difference(const uint8_t *source, size_t source_stride, const uint8_t *reference,
                           size_t reference_stride, uint32_t limit)
{
    uint32_t sum = 0;
    for (int row = 0; row < MACROBLOCK && sum < limit; row++) {
        sum += row_difference(source, reference);
        source += source_stride;
        reference += reference_stride;
    }
    return sum;
}

/* The same in half pixels. */
static uint32_t half_difference(const struct frame *source, const struct frame *reference,
                                uint32_t x, uint32_t y, struct motion m, uint32_t limit)
{
    uint32_t sum = 0;
    for (int row = 0; row < MACROBLOCK && sum < limit; row++) {
        uint8_t predicted[MACROBLOCK];
        predict_row(reference, 2 * (int)x + m.x, 2 * ((int)y + row) + m.y, MACROBLOCK, predicted);
        sum += row_difference(source->pixels + (size_t)(y + (uint32_t)row) * source->stride + x,
                              predicted);
    }
    return sum;
}

/* Motion in half pixels that stays within the reference's border. */
static bool allowed(const struct frame *f, uint32_t x, uint32_t y, int motion_x, int motion_y)
{
    const int left = 2 * (int)x + motion_x;
    const int top = 2 * (int)y + motion_y;
    return left >= -MOTION_MAX && top >= -MOTION_MAX &&
           left <= 2 * ((int)f->width - MACROBLOCK) + MOTION_MAX &&
           top <= 2 * ((int)f->height - MACROBLOCK) + MOTION_MAX;
}

/* The motion with the least difference: all whole pixels around the start, from its middle
   outwards, then half pixels around the best. */
static struct motion search_motion(const struct frame *source, const struct frame *reference,
                                   uint32_t x, uint32_t y, struct motion start)
{
    const uint8_t *block = source->pixels + (size_t)y * source->stride + x;
    struct motion best = {0, 0};
    uint32_t least =
        difference(block, source->stride, reference->pixels + (size_t)y * reference->stride + x,
                   reference->stride, UINT32_MAX);
    const int middle_x = start.x / 2;
    const int middle_y = start.y / 2;
    for (int ring = 0; ring <= SEARCH_RANGE; ring++) {
        for (int dy = -ring; dy <= ring; dy++) {
            const int step = dy == -ring || dy == ring || ring == 0 ? 1 : 2 * ring;
            for (int dx = -ring; dx <= ring; dx += step) {
                const int to_x = middle_x + dx;
                const int to_y = middle_y + dy;
                if (!allowed(reference, x, y, 2 * to_x, 2 * to_y)) {
                    continue;
                }
                const ptrdiff_t at =
                    ((ptrdiff_t)y + to_y) * (ptrdiff_t)reference->stride + (ptrdiff_t)x + to_x;
                const uint32_t sum = difference(block, source->stride, reference->pixels + at,
                                                reference->stride, least);
                if (sum < least) {
                    least = sum;
                    best = (struct motion){2 * to_x, 2 * to_y};
                }
            }
        }
    }
    const struct motion whole = best;
    for (int i = 0; i < 9; i++) {
        const struct motion m = {whole.x + i % 3 - 1, whole.y + i / 3 - 1};
        if (i == 4 || !allowed(reference, x, y, m.x, m.y)) {
            continue;
        }
        const uint32_t sum = half_difference(source, reference, x, y, m, least);
        if (sum < least) {
            least = sum;
            best = m;
        }
    }
    return best;
}

static void exchange_frames(struct coder *c)
{
    const struct frame was = c->reference;
    c->reference = c->current;
    c->current = was;
    extend(&c->reference);
}

/* Encodes one frame; the rebuilt one becomes the next reference. */
static void encode_frame(struct coder *c, struct bits *b, const struct frame *source,
                         bool by_motion)
{
    struct frame *current = &c->current;
    uint8_t prediction[COEFFICIENTS];
    for (uint32_t y = 0; y < source->height; y += MACROBLOCK) {
        struct motion before = {0, 0};
        for (uint32_t x = 0; x < source->width; x += MACROBLOCK) {
            struct motion motion = {0, 0};
            if (by_motion) {
                motion = search_motion(source, &c->reference, x, y, before);
                put_signed(b, motion.x - before.x);
                put_signed(b, motion.y - before.y);
                before = motion;
            }
            for (uint32_t i = 0; i < MACROBLOCK * MACROBLOCK / COEFFICIENTS; i++) {
                const uint32_t at_x = x + i % BLOCK * BLOCK;
                const uint32_t at_y = y + i / BLOCK * BLOCK;
                if (by_motion) {
                    predict_from_motion(&c->reference, at_x, at_y, motion, prediction);
                } else {
                    predict_from_neighbours(current, at_x, at_y, prediction);
                }
                encode_block(b, source, current, at_x, at_y, prediction);
            }
        }
    }
    exchange_frames(c);
}

/* ---- The decoder -------------------------------------------------------------------------- */

static void get_levels(struct reader *r, int32_t levels[COEFFICIENTS])
{
    memset(levels, 0, COEFFICIENTS * sizeof *levels);
    const uint32_t count = get_unsigned(r);
    uint32_t place = 0;
    for (uint32_t i = 0; i < count; i++) {
        place += get_unsigned(r);
        if (place >= COEFFICIENTS) {
            wrong("a block has too many coefficients");
        }
        levels[ZIGZAG[place++]] = get_signed(r);
    }
}

static void decode_frame(struct coder *c, struct reader *r, bool by_motion)
{
    struct frame *current = &c->current;
    uint8_t prediction[COEFFICIENTS];
    int32_t levels[COEFFICIENTS];
    for (uint32_t y = 0; y < current->height; y += MACROBLOCK) {
        struct motion motion = {0, 0};
        for (uint32_t x = 0; x < current->width; x += MACROBLOCK) {
            if (by_motion) {
                motion.x += get_signed(r);
                motion.y += get_signed(r);
                if (!allowed(current, x, y, motion.x, motion.y)) {
                    wrong("a macroblock comes from outside the frame");
                }
            }
            for (uint32_t i = 0; i < MACROBLOCK * MACROBLOCK / COEFFICIENTS; i++) {
                const uint32_t at_x = x + i % BLOCK * BLOCK;
                const uint32_t at_y = y + i / BLOCK * BLOCK;
                if (by_motion) {
                    predict_from_motion(&c->reference, at_x, at_y, motion, prediction);
                } else {
                    predict_from_neighbours(current, at_x, at_y, prediction);
                }
                get_levels(r, levels);
                rebuild(current->pixels + (size_t)at_y * current->stride + at_x, current->stride,
                        prediction, levels);
            }
        }
    }
    exchange_frames(c);
}

/* ---- The check ---------------------------------------------------------------------------- */

static uint64_t digest_of(const struct frame *f)
{
    uint64_t digest = 0;
    for (uint32_t y = 0; y < f->height; y++) {
        const uint8_t *row = f->pixels + (size_t)y * f->stride;
        for (uint32_t x = 0; x < f->width; x += 8) {
            uint64_t word;
            memcpy(&word, row + x, sizeof word);
            digest_word(&digest, word);
        }
    }
    return digest;
}

static void check_error(const struct frame *source, const struct frame *rebuilt, uint64_t number)
{
    uint64_t sum = 0;
    for (uint32_t y = 0; y < source->height; y++) {
        const uint8_t *a = source->pixels + (size_t)y * source->stride;
        const uint8_t *b = rebuilt->pixels + (size_t)y * rebuilt->stride;
        for (uint32_t x = 0; x < source->width; x++) {
            const int32_t apart = a[x] - b[x];
            sum += (uint64_t)(apart * apart);
        }
    }
    const uint64_t pixels = (uint64_t)source->width * source->height;
    if (sum > MEAN_SQUARE_ERROR_MAX * pixels) {
        wrong("frame %" PRIu64 " has a mean square error of %" PRIu64, number, sum / pixels);
    }
}

static struct coder make_coder(uint32_t width, uint32_t height)
{
    return (struct coder){make_frame(width, height), make_frame(width, height)};
}

int main(int argc, char **argv)
{
    const uint32_t width = (uint32_t)argument(argc, argv, 1, "width", 48, 4096);
    const uint32_t height = (uint32_t)argument(argc, argv, 2, "height", 48, 4096);
    const uint64_t frames = argument(argc, argv, 3, "frames", 1, 10000);
    arguments_end(argc, 3);
    if (width % MACROBLOCK != 0 || height % MACROBLOCK != 0) {
        fprintf(stderr, KERNEL ": width and height must be multiples of %d\n", MACROBLOCK);
        return 2;
    }

    struct frame *sources = allocate(frames, sizeof *sources);
    for (uint64_t i = 0; i < frames; i++) {
        sources[i] = make_frame(width, height);
        draw(&sources[i], (uint32_t)i);
    }
    struct coder encoder = make_coder(width, height);
    struct bits bits = {.capacity = 65536};
    bits.bytes = allocate(bits.capacity, 1);
    uint64_t *digests = allocate(frames, sizeof *digests);
    steady("%" PRIu32 " x %" PRIu32 " pixels, %" PRIu64 " frames", width, height, frames);
    for (uint64_t i = 0; i < frames; i++) {
        encode_frame(&encoder, &bits, &sources[i], i > 0);
        check_error(&sources[i], &encoder.reference, i);
        digests[i] = digest_of(&encoder.reference);
    }

    struct coder decoder = make_coder(width, height);
    struct reader reader = {&bits, 0};
    uint64_t digest = bits.count;
    for (uint64_t i = 0; i < frames; i++) {
        decode_frame(&decoder, &reader, i > 0);
        if (digest_of(&decoder.reference) != digests[i]) {
            wrong("frame %" PRIu64 " is decoded to another picture than was encoded", i);
        }
        digest_word(&digest, digests[i]);
    }
    if (reader.at != bits.count) {
        wrong("bits are left after the last frame");
    }
    return verified(digest, "%zu bits", bits.count);
}
