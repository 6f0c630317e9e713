/* Sets of vector instructions: includes the file KERNELS names once for each, which SET(name) adds to a function's name,
 * with registers of VEC bytes, and says which of them this machine has. */

#define SET(name) plain_##name
#define VEC 16
#include KERNELS
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
#include KERNELS
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
#include KERNELS
#undef SET
#undef VEC
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

static const struct {
  const char *name;
  const Kernels *kernels; /* by kind of number */
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

static const Kernels *find(const char *name, int kind, int kinds) {
  for (int set = 0; set < (int)(sizeof(sets) / sizeof(*sets)); set++)
    if (!strcmp(sets[set].name, name) && known(set) && kind >= 0 && kind < kinds) return sets[set].kernels + kind;
  PyErr_SetString(PyExc_ValueError, "unknown instructions, or kind of numbers");
  return NULL;
}

#define AT(type, address) ((type *)(intptr_t)(address))
