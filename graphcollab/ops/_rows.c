/* Sums over edges of rows of models: what a receiver's row becomes is summed in registers, a block of columns at a time,
 * so every row is read from memory once.
 *
 * The functions know nothing of tensors: they are given addresses, strides in numbers, and the columns and receivers to
 * do. Whoever calls them has checked all that, and may call them in several threads at a time. The order of a sum is
 * that of its edges, so neither threads nor blocks of columns, nor AVX2 or AVX-512, change a digit. For that the compiler
 * must fuse every product with the addition that follows it, and must not vectorise loops on its own, where it would not:
 * pyproject.toml says so.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* What `mix` is given: y_i = b_i - t_i a_i + sum over edges e of w_e x_sender(e), in columns [from, to) of `count`
 * receivers, i's edges being [ptr[i], ptr[i + 1]). Rows are so many numbers apart as the name with an s says; t_i are
 * sums of weights. Without b or a these are 0. Where `dense` is given, it has the weights of all pairs with each of
 * `senders`, four receivers side by side. */
typedef struct {
  const void *x;
  int64_t xs;
  const void *b;
  int64_t bs;
  const void *a;
  int64_t as;
  const void *t, *w;
  const int64_t *ptr, *sender;
  int64_t count;
  const void *dense;
  int64_t senders;
  void *y;
  int64_t ys, from, to;
} Sums;

typedef void Mix(const Sums *sums);
typedef void Dot(const void *a, int64_t as, const void *b, int64_t bs, const int64_t *ptr, const int64_t *sender,
                 int64_t count, double *out, int64_t from, int64_t to);
typedef struct {
  Mix *mix;
  Dot *dot;
} Kernels;

static inline float widen(uint16_t number) {
  const uint32_t bits = (uint32_t)number << 16;
  float wide;
  memcpy(&wide, &bits, 4);
  return wide;
}

static inline uint16_t narrow(float number) {
  uint32_t bits;
  memcpy(&bits, &number, 4);
  return number != number ? 0x7fc0 : (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

#define SET(name) plain_##name
#define VEC 16
#include "_rows_set.h"
#undef SET
#undef VEC

#if defined(__x86_64__) && defined(__GNUC__)
#define X86 1
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
#define SET(name) avx2_##name
#define VEC 32
#include "_rows_set.h"
#undef SET
#undef VEC
#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,fma"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,fma,prefer-vector-width=512")
#endif
#define SET(name) avx512_##name
#define VEC 64
#include "_rows_set.h"
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

static const struct {
  const char *name;
  const Kernels *kernels;
} sets[] = {
    {"plain", plain_kernels},
#ifdef X86
    {"avx2", avx2_kernels},
    {"avx512", avx512_kernels},
#endif
};

static int known(int set) {
#ifdef X86
  __builtin_cpu_init();
  if (set == 1) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (set == 2) return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
#endif
  return set == 0;
}

static PyObject *instructions(PyObject *self, PyObject *none) {
  PyObject *names = PyList_New(0);
  for (int set = 0; names && set < (int)(sizeof(sets) / sizeof(*sets)); set++) {
    if (!known(set)) continue;
    PyObject *name = PyUnicode_FromString(sets[set].name);
    if (!name || PyList_Append(names, name)) Py_CLEAR(names);
    Py_XDECREF(name);
  }
  return names;
}

static const Kernels *find(const char *name, int kind) {
  for (int set = 0; set < (int)(sizeof(sets) / sizeof(*sets)); set++)
    if (!strcmp(sets[set].name, name) && known(set) && kind >= 0 && kind < 3) return sets[set].kernels + kind;
  PyErr_SetString(PyExc_ValueError, "unknown instructions, or kind of numbers");
  return NULL;
}

#define AT(type, address) ((type *)(intptr_t)(address))

static PyObject *mix(PyObject *self, PyObject *args) {
  const char *set;
  int kind;
  long long x, xs, b, bs, a, as, t, w, ptr, sender, count, dense, senders, y, ys, from, to;
  if (!PyArg_ParseTuple(args, "siLLLLLLLLLLLLLLLLL", &set, &kind, &x, &xs, &b, &bs, &a, &as, &t, &w, &ptr, &sender,
                        &count, &dense, &senders, &y, &ys, &from, &to))
    return NULL;
  const Kernels *kernels = find(set, kind);
  if (!kernels) return NULL;
  const Sums sums = {.x = AT(void, x), .xs = xs, .b = AT(void, b), .bs = bs, .a = AT(void, a), .as = as,
                     .t = AT(void, t), .w = AT(void, w), .ptr = AT(int64_t, ptr), .sender = AT(int64_t, sender),
                     .count = count, .dense = AT(void, dense), .senders = senders,
                     .y = AT(void, y), .ys = ys, .from = from, .to = to};
  Py_BEGIN_ALLOW_THREADS;
  kernels->mix(&sums);
  Py_END_ALLOW_THREADS;
  Py_RETURN_NONE;
}

static PyObject *dot(PyObject *self, PyObject *args) {
  const char *set;
  int kind;
  long long a, as, b, bs, ptr, sender, count, out, from, to;
  if (!PyArg_ParseTuple(args, "siLLLLLLLLLL", &set, &kind, &a, &as, &b, &bs, &ptr, &sender, &count, &out, &from, &to))
    return NULL;
  const Kernels *kernels = find(set, kind);
  if (!kernels) return NULL;
  Py_BEGIN_ALLOW_THREADS;
  kernels->dot(AT(void, a), as, AT(void, b), bs, AT(int64_t, ptr), AT(int64_t, sender), count, AT(double, out), from,
               to);
  Py_END_ALLOW_THREADS;
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"instructions", instructions, METH_NOARGS, "Return the sets of instructions that this machine has, best last."},
    {"mix", mix, METH_VARARGS, "Sum weighted rows of senders into rows of receivers."},
    {"dot", dot, METH_VARARGS, "Add inner products of rows of receivers and senders to those of edges."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_rows", NULL, 0, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__rows(void) { return PyModule_Create(&module); }
