// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// The operations on f32 and f64 that exist with every rounding. They round as
// the host does when they run, so a group that switches the host's rounding is
// compiled with -frounding-math.
#ifndef SOFTCUDA_EXEC_OPS_ARITHMETIC_H_
#define SOFTCUDA_EXEC_OPS_ARITHMETIC_H_

#include "exec/ops/lanes.h"

namespace softcuda::exec::SOFTCUDA_ISA {

struct Add {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a, T b) {
    return a + b;
  }
};
struct Sub {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a, T b) {
    return a - b;
  }
};
struct Mul {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a, T b) {
    return a * b;
  }
};
struct Div {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a, T b) {
    return a / b;
  }
};
struct Fma {
  static SOFTCUDA_INLINE float Do(float a, float b, float c) {
    return __builtin_fmaf(a, b, c);
  }
  static SOFTCUDA_INLINE double Do(double a, double b, double c) {
    return __builtin_fma(a, b, c);
  }
};
struct Sqrt {
  static SOFTCUDA_INLINE float Do(float a) { return __builtin_sqrtf(a); }
  static SOFTCUDA_INLINE double Do(double a) { return __builtin_sqrt(a); }
};
struct Rcp {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a) {
    return T{1} / a;
  }
};

}  // namespace softcuda::exec::SOFTCUDA_ISA

#endif  // SOFTCUDA_EXEC_OPS_ARITHMETIC_H_
