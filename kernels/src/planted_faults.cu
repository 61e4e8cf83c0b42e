// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

// The planted image: the entry points that have a fault, with the fault in.

#include "device/fault_policy.cuh"

#define PERMAFROST_FAULTS PlantedFaults
#include "device/faultable_entries.cuh"
