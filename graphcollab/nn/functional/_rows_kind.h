/* Included once for each set of instructions and each kind of number, which the including file names by macros:
 *
 *   FN(name)   the name of a function of both
 *   ROW        how a number is kept
 *   NUM        how it is computed with
 *   VNUM       a register of these
 *   LOAD(p)    a register of numbers from p on
 *   STORE(p,v) the numbers of a register to p
 *   GET(p), PUT(p, a)   one number
 */

#define LANES ((int64_t)(sizeof(VNUM) / sizeof(NUM)))
#define WIDTH 8                      /* registers that the sum of one receiver takes */
#define TALL 4                       /* receivers whose sums are made at a time where most pairs are edges */
#define BROAD (VEC == 64 ? 4 : 2)    /* registers that each of these takes */
#define STRIP ((int64_t)(512 / sizeof(ROW))) /* columns in which the tiles of all receivers are made at a time */
#define PARTS ((int64_t)64 / LANES)  /* registers that an inner product takes */
#define SHORT 1024                   /* bytes of a row up to which the next receiver's are fetched beforehand */
#define RUN 1024                     /* terms that are added up one after the other; sums of so many are added, then */
#define UNROLLED _Pragma("GCC unroll 16")

/* b_i - t_i a_i in one register of columns, where a sum begins; what is not given is 0. */
static inline __attribute__((always_inline)) VNUM FN(first)(const Sums *s, int64_t i, int64_t c) {
  VNUM sum = {0};
  if (s->b) sum = LOAD((const ROW *)s->b + i * s->bs + c);
  if (s->a && s->ptr[i] < s->ptr[i + 1]) sum -= ((const NUM *)s->t)[i] * LOAD((const ROW *)s->a + i * s->as + c);
  return sum;
}

/* Fetch rows of the senders of edges [from, to), columns [first, last), that are too short for the processor to do so. */
static inline void FN(ahead)(const ROW *x, int64_t xs, const int64_t *sender, int64_t from, int64_t to, int64_t first,
                             int64_t last) {
  if ((last - first) * (int64_t)sizeof(ROW) > SHORT) return;
  for (int64_t e = from; e < to; e++)
    for (int64_t c = first; c < last; c += 64 / (int64_t)sizeof(ROW)) __builtin_prefetch(x + sender[e] * xs + c);
}

/* y_i = b_i - t_i a_i + sum over e of w_e x_sender(e), in columns [from, to) of receivers [first, last). */
static void FN(rows)(const Sums *s, int64_t first, int64_t last, int64_t from, int64_t to) {
  const ROW *x = s->x;
  const NUM *w = s->w;
  for (int64_t i = first; i < last; i++) {
    ROW *y = (ROW *)s->y + i * s->ys;
    const int64_t start = s->ptr[i], stop = s->ptr[i + 1];
    if (i + 1 < last) FN(ahead)(x, s->xs, s->sender, stop, s->ptr[i + 2], from, to);
    int64_t c = from;
    for (; c + WIDTH * LANES <= to; c += WIDTH * LANES) {
      VNUM sum[WIDTH];
      UNROLLED for (int n = 0; n < WIDTH; n++) sum[n] = FN(first)(s, i, c + n * LANES);
      for (int64_t e = start; e < stop;) {
        const int64_t end = e + RUN < stop ? e + RUN : stop;
        VNUM before[WIDTH] = {{0}};
        if (e > start) UNROLLED for (int n = 0; n < WIDTH; n++) before[n] = sum[n], sum[n] = (VNUM){0};
        for (; e < end; e++) {
          const ROW *row = x + s->sender[e] * s->xs + c;
          const NUM k = w[e];
          UNROLLED for (int n = 0; n < WIDTH; n++) sum[n] += k * LOAD(row + n * LANES);
        }
        UNROLLED for (int n = 0; n < WIDTH; n++) sum[n] += before[n];
      }
      UNROLLED for (int n = 0; n < WIDTH; n++) STORE(y + c + n * LANES, sum[n]);
    }
    for (; c + LANES <= to; c += LANES) {
      VNUM sum = FN(first)(s, i, c);
      for (int64_t e = start; e < stop;) {
        const int64_t end = e + RUN < stop ? e + RUN : stop;
        VNUM before = {0};
        if (e > start) before = sum, sum = (VNUM){0};
        for (; e < end; e++) sum += w[e] * LOAD(x + s->sender[e] * s->xs + c);
        sum += before;
      }
      STORE(y + c, sum);
    }
    for (; c < to; c++) {
      NUM sum = s->b ? GET((const ROW *)s->b + i * s->bs + c) : 0;
      if (s->a && start < stop) sum -= ((const NUM *)s->t)[i] * GET((const ROW *)s->a + i * s->as + c);
      for (int64_t e = start; e < stop;) {
        const int64_t end = e + RUN < stop ? e + RUN : stop;
        const NUM before = e > start ? sum : 0;
        if (e > start) sum = 0;
        for (; e < end; e++) sum += w[e] * GET(x + s->sender[e] * s->xs + c);
        sum += before;
      }
      PUT(y + c, sum);
    }
  }
}

/* The same for TALL receivers from i on and BROAD registers of columns from c on, whose sums take every row that is
 * read. Pairs without an edge have weight 0; where a sum is not finite, which may be for 0 times infinity, nothing is
 * written and 0 is returned. */
