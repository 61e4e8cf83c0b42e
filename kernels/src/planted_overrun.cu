// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

// The fault that shares a kernel with one of the planted image.

#include "device/fault_policy.cuh"

#define PERMAFROST_FAULTS PlantedOverrun
#include "device/faultable_entries.cuh"
