// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_DRIVER_DRIVER_H_
#define PERMAFROST_DRIVER_DRIVER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "permafrost/driver/driver_api.h"

namespace permafrost {

/// What answers the driver's entry points.
enum class DriverKind {
  kCuda,      ///< NVIDIA's driver.
  kSoftcuda,  ///< The software driver: no GPU, interpreted kernels.
};

/// "cuda" or "softcuda".
const char* DriverKindName(DriverKind kind);

/// Which driver a program wants. The library never guesses: it takes a choice.
struct DriverChoice {
  enum class Select {
    kAuto,  ///< NVIDIA's driver when it has a device, else softcuda.
    kCuda,  ///< NVIDIA's driver, or an error.
    kSoft,  ///< softcuda, or an error.
    kPath,  ///< The shared library at `path`, or an error.
  };

  Select select = Select::kAuto;
  std::string path;  ///< Used with kPath only.

  /// Reads "auto", "cuda", "soft", or the path of a shared library: whatever
  /// has a '/' or contains ".so". Empty text means auto.
  /// Errors: kInvalidArgument for anything else, with what is accepted.
  static absl::StatusOr<DriverChoice> Parse(absl::string_view text);

  /// Parses the environment variable PERMAFROST_DRIVER; auto when it is unset.
  /// For programs: libraries take the choice from their caller.
  static absl::StatusOr<DriverChoice> FromEnvironment();
};

/// A loaded and initialised driver: its table of entry points, and what it is.
///
/// Loading resolves each entry point through cuGetProcAddress at exactly the
/// version of the function type it is called by, and refuses a driver that
/// lacks one. The library stays loaded for the rest of the process, because
/// NVTX keeps pointers into it.
///
/// Threads: immutable; every method is safe from any thread.
class Driver {
 public:
  /// Loads the driver of the choice and initialises it.
  ///
  /// Only kAuto looks further than the choice says: it takes NVIDIA's driver
  /// if that loads and has a device, else softcuda, and `selection_note()`
  /// tells why. softcuda is looked for next to the running program, then in
  /// ../lib and ../softcuda, ../../softcuda and ../../../softcuda from there,
  /// then where the system's loader looks.
  /// Errors: kUnavailable when there is no library, no device, or the driver
  ///   is older than the toolkit's major version, with the cure;
  ///   kInvalidArgument for a path that is no driver; kUnimplemented naming
  ///   the entry points a driver lacks.
  /// Cost: milliseconds (NVIDIA's driver: up to seconds at first).
  static absl::StatusOr<std::shared_ptr<const Driver>> Load(
      const DriverChoice& choice);

  /// The same driver with another table: how tests stand in between.
  static std::shared_ptr<const Driver> WithApi(
      std::shared_ptr<const Driver> base, DriverApi api);

  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  /// The entry points; none is null.
  const DriverApi& api() const { return api_; }

  DriverKind kind() const { return kind_; }

  /// The library as it was opened: "libcuda.so.1", or a path.
  const std::string& path() const { return path_; }

  /// The driver's version: 1000 * major + 10 * minor, so 13000 is 13.0.
  int version() const { return version_; }

  /// Why kAuto did not take NVIDIA's driver; empty when it did, and for every
  /// other choice.
  const std::string& selection_note() const { return selection_note_; }

  /// One line for a program's start: kind, version, path and selection note.
  std::string Describe() const;

  /// The address of an exported symbol of the library, or null. Finds what is
  /// no entry point, such as softcuda's control functions.
  void* FindSymbol(const char* name) const;

 private:
  Driver() = default;

  static absl::StatusOr<std::shared_ptr<Driver>> LoadLibrary(
      const std::string& path);
  static absl::StatusOr<std::shared_ptr<Driver>> LoadCuda();
  static absl::StatusOr<std::shared_ptr<Driver>> LoadSoftcuda();

  DriverApi api_;
  void* library_ = nullptr;
  DriverKind kind_ = DriverKind::kCuda;
  std::string path_;
  int version_ = 0;
  std::string selection_note_;
};

/// How the rest of the library holds a driver.
using DriverRef = std::shared_ptr<const Driver>;

}  // namespace permafrost

#endif  // PERMAFROST_DRIVER_DRIVER_H_
