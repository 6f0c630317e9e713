/* Included once for each set of instructions and each kind of number, which the including file names by macros:
 *
 *   FN(name)   the name of a function of both
 *   NUM        a number
 *   VNUM       a register of these
 *   HALF, QUARTER   32 and 16 bytes of them
 *   EXP, LOG   the functions of such numbers
 */

#define LANES ((int64_t)(sizeof(VNUM) / sizeof(NUM)))
#define WIDE ((int64_t)(64 / sizeof(NUM))) /* sums that an inner product is kept in, whatever the instructions */
#define REGS (64 / VEC)                    /* registers that these take */
#define MANY (VEC == 64 ? 5 : VEC == 32 ? 2 : 1) /* samples whose outputs are computed at a time, */
#define TALL (VEC == 64 ? 4 : 2)                 /* and outputs of each */
#define BROAD (VEC == 64 ? 4 : VEC == 32 ? 4 : 2) /* registers of columns in which TALL rows are summed at a time */
#define UNROLLED _Pragma("GCC unroll 16")
#define ALWAYS static inline __attribute__((always_inline))
#define AS(p) (*(VNUM *)(p))
#define SEEN(p) (*(const VNUM *)(p))

/* Products of a block: `many` samples with `tall` rows of weights, y = b + <x, w>. */
ALWAYS void FN(block)(const NUM *const *x, const NUM *w, int64_t ws, const NUM *b, NUM *y, int64_t ys, int64_t in,
                      const int many, const int tall) {
  VNUM sum[MANY][TALL][REGS] = {{{{0}}}};
  int64_t k = 0;
  for (; k + WIDE <= in; k += WIDE) {
    UNROLLED for (int n = 0; n < REGS; n++) {
      VNUM row[TALL];
      UNROLLED for (int o = 0; o < tall; o++) row[o] = SEEN(w + o * ws + k + n * LANES);
      UNROLLED for (int s = 0; s < many; s++) {
        const VNUM one = SEEN(x[s] + k + n * LANES);
        UNROLLED for (int o = 0; o < tall; o++) sum[s][o][n] += one * row[o];
      }
    }
  }
  NUM last[TALL][64 / sizeof(NUM)];
  for (int o = 0; k < in && o < tall; o++) {
    memset(last[o], 0, 64);
    memcpy(last[o], w + o * ws + k, (in - k) * sizeof(NUM));
  }
  for (int s = 0; s < many; s++) {
    NUM one[64 / sizeof(NUM)] = {0};
    if (k < in) memcpy(one, x[s] + k, (in - k) * sizeof(NUM));
    for (int o = 0; o < tall; o++) {
      union {
        NUM one[64 / sizeof(NUM)];
        HALF half[2];
        QUARTER quarter[4];
      } part;
      UNROLLED for (int n = 0; n < REGS; n++) AS(part.one + n * LANES) = sum[s][o][n];
      if (k < in)
        UNROLLED for (int n = 0; n < REGS; n++)
          AS(part.one + n * LANES) += SEEN(one + n * LANES) * SEEN(last[o] + n * LANES);
      part.half[0] += part.half[1];
      part.quarter[0] += part.quarter[1];
      UNROLLED for (int half = 8 / sizeof(NUM); half; half /= 2)
        UNROLLED for (int n = 0; n < half; n++) part.one[n] += part.one[n + half];
      y[s * ys + o] = part.one[0] + (b ? b[o] : 0);
    }
  }
}

ALWAYS void FN(outputs_of)(const NUM *const *x, const NUM *w, const NUM *b, NUM *y, int64_t in, int64_t out,
                           const int many) {
  int64_t o = 0;
  for (; o + TALL <= out; o += TALL) FN(block)(x, w + o * in, in, b ? b + o : b, y + o, out, in, many, TALL);
  for (; o < out; o++) FN(block)(x, w + o * in, in, b ? b + o : b, y + o, out, in, many, 1);
}

