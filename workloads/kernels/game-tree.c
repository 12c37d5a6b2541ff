/*
 * game-tree DEPTH MOVES TABLE: a chess program playing against itself.
 *
 * Computes: MOVES moves of short games from random openings, each searched DEPTH half moves deep,
 * and beyond as long as pieces are captured; TABLE is the number of entries of the transposition
 * table, in thousands.
 *
 * Algorithm: alpha-beta with principal variations (D. E. Knuth, R. W. Moore, "An analysis of
 * alpha-beta pruning", Artificial Intelligence 6 (1975)), iterative deepening, a transposition
 * table with A. L. Zobrist's keys (Univ. of Wisconsin Report 88 (1970)), killer and history moves,
 * and a search of captures at the leaves. Board of 10 x 12 squares, all rules but repetition.
 *
 * Memory behaviour that it stands for (sjeng): branchy integer code on a board of two cache lines
 * and short lists of moves; the only large data are the transposition table's 16-byte entries,
 * which are read, and now and then written, at random places.
 *
 * Check: the numbers of positions that the move generator reaches from known ones are those of
 * the literature (perft), so every rule is right; after each move's search the board, its key and
 * its material are those before, computed anew.
 */
#define KERNEL "game-tree"
#include "kernel.h"

/* Squares: ten columns by twelve rows, a border of two rows and one column around. */
enum { SQUARES = 120, A1 = 21, H8 = 98, UP = 10, RIGHT = 1, NO_SQUARE = 0 };

enum piece { EMPTY, PAWN, KNIGHT, BISHOP, ROOK, QUEEN, KING, BORDER = 7 };
enum colour { WHITE = 8, BLACK = 16, COLOUR_MASK = 24, PIECE_MASK = 7 };

/* Rights to castle, as bits. */
enum { WHITE_SHORT = 1, WHITE_LONG = 2, BLACK_SHORT = 4, BLACK_LONG = 8 };

enum {
    MOVES_MAX = 256,
    PLIES_MAX = 64,
    QUIET_DEPTH_MAX = 8, /* of the search of captures */
    INFINITE = 30000,
    MATE = 29000,
    GAME_MOVES_MAX = 24,
    OPENING_MOVES = 6, /* random ones */
};

struct move {
    uint8_t from, to;
    uint8_t promotion; /* a piece, or EMPTY */
    uint8_t flags;
    int32_t order; /* higher is searched earlier */
};

enum { IS_CAPTURE = 1, IS_EN_PASSANT = 2, IS_CASTLING = 4, IS_DOUBLE_STEP = 8 };

struct board {
    uint8_t squares[SQUARES];
    uint8_t kings[2];
    uint8_t side; /* WHITE or BLACK: who is to move */
    uint8_t castling;
    uint8_t en_passant; /* the square behind a pawn that has just made two steps */
    int32_t score;      /* material and places, for White */
    uint64_t key;
};

/* What a move cannot take back by itself. */
struct undo {
    uint8_t captured, castling, en_passant;
    int32_t score;
    uint64_t key;
};

enum bound { NO_BOUND, EXACT, LOWER, UPPER };

struct entry {
    uint64_t key;
    int16_t score;
    uint8_t depth, bound;
    uint8_t from, to, promotion, unused;
};

struct engine {
    struct board board;
    uint64_t piece_keys[32][SQUARES];
    uint64_t castling_keys[16];
    uint64_t en_passant_keys[SQUARES];
    uint64_t black_key;
    struct entry *table;
    uint64_t table_count;
    struct move killers[PLIES_MAX][2];
    int32_t history[32][SQUARES];
    uint64_t nodes;
};

static const int32_t VALUES[8] = {0, 100, 320, 330, 500, 900, 0, 0};

static const int8_t KNIGHT_STEPS[8] = {21, 19, 12, 8, -8, -12, -19, -21};
static const int8_t KING_STEPS[8] = {1, -1, 10, -10, 11, 9, -9, -11};

/* Sliding pieces use the first or last of the king's steps. */
struct slide {
    int first, last;
};

