// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_TESTS_CONTRACT_PROBES_H_
#define PERMAFROST_TESTS_CONTRACT_PROBES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

// What no documentation says of a driver, asked of one.
namespace permafrost::contract {

/// Takes an answer as soon as it is there: a CUresult or another number, -1 for
/// what this machine cannot tell.
using SayAnswer = std::function<void(const char* key, int64_t value)>;

/// The groups of questions. Each wants a process of its own: nobody knows what
/// a driver does with some of them, and one ends its context.
std::vector<std::string> ProbeParts();

/// Asks the questions of a group. False when there is no such group; ends the
/// process with 1 when a call fails that no question is about.
bool AskProbePart(const std::string& name, const SayAnswer& say);

/// The version of the driver and the name of device 0. False when there is no
/// device; ends the process when there is no driver.
bool AskForDevice(int* driver_version, std::string* device_name);

}  // namespace permafrost::contract

#endif  // PERMAFROST_TESTS_CONTRACT_PROBES_H_
