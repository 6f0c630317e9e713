/* Max pooling over 2 x 2 pixels with stride 2 of images [n, height, width, channels], and its gradient.
 *
 * PyTorch's kernels keep a place of 8 bytes for every maximum, and go through the channels of a gradient one by one.
 * Here a place is a byte, 0 to 3, and loops over channels are such that the compiler vectorises them. The maximum is the
 * first of equal ones, or the last NaN, as there. Whoever calls the functions has checked sizes and addresses.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define BEST __attribute__((target_clones("arch=skylake-avx512", "avx2", "default")))
#else
#define BEST
#endif

static inline float single(float number) { return number; }

static inline float bfloat16(uint16_t number) { /* the upper half of a float */
  const uint32_t bits = (uint32_t)number << 16;
  float wide;
  memcpy(&wide, &bits, 4);
  return wide;
}

#define POOL(NUM, wide)                                                                                               \
  BEST static void largest_##wide(const NUM *restrict x, NUM *restrict y, uint8_t *restrict place, int64_t images,    \
                                  int64_t height, int64_t width, int64_t channels) {                                  \
    const int64_t line = width * channels;                                                                            \
    for (int64_t i = 0; i < images; i++)                                                                              \
      for (int64_t row = 0; row < height / 2; row++) {                                                                \
        const NUM *p = x + (i * height + 2 * row) * line;                                                             \
        for (int64_t column = 0; column < width / 2; column++) {                                                      \
          for (int64_t c = 0; c < channels; c++) {                                                                    \
            const NUM others[3] = {p[c + channels], p[c + line], p[c + line + channels]};                             \
            NUM best = p[c];                                                                                          \
            uint8_t where = 0;                                                                                        \
            for (int other = 0; other < 3; other++) {                                                                 \
              const float value = wide(others[other]);                                                                \
              const int larger = (value > wide(best)) | (value != value);                                             \
              best = larger ? others[other] : best;                                                                   \
              where = larger ? other + 1 : where;                                                                     \
            }                                                                                                         \
            y[c] = best;                                                                                              \
            place[c] = where;                                                                                         \
          }                                                                                                           \
          p += 2 * channels, y += channels, place += channels;                                                        \
        }                                                                                                             \
      }                                                                                                               \
  }                                                                                                                   \
                                                                                                                      \
  BEST static void spread_##wide(const NUM *restrict g, const uint8_t *restrict place, NUM *restrict out,             \
                                 int64_t images, int64_t height, int64_t width, int64_t channels) {                   \
    const int64_t line = width * channels;                                                                            \
    for (int64_t i = 0; i < images; i++) {                                                                            \
      for (int64_t row = 0; row < height / 2; row++) {                                                                \
        NUM *p = out + (i * height + 2 * row) * line;                                                                 \
        for (int64_t column = 0; column < width / 2; column++) {                                                      \
          NUM *restrict const p0 = p, *restrict const p1 = p + channels;                                              \
          NUM *restrict const p2 = p + line, *restrict const p3 = p + line + channels;                                \
          _Pragma("GCC ivdep") for (int64_t c = 0; c < channels; c++) {                                               \
            const NUM value = g[c];                                                                                   \
            const uint8_t where = place[c];                                                                           \
            p0[c] = where == 0 ? value : 0;                                                                           \
            p1[c] = where == 1 ? value : 0;                                                                           \
            p2[c] = where == 2 ? value : 0;                                                                           \
            p3[c] = where == 3 ? value : 0;                                                                           \
          }                                                                                                           \
          p += 2 * channels, g += channels, place += channels;                                                        \
        }                                                                                                             \
        if (width % 2) {                                                                                              \
          memset(p, 0, channels * sizeof(NUM));                                                                       \
          memset(p + line, 0, channels * sizeof(NUM));                                                                \
        }                                                                                                             \
      }                                                                                                               \
      if (height % 2) memset(out + ((i + 1) * height - 1) * line, 0, line * sizeof(NUM));                             \
    }                                                                                                                 \
  }

POOL(float, single)
POOL(uint16_t, bfloat16)

#define AT(type, address) ((type *)(intptr_t)(address))

static PyObject *largest(PyObject *self, PyObject *args) {
  int half;
  long long x, y, place, images, height, width, channels;
  if (!PyArg_ParseTuple(args, "pLLLLLLL", &half, &x, &y, &place, &images, &height, &width, &channels)) return NULL;
  Py_BEGIN_ALLOW_THREADS;
  if (half)
    largest_bfloat16(AT(uint16_t, x), AT(uint16_t, y), AT(uint8_t, place), images, height, width, channels);
  else
    largest_single(AT(float, x), AT(float, y), AT(uint8_t, place), images, height, width, channels);
  Py_END_ALLOW_THREADS;
  Py_RETURN_NONE;
}

static PyObject *spread(PyObject *self, PyObject *args) {
  int half;
  long long g, place, out, images, height, width, channels;
  if (!PyArg_ParseTuple(args, "pLLLLLLL", &half, &g, &place, &out, &images, &height, &width, &channels)) return NULL;
  Py_BEGIN_ALLOW_THREADS;
  if (half)
    spread_bfloat16(AT(uint16_t, g), AT(uint8_t, place), AT(uint16_t, out), images, height, width, channels);
  else
    spread_single(AT(float, g), AT(uint8_t, place), AT(float, out), images, height, width, channels);
  Py_END_ALLOW_THREADS;
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"largest", largest, METH_VARARGS, "Write the maxima of windows, and their places in them."},
    {"spread", spread, METH_VARARGS, "Write the gradients of maxima where these are, and 0 elsewhere."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_pool", NULL, 0, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__pool(void) { return PyModule_Create(&module); }