/* y = x Wᵀ + b of n samples. */
static void FN(forward)(const NUM *const *x, const NUM *w, const NUM *b, NUM *y, int64_t n, int64_t in, int64_t out) {
  int64_t s = 0;
  for (; s + MANY <= n; s += MANY) FN(outputs_of)(x + s, w, b, y + s * out, in, out, MANY);
  for (; s < n; s++) FN(outputs_of)(x + s, w, b, y + s * out, in, out, 1);
}

/* Sums over j of a[j, i] times row j of b, in columns [from, from + broad registers) of `tall` rows i; with `step` they
 * are gradients, and c - lr (sum + decay c) takes the place of c. */
ALWAYS void FN(tile)(const NUM *a, int64_t ai, int64_t aj, const NUM *const *b, NUM *c, int64_t cs, int64_t count,
                     int64_t from, const NUM *step, const int tall, const int broad) {
  VNUM sum[TALL][BROAD];
  UNROLLED for (int i = 0; i < tall; i++)
    UNROLLED for (int n = 0; n < broad; n++)
      sum[i][n] = step && step[1] != 0 ? step[1] * SEEN(c + i * cs + from + n * LANES) : (VNUM){0};
  for (int64_t j = 0; j < count; j++) {
    VNUM row[BROAD];
    UNROLLED for (int n = 0; n < broad; n++) row[n] = SEEN(b[j] + from + n * LANES);
    UNROLLED for (int i = 0; i < tall; i++) {
      const NUM k = a[i * ai + j * aj];
      UNROLLED for (int n = 0; n < broad; n++) sum[i][n] += k * row[n];
    }
  }
  UNROLLED for (int i = 0; i < tall; i++)
    UNROLLED for (int n = 0; n < broad; n++) {
      NUM *p = c + i * cs + from + n * LANES;
      AS(p) = step ? SEEN(p) - step[0] * sum[i][n] : sum[i][n];
    }
}

ALWAYS void FN(rows_of)(const NUM *a, int64_t ai, int64_t aj, const NUM *const *b, NUM *c, int64_t count, int64_t columns,
                        const NUM *step, const int tall) {
  int64_t k = 0;
  for (; k + BROAD * LANES <= columns; k += BROAD * LANES)
    FN(tile)(a, ai, aj, b, c, columns, count, k, step, tall, BROAD);
  for (; k + 2 * LANES <= columns; k += 2 * LANES) FN(tile)(a, ai, aj, b, c, columns, count, k, step, tall, 2);
  for (; k + LANES <= columns; k += LANES) FN(tile)(a, ai, aj, b, c, columns, count, k, step, tall, 1);
  for (; k < columns; k++)
    for (int i = 0; i < tall; i++) {
      NUM *p = c + i * columns + k, sum = step && step[1] != 0 ? step[1] * *p : 0;
      for (int64_t j = 0; j < count; j++) sum += a[i * ai + j * aj] * b[j][k];
      *p = step ? *p - step[0] * sum : sum;
    }
}

/* c[i, :] = sum over j of a[i ai + j aj] b[j][:], or with `step` (lr, decay) a step of descent by it. */
static void FN(combine)(const NUM *a, int64_t ai, int64_t aj, const NUM *const *b, NUM *c, int64_t rows, int64_t count,
                        int64_t columns, const NUM *step) {
  int64_t i = 0;
  for (; i + TALL <= rows; i += TALL) FN(rows_of)(a + i * ai, ai, aj, b, c + i * columns, count, columns, step, TALL);
  for (; i < rows; i++) FN(rows_of)(a + i * ai, ai, aj, b, c + i * columns, count, columns, step, 1);
}

/* The cross-entropy of n samples, averaged; logits become their gradients. A label of IGNORED counts as 0; NaN is
 * returned, and 1 written to `wrong`, where there is no class of that number. */