static const struct slide SLIDES[8] = {[BISHOP] = {4, 8}, [ROOK] = {0, 4}, [QUEEN] = {0, 8}};

/* The rights that are lost when something leaves or enters the square. */
static uint8_t rights_at(uint8_t square)
{
    switch (square) {
    case A1: return WHITE_LONG;
    case A1 + 4: return WHITE_LONG | WHITE_SHORT;
    case A1 + 7: return WHITE_SHORT;
    case H8 - 7: return BLACK_LONG;
    case H8 - 3: return BLACK_LONG | BLACK_SHORT;
    case H8: return BLACK_SHORT;
    default: return 0;
    }
}

static int rank_of(uint8_t square)
{
    return square / 10 - 2;
}

static int file_of(uint8_t square)
{
    return square % 10 - 1;
}

static int index_of(uint8_t side)
{
    return side == WHITE ? 0 : 1;
}

static uint8_t other(uint8_t side)
{
    return side ^ COLOUR_MASK;
}

/* ---- The value of a piece on a square, for White ------------------------------------------ */

static int32_t centre(uint8_t square)
{
    const int file = file_of(square);
    const int rank = rank_of(square);
    return (file < 4 ? file : 7 - file) + (rank < 4 ? rank : 7 - rank);
}

static int32_t value_of(uint8_t piece, uint8_t square)
{
    const bool white = (piece & COLOUR_MASK) == WHITE;
    const int advance = white ? rank_of(square) : 7 - rank_of(square);
    int32_t value = VALUES[piece & PIECE_MASK];
    switch (piece & PIECE_MASK) {
    case PAWN: value += advance * advance + 2 * centre(square); break;
    case KNIGHT: value += 8 * centre(square); break;
    case BISHOP: value += 5 * centre(square); break;
    case ROOK: value += advance == 6 ? 20 : 0; break;
    case QUEEN: value += 2 * centre(square); break;
    case KING: value -= 10 * centre(square); break;
    default: break;
    }
    return white ? value : -value;
}

/* ---- Changing the board ------------------------------------------------------------------- */

static void put(struct engine *e, uint8_t square, uint8_t piece)
{
    e->board.squares[square] = piece;
    e->board.key ^= e->piece_keys[piece][square];
    e->board.score += value_of(piece, square);
}

static void take(struct engine *e, uint8_t square)
{
    const uint8_t piece = e->board.squares[square];
    e->board.squares[square] = EMPTY;
    e->board.key ^= e->piece_keys[piece][square];
    e->board.score -= value_of(piece, square);
}

static uint64_t state_key(const struct engine *e)
{
    return e->castling_keys[e->board.castling] ^ e->en_passant_keys[e->board.en_passant];
}

/* The rook's squares when its king castles to the square. */
static uint8_t rook_from(uint8_t king_to)
{
    return file_of(king_to) == 6 ? king_to + 1 : king_to - 2;
}

static uint8_t rook_to(uint8_t king_to)
{
    return file_of(king_to) == 6 ? king_to - 1 : king_to + 1;
}

static uint8_t captured_square(const struct board *b, struct move m)
{
    if (!(m.flags & IS_EN_PASSANT)) {
        return m.to;
    }
    return b->side == WHITE ? m.to - UP : m.to + UP;
}

static struct undo make_move(struct engine *e, struct move m)
{
    struct board *b = &e->board;
    struct undo undo = {
        .castling = b->castling, .en_passant = b->en_passant, .score = b->score, .key = b->key};
    b->key ^= state_key(e);
    const uint8_t piece = b->squares[m.from];
    if (m.flags & IS_CAPTURE) {
        const uint8_t square = captured_square(b, m);
        undo.captured = b->squares[square];
        take(e, square);
    }
    take(e, m.from);
    put(e, m.to, m.promotion != EMPTY ? m.promotion | b->side : piece);
    if ((piece & PIECE_MASK) == KING) {
        b->kings[index_of(b->side)] = m.to;
        if (m.flags & IS_CASTLING) {
            take(e, rook_from(m.to));
            put(e, rook_to(m.to), ROOK | b->side);
        }
    }
    b->castling &= (uint8_t)~(rights_at(m.from) | rights_at(m.to));
    b->en_passant = m.flags & IS_DOUBLE_STEP ? (uint8_t)((m.from + m.to) / 2) : NO_SQUARE;
    b->side = other(b->side);
    b->key ^= state_key(e) ^ e->black_key;
    return undo;
}

