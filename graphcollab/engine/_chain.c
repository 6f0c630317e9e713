/* Local steps of chains of linear layers: all steps of a row one after the other, so that its weights stay in the cache,
 * and every step of descent as soon as its gradient is there, which is nowhere written.
 *
 * The functions know nothing of tensors: they are given addresses and sizes, which whoever calls them has checked, and
 * may be called in several threads at a time for different rows. A row's numbers do not depend on other rows, on threads,
 * or on whether AVX2 or AVX-512 computes them: inner products are kept in as many sums, in the same order.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define IGNORED (-100) /* the label that PyTorch's cross-entropy leaves out */
#define MOST_LAYERS 64

/* Where a layer's weight [out, in] and bias [out] lie in a row, the bias at -1 where there is none, and where the outputs
 * of its samples [n, out] lie in the working memory; all counted in numbers. */
typedef struct {
  int64_t weight, bias, in, out, relu, at;
} Layer;

/* Models of `rows` rows, `apart` numbers from each other, and their batches: `steps` of up to `width` samples, at
 * [rows, steps, width] of the pool. Losses are [steps, rows]. */
typedef struct {
  void *models;
  int64_t apart, rows;
  const void *inputs;
  const int64_t *labels, *index, *sizes;
  int64_t steps, width;
  void *losses;
  double lr, decay;
  int64_t layers, pointers, slopes[2]; /* of the working memory: pointers, then numbers */
  Layer layer[MOST_LAYERS];
} Work;

typedef struct {
  void (*fit)(const Work *work, int64_t row, char *memory, int *wrong);
} Kernels;

#define KERNELS "../../engine/_chain_set.h" /* as seen from there */
#include "../nn/functional/_sets.h"

/* fit(instructions, kind, models, apart, rows, inputs, labels, index, sizes, steps, width, losses, lr, decay, layers,
 * first, last): addresses and sizes as in Work; `layers` is bytes of [L, 5] whole numbers, those of Layer but for `at`.
 * Returns whether all labels were classes. */
static PyObject *fit(PyObject *self, PyObject *args) {
  const char *set;
  const char *told;
  Py_ssize_t bytes;
  int kind, wrong = 0;
  long long models, apart, rows, inputs, labels, index, sizes, steps, width, losses, first, last;
  double lr, decay;
  if (!PyArg_ParseTuple(args, "siLLLLLLLLLLddy#LL", &set, &kind, &models, &apart, &rows, &inputs, &labels, &index, &sizes,
                        &steps, &width, &losses, &lr, &decay, &told, &bytes, &first, &last))
    return NULL;
  const Kernels *kernels = find(set, kind, 2);
  if (!kernels) return NULL;
  Work work = {.models = AT(void, models), .apart = apart, .rows = rows, .inputs = AT(void, inputs),
               .labels = AT(int64_t, labels), .index = AT(int64_t, index), .sizes = AT(int64_t, sizes), .steps = steps,
               .width = width, .losses = AT(void, losses), .lr = lr, .decay = decay,
               .layers = bytes / (5 * (Py_ssize_t)sizeof(int64_t)), .pointers = width};
  if (work.layers < 1 || work.layers > MOST_LAYERS)
    return PyErr_Format(PyExc_ValueError, "expected 1 to %d layers, got %lld", MOST_LAYERS, (long long)work.layers);
  int64_t numbers = 0, widest = 0;
  for (int64_t l = 0; l < work.layers; l++) {
    Layer *layer = work.layer + l;
    memcpy(layer, told + l * 5 * sizeof(int64_t), 5 * sizeof(int64_t));
    layer->at = numbers;
    numbers += width * layer->out;
    if (layer->out > work.pointers) work.pointers = layer->out;
    if (l && layer->in > widest) widest = layer->in;
  }
  for (int n = 0; n < 2; n++) work.slopes[n] = numbers + n * width * widest;
  numbers += 2 * width * widest;
  char *memory = PyMem_Malloc(work.pointers * sizeof(void *) + numbers * (kind ? sizeof(double) : sizeof(float)));
  if (!memory) return PyErr_NoMemory();
  Py_BEGIN_ALLOW_THREADS;
  for (int64_t row = first; row < last && !wrong; row++) kernels->fit(&work, row, memory, &wrong);
  Py_END_ALLOW_THREADS;
  PyMem_Free(memory);
  return PyBool_FromLong(!wrong);
}

static PyMethodDef functions[] = {
    {"instructions", instructions, METH_NOARGS, "Return the sets of instructions that this machine has, best last."},
    {"fit", fit, METH_VARARGS, "Take all local steps of some rows."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_chain", NULL, 0, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__chain(void) { return PyModule_Create(&module); }
