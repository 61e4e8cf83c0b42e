// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_KERNELS_SRC_DEVICE_FAULT_POLICY_CUH_
#define PERMAFROST_KERNELS_SRC_DEVICE_FAULT_POLICY_CUH_

namespace permafrost::kernels::device {

// What the shipped image is built with. The planted image instantiates the same
// bodies with PlantedFaults, so that a checker is tried on the real code with
// one line wrong, never on a copy that could drift.
struct NoFaults {
  static constexpr bool kBuilderSkipsEmptyTotal = false;
  static constexpr bool kConsumerReadsPastTotal = false;
  static constexpr bool kBuilderWritesPastBuffer = false;
};

// The faults that can share an image: each is in kernels of its own.
struct PlantedFaults : NoFaults {
  static constexpr bool kBuilderSkipsEmptyTotal = true;
  static constexpr bool kConsumerReadsPastTotal = true;
};

struct PlantedOverrun : NoFaults {
  static constexpr bool kBuilderWritesPastBuffer = true;
};

inline constexpr unsigned kFullWarp = 0xffffffffU;

}  // namespace permafrost::kernels::device

#endif  // PERMAFROST_KERNELS_SRC_DEVICE_FAULT_POLICY_CUH_