static void unmake_move(struct engine *e, struct move m, struct undo undo)
{
    struct board *b = &e->board;
    b->side = other(b->side);
    const uint8_t piece = b->squares[m.to];
    b->squares[m.from] = m.promotion != EMPTY ? PAWN | b->side : piece;
    b->squares[m.to] = EMPTY;
    if ((piece & PIECE_MASK) == KING) {
        b->kings[index_of(b->side)] = m.from;
        if (m.flags & IS_CASTLING) {
            b->squares[rook_to(m.to)] = EMPTY;
            b->squares[rook_from(m.to)] = ROOK | b->side;
        }
    }
    if (m.flags & IS_CAPTURE) {
        b->squares[captured_square(b, m)] = undo.captured;
    }
    b->castling = undo.castling;
    b->en_passant = undo.en_passant;
    b->score = undo.score;
    b->key = undo.key;
}

/* ---- Attacks and moves -------------------------------------------------------------------- */

static bool attacked(const struct board *b, uint8_t square, uint8_t by)
{
    const uint8_t *squares = b->squares;
    const int behind = by == WHITE ? -UP : UP;
    if (squares[square + behind - RIGHT] == (PAWN | by) ||
        squares[square + behind + RIGHT] == (PAWN | by)) {
        return true;
    }
    for (int i = 0; i < 8; i++) {
        if (squares[square + KNIGHT_STEPS[i]] == (KNIGHT | by)) {
            return true;
        }
    }
    for (int i = 0; i < 8; i++) {
        const int step = KING_STEPS[i];
        int at = square + step;
        if (squares[at] == (KING | by)) {
            return true;
        }
        while (squares[at] == EMPTY) {
            at += step;
        }
        if (squares[at] == (QUEEN | by) || squares[at] == ((i < 4 ? ROOK : BISHOP) | by)) {
            return true;
        }
    }
    return false;
}

static bool in_check(const struct board *b, uint8_t side)
{
    return attacked(b, b->kings[index_of(side)], other(side));
}

static int add_move(struct move *moves, int count, int from, int to, int flags)
{
    moves[count] = (struct move){.from = (uint8_t)from, .to = (uint8_t)to, .flags = (uint8_t)flags};
    return count + 1;
}

static int add_pawn_move(struct move *moves, int count, int from, int to, int flags)
{
    if (rank_of((uint8_t)to) != 0 && rank_of((uint8_t)to) != 7) {
        return add_move(moves, count, from, to, flags);
    }
    for (uint8_t promotion = QUEEN; promotion >= KNIGHT; promotion--) {
        count = add_move(moves, count, from, to, flags);
        moves[count - 1].promotion = promotion;
    }
    return count;
}

static int pawn_moves(const struct board *b, uint8_t from, bool captures_only, struct move *moves,
                      int count)
{
    const int ahead = b->side == WHITE ? UP : -UP;
    const int to = from + ahead;
    const bool promotes = rank_of((uint8_t)to) == 0 || rank_of((uint8_t)to) == 7;
    if (b->squares[to] == EMPTY && (!captures_only || promotes)) {
        count = add_pawn_move(moves, count, from, to, 0);
        const int start = b->side == WHITE ? 1 : 6;
        if (!captures_only && rank_of(from) == start && b->squares[to + ahead] == EMPTY) {
            count = add_move(moves, count, from, to + ahead, IS_DOUBLE_STEP);
        }
    }
    for (int aside = -RIGHT; aside <= RIGHT; aside += 2 * RIGHT) {
        const int target = to + aside;
        if (b->squares[target] & other(b->side)) {
            count = add_pawn_move(moves, count, from, target, IS_CAPTURE);
        } else if (target == b->en_passant && b->en_passant != NO_SQUARE) {
            count = add_move(moves, count, from, target, IS_CAPTURE | IS_EN_PASSANT);
        }
    }
    return count;
}

