// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_CHECK_SETTINGS_H_
#define SOFTCUDA_CHECK_SETTINGS_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace softcuda::check {

/// Which addresses that were freed come back.
enum class AddressReuse : int { kRound, kNever, kAlways };

/// What environment and control ABI choose beyond the checkers that the
/// reporter knows: further checkers, and modes for tests. Each option has a
/// name in one table; the environment variable of `late_work` is
/// SOFTCUDA_LATE_WORK.
///
/// Threads: any.
class Settings {
 public:
  /// Never destroyed. The first call reads the environment; values that make
  /// no sense are reported as misuse and ignored.
  static Settings& Get();

  /// Sets an option by its name. False, with what is accepted in `*why`, for
  /// an unknown one or a value that it does not take.
  bool Set(std::string_view name, std::string_view value, std::string* why);

  /// The names, in the order of the table.
  static std::vector<std::string> Names();

  bool leakcheck() const { return leakcheck_.load(); }
  bool hostcheck() const { return hostcheck_.load(); }
  /// The byte that fresh memory is filled with, or -1.
  int poison() const { return poison_.load(); }
  AddressReuse address_reuse() const { return address_reuse_.load(); }
  /// Work runs when somebody waits for it.
  bool late_work() const { return late_work_.load(); }
  /// Instructions of one warp; 0 is the interpreter's own limit.
  uint64_t step_limit() const { return step_limit_.load(); }
  /// 90 for compute capability 9.0.
  int compute_capability() const { return compute_capability_.load(); }
  int driver_version() const { return driver_version_.load(); }
  /// With which code the process ends when something was reported, or 0.
  int exit_code() const { return exit_code_.load(); }

 private:
  struct Entry;
  static const std::vector<Entry>& Table();
  Settings();

  std::atomic<bool> leakcheck_{false};
  std::atomic<bool> hostcheck_{false};
  std::atomic<int> poison_{-1};
  std::atomic<AddressReuse> address_reuse_{AddressReuse::kRound};
  std::atomic<bool> late_work_{false};
  std::atomic<uint64_t> step_limit_{0};
  std::atomic<int> compute_capability_{90};
  std::atomic<int> driver_version_{13000};
  std::atomic<int> exit_code_{0};
};

}  // namespace softcuda::check

#endif  // SOFTCUDA_CHECK_SETTINGS_H_
