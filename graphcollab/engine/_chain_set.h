/* Included once for each set of instructions, which SET(name) adds to a function's name, with registers of VEC bytes. */

typedef float SET(floats) __attribute__((vector_size(VEC), aligned(4)));
typedef double SET(doubles) __attribute__((vector_size(VEC), aligned(8)));
typedef float SET(floats32) __attribute__((vector_size(32), aligned(4)));
typedef double SET(doubles32) __attribute__((vector_size(32), aligned(8)));
typedef float SET(floats16) __attribute__((vector_size(16), aligned(4)));
typedef double SET(doubles16) __attribute__((vector_size(16), aligned(8)));

#define FN(name) SET(name##_float)
#define NUM float
#define HALF SET(floats32)
#define QUARTER SET(floats16)
#define VNUM SET(floats)
#define EXP expf
#define LOG logf
#include "_chain_kind.h"
#undef FN
#undef NUM
#undef VNUM
#undef HALF
#undef QUARTER
#undef EXP
#undef LOG

#define FN(name) SET(name##_double)
#define NUM double
#define HALF SET(doubles32)
#define QUARTER SET(doubles16)
#define VNUM SET(doubles)
#define EXP exp
#define LOG log
#include "_chain_kind.h"
#undef FN
#undef NUM
#undef VNUM
#undef HALF
#undef QUARTER
#undef EXP
#undef LOG

static const Kernels SET(kernels)[] = {{SET(fit_float)}, {SET(fit_double)}};