static int castling_moves(const struct board *b, struct move *moves, int count)
{
    const int rights = b->side == WHITE ? b->castling : b->castling >> 2;
    const uint8_t king = b->kings[index_of(b->side)];
    const uint8_t *squares = b->squares;
    const uint8_t by = other(b->side);
    if ((rights & WHITE_SHORT) && squares[king + 1] == EMPTY && squares[king + 2] == EMPTY &&
        !attacked(b, king, by) && !attacked(b, king + 1, by)) {
        count = add_move(moves, count, king, king + 2, IS_CASTLING);
    }
    if ((rights & WHITE_LONG) && squares[king - 1] == EMPTY && squares[king - 2] == EMPTY &&
        squares[king - 3] == EMPTY && !attacked(b, king, by) && !attacked(b, king - 1, by)) {
        count = add_move(moves, count, king, king - 2, IS_CASTLING);
    }
    return count;
}

static int step_moves(const struct board *b, uint8_t from, const int8_t steps[8],
                      bool captures_only, struct move *moves, int count)
{
    for (int i = 0; i < 8; i++) {
        const int to = from + steps[i];
        if (b->squares[to] & other(b->side)) {
            count = add_move(moves, count, from, to, IS_CAPTURE);
        } else if (b->squares[to] == EMPTY && !captures_only) {
            count = add_move(moves, count, from, to, 0);
        }
    }
    return count;
}

static int slide_moves(const struct board *b, uint8_t from, struct slide slide, bool captures_only,
                       struct move *moves, int count)
{
    for (int i = slide.first; i < slide.last; i++) {
        int to = from + KING_STEPS[i];
        for (; b->squares[to] == EMPTY; to += KING_STEPS[i]) {
            if (!captures_only) {
                count = add_move(moves, count, from, to, 0);
            }
        }
        if (b->squares[to] & other(b->side)) {
            count = add_move(moves, count, from, to, IS_CAPTURE);
        }
    }
    return count;
}

/* All moves of the side, some of which may leave its king attacked; returns how many. */
static int generate(const struct board *b, bool captures_only, struct move moves[MOVES_MAX])
{
    int count = 0;
    for (uint8_t from = A1; from <= H8; from++) {
        const uint8_t piece = b->squares[from];
        if (!(piece & b->side)) {
            continue;
        }
        switch (piece & PIECE_MASK) {
        case PAWN: count = pawn_moves(b, from, captures_only, moves, count); break;
        case KNIGHT: count = step_moves(b, from, KNIGHT_STEPS, captures_only, moves, count); break;
        case KING:
            count = step_moves(b, from, KING_STEPS, captures_only, moves, count);
            if (!captures_only) {
                count = castling_moves(b, moves, count);
            }
            break;
        default:
            count = slide_moves(b, from, SLIDES[piece & PIECE_MASK], captures_only, moves, count);
            break;
        }
    }
    return count;
}

/* ---- The search --------------------------------------------------------------------------- */

static bool same_move(struct move a, uint8_t from, uint8_t to, uint8_t promotion)
{
    return a.from == from && a.to == to && a.promotion == promotion;
}

static void order_moves(const struct engine *e, struct move *moves, int count, int ply,
                        const struct entry *entry)
{
    const struct board *b = &e->board;
    for (int i = 0; i < count; i++) {
        struct move *m = &moves[i];
        const struct move *killers = e->killers[ply];
        if (entry != NULL && same_move(*m, entry->from, entry->to, entry->promotion)) {
            m->order = 1 << 30;
        } else if (m->flags & IS_CAPTURE) {
            const uint8_t victim = b->squares[captured_square(b, *m)] & PIECE_MASK;
            m->order = (1 << 28) + 16 * VALUES[victim] - VALUES[b->squares[m->from] & PIECE_MASK];
        } else if (same_move(*m, killers[0].from, killers[0].to, killers[0].promotion) ||
                   same_move(*m, killers[1].from, killers[1].to, killers[1].promotion)) {
            m->order = 1 << 27;
        } else {
            m->order = e->history[b->squares[m->from]][m->to] + VALUES[m->promotion];
        }
    }
}

