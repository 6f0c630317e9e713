/* Sums over edges of rows of models: what a receiver's row becomes is summed in registers, a block of columns at a time,
 * so every row is read from memory once.
 *
 * The functions know nothing of tensors: they are given addresses, strides in numbers, and the columns and receivers to
 * do. Whoever calls them has checked all that, and may call them in several threads at a time. The order of a sum is
 * that of its edges, so neither threads nor blocks of columns, nor AVX2 or AVX-512, change a digit. For that the compiler
 * must fuse every product with the addition that follows it, and must not vectorize loops on its own, where it would not:
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

#define KERNELS "_rows_set.h"
#include "_sets.h"

static PyObject *mix(PyObject *self, PyObject *args) {
  const char *set;
  int kind;
  long long x, xs, b, bs, a, as, t, w, ptr, sender, count, dense, senders, y, ys, from, to;
  if (!PyArg_ParseTuple(args, "siLLLLLLLLLLLLLLLLL", &set, &kind, &x, &xs, &b, &bs, &a, &as, &t, &w, &ptr, &sender,
                        &count, &dense, &senders, &y, &ys, &from, &to))
    return NULL;
  const Kernels *kernels = find(set, kind, 3);
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
  const Kernels *kernels = find(set, kind, 3);
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
