// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/leaks.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "check/report.h"
#include "check/settings.h"
#include "memory/address_space.h"

namespace softcuda::runtime {
namespace {

void ReportLeak(const std::string& what) {
  check::Report report;
  report.check = "leakcheck";
  report.what = what + " is still there when the primary context ends";
  check::Reporter::Get().Add(std::move(report));
}

// In the order in which they were made.
template <typename Objects, typename IsLeak>
void ReportHandles(const char* kind, const Objects& objects,
                   const IsLeak& is_leak) {
  std::vector<uint64_t> leaked;
  for (const auto& [bits, object] : objects) {
    if (is_leak(*object)) leaked.push_back(bits);
  }
  std::sort(leaked.begin(), leaked.end());
  for (const uint64_t bits : leaked) {
    char handle[32];
    std::snprintf(handle, sizeof handle, " 0x%" PRIx64, bits);
    ReportLeak(kind + std::string(handle));
  }
}

}  // namespace

void ReportLeaks(Runtime& runtime, const Device& device) {
  if (!check::Settings::Get().leakcheck()) return;
  const auto any = [&](const auto& object) {
    return object.device == device.ordinal;
  };
  ReportHandles("stream", runtime.streams.objects(), any);
  ReportHandles("event", runtime.events.objects(), any);
  ReportHandles("executable graph", runtime.execs.objects(), any);
  ReportHandles("graph", runtime.graphs.objects(), [](const Graph& graph) {
    return graph.owner == GraphOwner::kUser;
  });
  ReportHandles("module", runtime.modules.objects(),
                [&](const LoadedModule& module) {
                  return module.library == nullptr && any(module);
                });
  const auto snapshot = memory::AddressSpace::Get().copy_snapshot();
  for (const memory::NamedRange& range : snapshot->LiveMemory(device.ordinal)) {
    ReportLeak(range.name + " (" + std::to_string(range.end - range.begin) +
               (range.end - range.begin == 1 ? " byte)" : " bytes)"));
  }
}

}  // namespace softcuda::runtime