static NUM FN(judge)(NUM *logits, const int64_t *labels, const int64_t *at, int64_t n, int64_t classes, int *wrong) {
  NUM total = 0;
  for (int64_t s = 0; s < n; s++) {
    NUM *z = logits + s * classes, most = z[0], sum = 0;
    const int64_t label = labels[at[s]];
    if (label == IGNORED) {
      memset(z, 0, classes * sizeof(NUM));
      continue;
    }
    if (label < 0 || label >= classes) return *wrong = 1, (NUM)NAN;
    for (int64_t c = 1; c < classes; c++) most = z[c] > most ? z[c] : most;
    const NUM own = z[label] - most;
    for (int64_t c = 0; c < classes; c++) sum += z[c] = EXP(z[c] - most);
    total += LOG(sum) - own;
    for (int64_t c = 0; c < classes; c++) z[c] = (z[c] / sum - (c == label)) / n;
  }
  return total / n;
}

/* Numbers become 0 where those in `by` are not above it; NaN there changes nothing. */
static void FN(cut)(NUM *y, const NUM *by, int64_t count) {
  int64_t k = 0;
  for (; k + LANES <= count; k += LANES) {
    const VNUM own = SEEN(by + k), old = SEEN(y + k);
    const __typeof__(own <= 0) below = own <= 0;
    AS(y + k) = (VNUM)((__typeof__(own <= 0))old & ~below);
  }
  for (; k < count; k++) y[k] = by[k] <= 0 ? 0 : y[k];
}

/* What a layer is given of n samples: those at some places of the pool, or what the layer before returned. */
ALWAYS void FN(see)(const Work *w, int64_t l, NUM *values, const int64_t *at, int64_t n, const NUM **seen) {
  const int64_t in = w->layer[l].in;
  for (int64_t m = 0; m < n; m++)
    seen[m] = l ? values + w->layer[l - 1].at + m * in : (const NUM *)w->inputs + at[m] * in;
}

/* All local steps of a row, in place; 1 is written to `wrong` where a label is no class. */
static void FN(fit)(const Work *w, int64_t row, char *memory, int *wrong) {
  NUM *theta = (NUM *)w->models + row * w->apart, *values = (NUM *)(memory + w->pointers * sizeof(NUM *));
  const NUM step[2] = {(NUM)w->lr, (NUM)w->decay}, **seen = (const NUM **)memory;
  const Layer *end = w->layer + w->layers - 1;
  for (int64_t s = 0; s < w->steps; s++) {
    const int64_t n = w->sizes[row * w->steps + s], *at = w->index + (row * w->steps + s) * w->width;
    if (!n) continue;
    for (int64_t l = 0; l < w->layers; l++) {
      const Layer *layer = w->layer + l;
      NUM *y = values + layer->at;
      FN(see)(w, l, values, at, n, seen);
      FN(forward)(seen, theta + layer->weight, layer->bias < 0 ? NULL : theta + layer->bias, y, n, layer->in, layer->out);
      if (layer->relu) FN(cut)(y, y, n * layer->out);
    }
    NUM *slope = values + end->at;
    ((NUM *)w->losses)[s * w->rows + row] = FN(judge)(slope, w->labels, at, n, end->out, wrong);
    if (*wrong) return;
    for (int64_t l = w->layers - 1; l >= 0; l--) {
      const Layer *layer = w->layer + l;
      NUM *weight = theta + layer->weight, *below = values + w->slopes[l % 2];
      if (l) {
        const NUM *h = values + layer[-1].at;
        for (int64_t o = 0; o < layer->out; o++) seen[o] = weight + o * layer->in;
        FN(combine)(slope, layer->out, 1, seen, below, n, layer->out, layer->in, NULL);
        if (layer[-1].relu) FN(cut)(below, h, n * layer->in);
      }
      FN(see)(w, l, values, at, n, seen);
      FN(combine)(slope, 1, layer->out, seen, weight, layer->out, n, layer->in, step);
      for (int64_t o = 0; layer->bias >= 0 && o < layer->out; o++) {
        NUM *b = theta + layer->bias + o, sum = step[1] != 0 ? step[1] * *b : 0;
        for (int64_t m = 0; m < n; m++) sum += slope[m * layer->out + o];
        *b -= step[0] * sum;
      }
      slope = below;
    }
  }
}

#undef LANES
#undef WIDE
#undef REGS
#undef MANY
#undef TALL
#undef BROAD
#undef UNROLLED
#undef ALWAYS
#undef AS
#undef SEEN