static int FN(tile)(const Sums *s, int64_t i, int64_t c) {
  const ROW *x = (const ROW *)s->x + c;
  const NUM *k = (const NUM *)s->dense + i * s->senders;
  VNUM sum[TALL][BROAD], lost = {0};
  UNROLLED for (int r = 0; r < TALL; r++)
    UNROLLED for (int n = 0; n < BROAD; n++) sum[r][n] = FN(first)(s, i + r, c + n * LANES);
  for (int64_t j = 0; j < s->senders;) {
    const int64_t end = j + RUN < s->senders ? j + RUN : s->senders;
    VNUM before[TALL][BROAD] = {{{0}}};
    if (j > 0) {
      memcpy(before, sum, sizeof(sum));
      memset(sum, 0, sizeof(sum));
    }
    for (; j < end; j++, x += s->xs, k += TALL) {
      VNUM heard[BROAD];
      UNROLLED for (int n = 0; n < BROAD; n++) heard[n] = LOAD(x + n * LANES);
      UNROLLED for (int r = 0; r < TALL; r++)
        UNROLLED for (int n = 0; n < BROAD; n++) sum[r][n] += k[r] * heard[n];
    }
    UNROLLED for (int r = 0; r < TALL; r++)
      UNROLLED for (int n = 0; n < BROAD; n++) sum[r][n] += before[r][n];
  }
  UNROLLED for (int r = 0; r < TALL; r++)
    UNROLLED for (int n = 0; n < BROAD; n++) lost += sum[r][n] - sum[r][n];
  for (int64_t n = 0; n < LANES; n++)
    if (lost[n] != 0) return 0;
  UNROLLED for (int r = 0; r < TALL; r++)
    UNROLLED for (int n = 0; n < BROAD; n++) STORE((ROW *)s->y + (i + r) * s->ys + c + n * LANES, sum[r][n]);
  return 1;
}

/* Fetch into the second cache the columns from c on that a tile reads and writes, and its share of the senders'. The
 * first one is full of those that tiles are made of now. */
static inline __attribute__((always_inline)) void FN(fetch)(const Sums *s, int64_t n, int64_t tiles, int64_t c) {
  const int64_t end = c + STRIP < s->to ? c + STRIP : s->to;
  for (int64_t k = c; k < end; k += 64 / (int64_t)sizeof(ROW)) {
    for (int64_t j = n * s->senders / tiles; j < (n + 1) * s->senders / tiles; j++)
      __builtin_prefetch((const ROW *)s->x + j * s->xs + k, 0, 2);
    for (int64_t i = n * TALL; i < (n + 1) * TALL; i++) {
      if (s->b) __builtin_prefetch((const ROW *)s->b + i * s->bs + k, 0, 2);
      __builtin_prefetch((ROW *)s->y + i * s->ys + k, 0, 2);
    }
  }
}

/* The same for all receivers, in tiles as far as they go, if dense weights are given: all tiles of a strip of columns,
 * while the next strip is fetched. */
static void FN(mix)(const Sums *s) {
  const int64_t tiles = s->dense ? s->count / TALL : 0, whole = (s->to - s->from) / (BROAD * LANES) * (BROAD * LANES);
  for (int64_t from = s->from; tiles && from < s->from + whole; from += STRIP) {
    const int64_t to = from + STRIP < s->from + whole ? from + STRIP : s->from + whole;
    for (int64_t n = 0; n < tiles; n++) {
      FN(fetch)(s, n, tiles, from + STRIP);
      for (int64_t c = from; c < to; c += BROAD * LANES)
        if (!FN(tile)(s, n * TALL, c)) FN(rows)(s, n * TALL, (n + 1) * TALL, c, c + BROAD * LANES);
    }
  }
  FN(rows)(s, 0, tiles * TALL, s->from + (tiles ? whole : 0), s->to);
  FN(rows)(s, tiles * TALL, s->count, s->from, s->to);
}

/* out_e += <a_i, b_sender(e)> of columns [from, to): 64 sums, whatever the instructions, added up one after the other. */
static void FN(dot)(const void *receivers, int64_t as, const void *senders, int64_t bs, const int64_t *ptr,
                    const int64_t *sender, int64_t count, double *out, int64_t from, int64_t to) {
  for (int64_t i = 0; i < count; i++) {
    const ROW *a = (const ROW *)receivers + i * as;
    if (i + 1 < count) FN(ahead)(senders, bs, sender, ptr[i + 1], ptr[i + 2], from, to);
    for (int64_t e = ptr[i]; e < ptr[i + 1]; e++) {
      const ROW *b = (const ROW *)senders + sender[e] * bs;
      VNUM sum[PARTS] = {{0}};
      int64_t c = from;
      for (; c + PARTS * LANES <= to; c += PARTS * LANES)
        UNROLLED for (int n = 0; n < PARTS; n++) sum[n] += LOAD(a + c + n * LANES) * LOAD(b + c + n * LANES);
      double total = 0;
      for (int n = 0; n < PARTS; n++)
        for (int k = 0; k < LANES; k++) total += (double)sum[n][k];
      NUM rest = 0;
      for (; c < to; c++) rest += GET(a + c) * GET(b + c);
      out[e] += total + (double)rest;
    }
  }
}

#undef LANES
#undef WIDTH
#undef TALL
#undef BROAD
#undef PARTS
#undef STRIP
#undef RUN
#undef SHORT
#undef UNROLLED