/* Brings the best of the moves from `first` on to that place. */
static void pick_move(struct move *moves, int first, int count)
{
    int best = first;
    for (int i = first + 1; i < count; i++) {
        if (moves[i].order > moves[best].order) {
            best = i;
        }
    }
    const struct move m = moves[best];
    moves[best] = moves[first];
    moves[first] = m;
}

static int32_t evaluate(const struct board *b)
{
    return b->side == WHITE ? b->score : -b->score;
}

/* Searches captures until the position is quiet. */
static int32_t search_captures(struct engine *e, int32_t alpha, int32_t beta, int depth)
{
    e->nodes++;
    const int32_t standing = evaluate(&e->board);
    if (standing >= beta || depth == 0) {
        return standing;
    }
    alpha = standing > alpha ? standing : alpha;
    struct move moves[MOVES_MAX];
    const int count = generate(&e->board, true, moves);
    order_moves(e, moves, count, 0, NULL);
    for (int i = 0; i < count && alpha < beta; i++) {
        pick_move(moves, i, count);
        const struct undo undo = make_move(e, moves[i]);
        if (!in_check(&e->board, other(e->board.side))) {
            const int32_t score = -search_captures(e, -beta, -alpha, depth - 1);
            alpha = score > alpha ? score : alpha;
        }
        unmake_move(e, moves[i], undo);
    }
    return alpha;
}

static void remember(struct engine *e, struct entry *entry, int depth, int32_t score,
                     enum bound bound, struct move best)
{
    if (entry->key == e->board.key && entry->depth > depth) {
        return;
    }
    *entry = (struct entry){.key = e->board.key,
                            .score = (int16_t)score,
                            .depth = (uint8_t)depth,
                            .bound = (uint8_t)bound,
                            .from = best.from,
                            .to = best.to,
                            .promotion = best.promotion};
}

static void note_cut(struct engine *e, struct move m, int depth, int ply)
{
    if (m.flags & IS_CAPTURE) {
        return;
    }
    if (!same_move(m, e->killers[ply][0].from, e->killers[ply][0].to,
                   e->killers[ply][0].promotion)) {
        e->killers[ply][1] = e->killers[ply][0];
        e->killers[ply][0] = m;
    }
    int32_t *history = &e->history[e->board.squares[m.from]][m.to];
    *history += depth * depth;
    if (*history > 1 << 24) {
        *history >>= 1;
    }
}

static int32_t search(struct engine *e, int32_t alpha, int32_t beta, int depth, int ply)
{
    if (depth == 0) {
        return search_captures(e, alpha, beta, QUIET_DEPTH_MAX);
    }
    e->nodes++;
    struct entry *entry = &e->table[(e->board.key >> 32) * e->table_count >> 32];
    const bool known = entry->key == e->board.key && entry->bound != NO_BOUND;
    if (known && entry->depth >= depth && ply > 0 &&
        (entry->bound == EXACT || (entry->bound == LOWER && entry->score >= beta) ||
         (entry->bound == UPPER && entry->score <= alpha))) {
        return entry->score;
    }
    struct move moves[MOVES_MAX];
    const int count = generate(&e->board, false, moves);
    order_moves(e, moves, count, ply, known ? entry : NULL);
    const int32_t alpha_before = alpha;
    int32_t best = -INFINITE;
    struct move best_move = {.from = NO_SQUARE};
    for (int i = 0; i < count; i++) {
        pick_move(moves, i, count);
        const struct undo undo = make_move(e, moves[i]);
        if (in_check(&e->board, other(e->board.side))) {
            unmake_move(e, moves[i], undo);
            continue;
        }
        int32_t score;
        if (best == -INFINITE) {
            score = -search(e, -beta, -alpha, depth - 1, ply + 1);
        } else {
            score = -search(e, -alpha - 1, -alpha, depth - 1, ply + 1);
            if (score > alpha && score < beta) {
                score = -search(e, -beta, -alpha, depth - 1, ply + 1);
            }
        }
        unmake_move(e, moves[i], undo);
        if (score > best) {
            best = score;
            best_move = moves[i];
        }
        alpha = score > alpha ? score : alpha;
        if (alpha >= beta) {
            note_cut(e, moves[i], depth, ply);
            break;
        }
    }
    if (best == -INFINITE) {
        return in_check(&e->board, e->board.side) ? -MATE + ply : 0;
    }
    remember(e, entry, depth, best,
             best >= beta          ? LOWER
             : best > alpha_before ? EXACT
                                   : UPPER,
             best_move);
    return best;
}

