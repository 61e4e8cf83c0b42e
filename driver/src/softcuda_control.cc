// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include "permafrost/driver/softcuda_control.h"

#include "absl/strings/str_split.h"

namespace permafrost {
namespace {

// The version of softcuda's control functions that the members declare.
constexpr int kControlVersion = 1;

template <typename Function>
bool Find(const Driver& driver, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(driver.FindSymbol(name));
  return *function != nullptr;
}

std::vector<std::string> TakeLines(size_t (*take)(char*, size_t)) {
  // Asking with no room tells how much is needed and takes nothing; another
  // thread may add a line in between, hence the loop.
  std::string text;
  for (size_t needed = take(nullptr, 0); needed > text.size();) {
    text.resize(needed);
    needed = take(text.data(), text.size());
    if (needed <= text.size()) {
      text.resize(needed);
      break;
    }
  }
  while (!text.empty() && (text.back() == '\0' || text.back() == '\n')) {
    text.pop_back();
  }
  if (text.empty()) return {};
  return absl::StrSplit(text, '\n', absl::SkipEmpty());
}

}  // namespace

std::optional<SoftcudaControl> SoftcudaControl::Of(const Driver& driver) {
  int (*version)() = nullptr;
  if (!Find(driver, "softcuda_control_version", &version) ||
      version() != kControlVersion) {
    return std::nullopt;
  }
  SoftcudaControl control;
  const bool complete =
      Find(driver, "softcuda_report_count", &control.report_count_) &&
      Find(driver, "softcuda_take_reports", &control.take_reports_) &&
      Find(driver, "softcuda_enable_initcheck", &control.enable_initcheck_) &&
      Find(driver, "softcuda_enable_racecheck", &control.enable_racecheck_) &&
      Find(driver, "softcuda_enable_access_log", &control.enable_access_log_) &&
      Find(driver, "softcuda_take_accesses", &control.take_accesses_) &&
      Find(driver, "softcuda_set_option", &control.set_option_) &&
      Find(driver, "softcuda_mark_undefined", &control.mark_undefined_) &&
      Find(driver, "softcuda_live_bytes", &control.live_bytes_) &&
      Find(driver, "softcuda_live_handles", &control.live_handles_) &&
      Find(driver, "softcuda_set_schedule_seed", &control.set_schedule_seed_) &&
      Find(driver, "softcuda_set_execution", &control.set_execution_) &&
      Find(driver, "softcuda_kernels_executed", &control.kernels_executed_) &&
      Find(driver, "softcuda_set_quiet", &control.set_quiet_) &&
      Find(driver, "softcuda_set_device_memory", &control.set_device_memory_);
  if (!complete) return std::nullopt;
  return control;
}

std::vector<std::string> SoftcudaControl::TakeReports() const {
  return TakeLines(take_reports_);
}

std::vector<std::string> SoftcudaControl::TakeAccesses() const {
  return TakeLines(take_accesses_);
}

void SoftcudaControl::EnableRacecheck(bool enable) const {
  enable_racecheck_(enable ? 1 : 0);
}

void SoftcudaControl::EnableAccessLog(bool enable) const {
  enable_access_log_(enable ? 1 : 0);
}

bool SoftcudaControl::SetOption(const char* name, const char* value) const {
  return set_option_(name, value) == 0;
}

void SoftcudaControl::EnableInitcheck(bool enable) const {
  enable_initcheck_(enable ? 1 : 0);
}

bool SoftcudaControl::MarkUndefined(DevicePtr base, int64_t bytes) const {
  return bytes >= 0 &&
         mark_undefined_(base.value(), static_cast<size_t>(bytes)) == 0;
}

void SoftcudaControl::SetExecution(bool execute) const {
  set_execution_(execute ? 1 : 0);
}

void SoftcudaControl::SetQuiet(bool quiet) const { set_quiet_(quiet ? 1 : 0); }

void SoftcudaControl::SetDeviceMemoryBytes(int64_t bytes) const {
  set_device_memory_(static_cast<size_t>(bytes));
}

}  // namespace permafrost
