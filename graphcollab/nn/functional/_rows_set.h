/* Included once for each set of instructions, which SET(name) adds to a function's name, with registers of VEC bytes. */

typedef float SET(floats) __attribute__((vector_size(VEC), aligned(4)));
typedef double SET(doubles) __attribute__((vector_size(VEC), aligned(8)));
typedef uint32_t SET(words) __attribute__((vector_size(VEC), aligned(4)));
typedef uint16_t SET(halves) __attribute__((vector_size(VEC / 2), aligned(2)));

static inline __attribute__((always_inline)) SET(floats) SET(wide)(const uint16_t *p) {
  return (SET(floats))(__builtin_convertvector(*(const SET(halves) *)p, SET(words)) << 16);
}

/* bfloat16 are the upper halves of floats, rounded to the nearest, ties to even; NaN stays one. */
static inline __attribute__((always_inline)) void SET(narrow)(uint16_t *p, SET(floats) a) {
  const SET(words) u = (SET(words))a, odd = (u >> 16) & 1, nan = (SET(words))(a != a);
  const SET(words) rounded = (u + 0x7fff + odd) >> 16;
  *(SET(halves) *)p = __builtin_convertvector((rounded & ~nan) | (nan & 0x7fc0), SET(halves));
}

#define FN(name) SET(name##_float)
#define ROW float
#define NUM float
#define VNUM SET(floats)
#define LOAD(p) (*(const VNUM *)(p))
#define STORE(p, v) (*(VNUM *)(p) = (v))
#define GET(p) (*(p))
#define PUT(p, a) (*(p) = (a))
#include "_rows_kind.h"
#undef FN
#undef ROW
#undef NUM
#undef VNUM

#define FN(name) SET(name##_double)
#define ROW double
#define NUM double
#define VNUM SET(doubles)
#include "_rows_kind.h"
#undef FN
#undef ROW
#undef NUM
#undef VNUM
#undef LOAD
#undef STORE
#undef GET
#undef PUT

#define FN(name) SET(name##_bfloat16)
#define ROW uint16_t
#define NUM float
#define VNUM SET(floats)
#define LOAD(p) SET(wide)(p)
#define STORE(p, v) SET(narrow)(p, v)
#define GET(p) widen(*(p))
#define PUT(p, a) (*(p) = narrow(a))
#include "_rows_kind.h"
#undef FN
#undef ROW
#undef NUM
#undef VNUM
#undef LOAD
#undef STORE
#undef GET
#undef PUT

static const Kernels SET(kernels)[] = {
    {SET(mix_float), SET(dot_float)},
    {SET(mix_double), SET(dot_double)},
    {SET(mix_bfloat16), SET(dot_bfloat16)},
};