/* ---- Positions ---------------------------------------------------------------------------- */

static void make_keys(struct engine *e)
{
    uint64_t random = random_seeded(1);
    for (int piece = 0; piece < 32; piece++) {
        for (int square = 0; square < SQUARES; square++) {
            e->piece_keys[piece][square] = random_next(&random);
        }
    }
    for (int i = 0; i < 16; i++) {
        e->castling_keys[i] = random_next(&random);
    }
    for (int square = 0; square < SQUARES; square++) {
        e->en_passant_keys[square] = square == NO_SQUARE ? 0 : random_next(&random);
    }
    e->black_key = random_next(&random);
}

static uint8_t piece_of_letter(char letter)
{
    static const char LETTERS[] = " pnbrqk";
    const bool white = letter >= 'A' && letter <= 'Z';
    const char *found = strchr(LETTERS, white ? letter - 'A' + 'a' : letter);
    return (uint8_t)((found - LETTERS) | (white ? WHITE : BLACK));
}

/* Sets the board up: rows from the eighth down, White to move. */
static void set_up(struct engine *e, const char *rows, uint8_t castling)
{
    struct board *b = &e->board;
    memset(b, 0, sizeof *b);
    memset(b->squares, BORDER, sizeof b->squares);
    b->side = WHITE;
    b->castling = castling;
    for (int rank = 7; rank >= 0; rank--) {
        for (int file = 0; file < 8;) {
            const uint8_t square = (uint8_t)(A1 + rank * UP + file);
            const char letter = *rows++;
            if (letter == '/') {
                continue;
            }
            if (letter >= '1' && letter <= '8') {
                for (int i = 0; i < letter - '0'; i++, file++) {
                    b->squares[square + i] = EMPTY;
                }
                continue;
            }
            const uint8_t piece = piece_of_letter(letter);
            put(e, square, piece);
            if ((piece & PIECE_MASK) == KING) {
                b->kings[index_of(piece & COLOUR_MASK)] = square;
            }
            file++;
        }
    }
    b->key ^= state_key(e);
}

/* ---- The check ---------------------------------------------------------------------------- */

static uint64_t perft(struct engine *e, int depth)
{
    if (depth == 0) {
        return 1;
    }
    struct move moves[MOVES_MAX];
    const int count = generate(&e->board, false, moves);
    uint64_t positions = 0;
    for (int i = 0; i < count; i++) {
        const struct undo undo = make_move(e, moves[i]);
        if (!in_check(&e->board, other(e->board.side))) {
            positions += perft(e, depth - 1);
        }
        unmake_move(e, moves[i], undo);
    }
    return positions;
}

static const char START[] = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR";

/* Known counts: https://www.chessprogramming.org/Perft_Results, positions 1, 2, 3 and 5; and one in
   which a rook is lost that would have castled, and a knight is in the way of another, counted by
   python-chess. */
static void check_generator(struct engine *e)
{
    static const struct {
        const char *rows;
        uint8_t castling;
        int depth;
        uint64_t positions;
    } known[] = {
        {START, 15, 2, 400},
        {"r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R", 15, 2, 2039},
        {"8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8", 0, 2, 191},
        {"rnbq1k1r/pp1Pbppp/2p5/8/2B5/8/PPP1NnPP/RNBQK2R", WHITE_SHORT | WHITE_LONG, 2, 1486},
        {"r3k2r/8/6N1/8/8/8/8/RN2K3", WHITE_LONG | BLACK_SHORT | BLACK_LONG, 2, 435},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        set_up(e, known[i].rows, known[i].castling);
        const uint64_t positions = perft(e, known[i].depth);
        if (positions != known[i].positions) {
            wrong("position %zu leads to %" PRIu64 " others, but must to %" PRIu64, i, positions,
                  known[i].positions);
        }
    }
}

