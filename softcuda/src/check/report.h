// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_CHECK_REPORT_H_
#define SOFTCUDA_CHECK_REPORT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace softcuda::check {

/// One finding of a checker. Fields that do not apply stay empty or zero.
struct Report {
  std::string check;   ///< memcheck, initcheck, misuse, ...
  std::string what;    ///< "write of 4 bytes", "cuMemFree of a freed pointer"
  std::string kernel;  ///< kernel name; empty when no kernel was running
  std::string file;    ///< source file of the instruction, from line info
  int line = 0;
  /// "file:line" of the calls that the instruction is inlined in, nearest
  /// first.
  std::vector<std::string> inlined_at;
  uint32_t block[3] = {0, 0, 0};
  uint32_t thread[3] = {0, 0, 0};
  bool has_thread = true;  ///< whether block and thread are known
  uint64_t address = 0;
  uint64_t bytes = 0;
  std::string where;     ///< what memory::Snapshot::Describe says of `address`
  std::string origin;    ///< "graph node 4", "cuLaunchKernel"
  std::string previous;  ///< the access that this one goes against
};

/// The report as one line, as it is stored and printed:
/// `memcheck: write of 1 byte at 0x7f..: 1 byte past the end of 'a' (64 bytes)
/// | kernel k_x (file.cu:123) block (0,0,0) thread (5,0,0) | graph node 4`.
/// Newlines in the fields become spaces.
std::string ToText(const Report& report);

/// The report as one line of JSON. Fields that do not apply are left out.
std::string ToJson(const Report& report);

/// Collects what the checkers find.
///
/// All reports are counted. Texts are kept for the first kKeptPerSite reports
/// of one (check, kernel, file, line) and for kKeptTexts reports in all, so a
/// loop that faults a million times costs a counter.
///
/// Threads: any.
class Reporter {
 public:
  static constexpr int64_t kKeptPerSite = 8;
  static constexpr size_t kKeptTexts = 1000;

  /// The process's reporter. Never destroyed: kernels may report at exit.
  static Reporter& Get();

  Reporter();
  ~Reporter();
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  /// Counts the report, and keeps and prints its text where the caps allow.
  void Add(Report report);

  /// Reports added since the start, kept or not, taken or not.
  int64_t count() const { return count_.load(std::memory_order_relaxed); }

  /// Hands over the kept texts, oldest first, and forgets them and the counts
  /// per site. A last line tells how many were dropped, if any.
  std::vector<std::string> TakeTexts();

  /// As TakeTexts, into a buffer: one text a line, newlines between them. The
  /// texts are forgotten only if all fit; a NUL follows where there is room.
  /// Returns the bytes of all lines, without the NUL.
  size_t TakeInto(char* buffer, size_t capacity);

  /// Reports as text, or as JSON: where they are printed and where they are
  /// taken.
  void set_json(bool enabled) { json_.store(enabled); }

  /// Adds the lines to a file as well, whether quiet or not; an empty path
  /// ends that. False when the file cannot be opened.
  bool set_file(const std::string& path);

  /// Stops or starts the line to stderr. Starts as the environment says:
  /// SOFTCUDA_QUIET=1 is quiet.
  void set_quiet(bool quiet) { quiet_.store(quiet); }
  bool quiet() const { return quiet_.load(std::memory_order_relaxed); }

  /// Whether new device memory starts undefined and kernels report reads of
  /// undefined bytes. Starts as the environment says: SOFTCUDA_INITCHECK=1.
  void set_initcheck(bool enabled) { initcheck_.store(enabled); }
  bool initcheck_enabled() const {
    return initcheck_.load(std::memory_order_relaxed);
  }

  /// Whether accesses are compared: between the warps and blocks of a kernel,
  /// and between operations. Starts as the environment says:
  /// SOFTCUDA_RACECHECK=1.
  void set_racecheck(bool enabled) { racecheck_.store(enabled); }
  bool racecheck_enabled() const {
    return racecheck_.load(std::memory_order_relaxed);
  }

  /// Whether the bytes that operations access are kept for the control ABI.
  void set_access_log(bool enabled) { access_log_.store(enabled); }
  bool access_log_enabled() const {
    return access_log_.load(std::memory_order_relaxed);
  }

 private:
  std::string Line(const Report& report) const;
  std::vector<std::string> TextsLocked() const;
  void ForgetLocked();

  std::atomic<int64_t> count_{0};
  std::atomic<bool> quiet_{false};
  std::atomic<bool> initcheck_{false};
  std::atomic<bool> racecheck_{false};
  std::atomic<bool> access_log_{false};
  std::mutex mutex_;
  std::atomic<bool> json_{false};
  int file_ = -1;
  std::vector<Report> kept_;
  std::map<std::string, int64_t> reports_per_site_;
  int64_t dropped_ = 0;
};

}  // namespace softcuda::check

#endif  // SOFTCUDA_CHECK_REPORT_H_