/* The board's key and score must be those of its pieces. */
static void check_board(struct engine *e)
{
    const struct board before = e->board;
    e->board.key = state_key(e) ^ (before.side == BLACK ? e->black_key : 0);
    e->board.score = 0;
    for (uint8_t square = A1; square <= H8; square++) {
        const uint8_t piece = before.squares[square];
        if (piece & COLOUR_MASK) {
            put(e, square, piece);
        }
    }
    if (memcmp(&before, &e->board, sizeof before) != 0) {
        wrong("the board's key or score is not that of its pieces");
    }
}

/* ---- Games -------------------------------------------------------------------------------- */

/* A random legal move; false if there is none. */
static bool random_move(struct engine *e, uint64_t *random)
{
    struct move moves[MOVES_MAX];
    int count = generate(&e->board, false, moves);
    while (count > 0) {
        const int i = (int)random_below(random, (uint64_t)count);
        const struct undo undo = make_move(e, moves[i]);
        if (!in_check(&e->board, other(e->board.side))) {
            return true;
        }
        unmake_move(e, moves[i], undo);
        moves[i] = moves[--count];
    }
    return false;
}

/* Searches deeper and deeper and makes the best move; false if there is none. */
static bool best_move(struct engine *e, int depth_max, uint64_t *digest)
{
    const struct board before = e->board;
    int32_t score = 0;
    memset(e->killers, 0, sizeof e->killers);
    for (int depth = 1; depth <= depth_max; depth++) {
        score = search(e, -INFINITE, INFINITE, depth, 0);
    }
    if (memcmp(&before, &e->board, sizeof before) != 0) {
        wrong("the search has changed the board");
    }
    digest_word(digest, (uint64_t)score);
    const struct entry *entry = &e->table[(e->board.key >> 32) * e->table_count >> 32];
    struct move moves[MOVES_MAX];
    const int count = generate(&e->board, false, moves);
    for (int i = 0; i < count; i++) {
        if (entry->key == before.key &&
            same_move(moves[i], entry->from, entry->to, entry->promotion)) {
            make_move(e, moves[i]);
            return score > -MATE / 2 && score < MATE / 2;
        }
    }
    return false;
}

int main(int argc, char **argv)
{
    const int depth = (int)argument(argc, argv, 1, "half moves of a search", 1, 20);
    const uint64_t moves = argument(argc, argv, 2, "moves", 1, 1000000);
    const uint64_t thousands = argument(argc, argv, 3, "thousands of table entries", 1, 1000000);
    arguments_end(argc, 3);

    struct engine *e = allocate_zeroed(1, sizeof *e);
    make_keys(e);
    e->table_count = thousands * 1000;
    e->table = allocate_zeroed(e->table_count, sizeof *e->table);
    check_generator(e);
    steady("%d half moves, %" PRIu64 " moves, %" PRIu64 " table entries", depth, moves,
           e->table_count);

    uint64_t digest = 0;
    uint64_t random = random_seeded(2);
    uint64_t games = 0;
    bool playing = false;
    int game_moves = 0;
    for (uint64_t i = 0; i < moves; i++) {
        if (!playing || game_moves == GAME_MOVES_MAX) {
            set_up(e, START, 15);
            for (int k = 0; k < OPENING_MOVES && random_move(e, &random); k++) {
            }
            games++;
            game_moves = 0;
        }
        playing = best_move(e, depth, &digest);
        game_moves++;
        check_board(e);
    }
    digest_word(&digest, e->nodes);
    return verified(digest, "%" PRIu64 " games, %" PRIu64 " nodes", games, e->nodes);
}
