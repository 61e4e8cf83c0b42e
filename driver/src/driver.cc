// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include "permafrost/driver/driver.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nvtx_hooks.h"
#include "permafrost/driver/check.h"
#include "permafrost/driver/status.h"

namespace permafrost {
namespace {

constexpr char kCudaLibrary[] = "libcuda.so.1";
constexpr char kSoftcudaLibrary[] = "libpermafrost_softcuda.so";
constexpr char kNoDriverCure[] =
    "install NVIDIA's driver, or set PERMAFROST_DRIVER=soft to run on the "
    "software driver";

template <typename Function>
Function SymbolAs(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

std::string VersionText(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

// The loader's own words for the last failure.
std::string LoaderError() {
  const char* text = dlerror();
  return text == nullptr ? "no reason given" : text;
}

// A library that dlopen gave us, closed again unless it is kept.
class OpenLibrary {
 public:
  explicit OpenLibrary(void* handle) : handle_(handle) {}
  ~OpenLibrary() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  OpenLibrary(const OpenLibrary&) = delete;
  OpenLibrary& operator=(const OpenLibrary&) = delete;
  void* get() const { return handle_; }
  void* Keep() { return std::exchange(handle_, nullptr); }

 private:
  void* handle_;
};

absl::Status TooOld(const std::string& path, int version) {
  return absl::UnavailableError(absl::StrCat(
      "driver ", path, " is too old: got version ", VersionText(version),
      ", need ", CUDA_VERSION / 1000,
      ".0 or newer, the major version of the CUDA Toolkit ",
      VersionText(CUDA_VERSION),
      " this was built with; update the driver, or build with an older "
      "toolkit"));
}

// Looks up one entry point at its version; null when the driver lacks it.
void* Resolve(PFN_cuGetProcAddress_v12000 get_proc_address, const char* name,
              int version) {
  void* function = nullptr;
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  const CUresult result = get_proc_address(
      name, &function, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found);
  return result == CUDA_SUCCESS && found == CU_GET_PROC_ADDRESS_SUCCESS
             ? function
             : nullptr;
}

absl::StatusOr<DriverApi> ResolveAll(
    PFN_cuGetProcAddress_v12000 get_proc_address, const std::string& path) {
  DriverApi api;
  std::vector<std::string> missing;
#define PERMAFROST_ENTRY_POINT(name, version)                      \
  api.name = reinterpret_cast<PFN_cu##name##_v##version>(          \
      Resolve(get_proc_address, "cu" #name, version));             \
  if (api.name == nullptr) {                                       \
    missing.push_back(                                             \
        absl::StrCat("cu" #name " (", VersionText(version), ")")); \
  }
#include "permafrost/driver/entry_points.inc"
#undef PERMAFROST_ENTRY_POINT
  if (!missing.empty()) {
    return absl::UnimplementedError(absl::StrCat(
        "driver ", path, " lacks ", missing.size(), " of ", kEntryPointCount,
        " entry points: ", absl::StrJoin(missing, ", "),
        "; update the driver"));
  }
  return api;
}

// The folder of the running program, or empty when the system does not tell.
std::string ProgramFolder() {
  std::array<char, PATH_MAX> path;
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0) return "";
  const absl::string_view program(path.data(), static_cast<size_t>(length));
  return std::string(program.substr(0, program.rfind('/')));
}

bool FileExists(const std::string& path) {
  return access(path.c_str(), F_OK) == 0;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Driver>> Driver::LoadLibrary(
    const std::string& path) {
  OpenLibrary library(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (library.get() == nullptr) {
    const std::string reason = LoaderError();
    if (path.find('/') != std::string::npos && FileExists(path)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "driver ", path, " is not a shared library that loads: ", reason));
    }
    return absl::UnavailableError(
        absl::StrCat("no driver library ", path, ": ", reason));
  }

  const auto get_proc_address = SymbolAs<PFN_cuGetProcAddress_v12000>(
      library.get(), "cuGetProcAddress_v2");
  const auto get_version = SymbolAs<PFN_cuDriverGetVersion_v2020>(
      library.get(), "cuDriverGetVersion");
  if (get_version == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "driver ", path,
        " is not a CUDA driver: it exports no cuDriverGetVersion"));
  }
  int version = 0;
  const CUresult version_result = get_version(&version);
  if (version_result == CUDA_ERROR_STUB_LIBRARY) {
    return absl::UnavailableError(absl::StrCat(
        "driver ", path,
        " is the CUDA Toolkit's link-time stand-in, not a driver; ",
        kNoDriverCure));
  }
  PERMAFROST_RETURN_IF_ERROR(
      CuStatus(version_result, "cuDriverGetVersion", path));
  if (version / 1000 < CUDA_VERSION / 1000) return TooOld(path, version);
  if (get_proc_address == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "driver ", path,
        " is not a CUDA driver: it exports no cuGetProcAddress_v2"));
  }

  PERMAFROST_ASSIGN_OR_RETURN(const DriverApi api,
                              ResolveAll(get_proc_address, path));
  const CUresult init_result = api.Init(0);
  if (init_result == CUDA_ERROR_NO_DEVICE) {
    return absl::UnavailableError(
        absl::StrCat("driver ", path, " has no device; ", kNoDriverCure));
  }
  PERMAFROST_RETURN_IF_ERROR(CuStatus(init_result, "cuInit", path));

  std::shared_ptr<Driver> driver(new Driver());
  driver->api_ = api;
  driver->path_ = path;
  driver->version_ = version;
  driver->kind_ = dlsym(library.get(), "softcuda_control_version") == nullptr
                      ? DriverKind::kCuda
                      : DriverKind::kSoftcuda;
  driver->library_ = library.Keep();
  internal::OfferNvtxListener(driver->library_);
  return driver;
}

absl::StatusOr<std::shared_ptr<Driver>> Driver::LoadCuda() {
  absl::StatusOr<std::shared_ptr<Driver>> driver = LoadLibrary(kCudaLibrary);
  if (!driver.ok()) {
    if (absl::IsUnavailable(driver.status()) &&
        driver.status().message().find(kNoDriverCure) ==
            absl::string_view::npos) {
      return absl::UnavailableError(
          absl::StrCat(driver.status().message(), "; ", kNoDriverCure));
    }
    return driver.status();
  }
  int count = 0;
  PERMAFROST_RETURN_IF_ERROR(CuStatus((*driver)->api().DeviceGetCount(&count),
                                      "cuDeviceGetCount", kCudaLibrary));
  if (count < 1) {
    return absl::UnavailableError(absl::StrCat(
        "driver ", kCudaLibrary, " has no device; ", kNoDriverCure));
  }
  return driver;
}

absl::StatusOr<std::shared_ptr<Driver>> Driver::LoadSoftcuda() {
  const std::string folder = ProgramFolder();
  std::vector<std::string> tried;
  for (const char* relative : {"", "../lib/", "../softcuda/", "../../softcuda/",
                               "../../../softcuda/"}) {
    const std::string path =
        absl::StrCat(folder, "/", relative, kSoftcudaLibrary);
    if (!folder.empty() && FileExists(path)) return LoadLibrary(path);
    tried.push_back(path);
  }
  absl::StatusOr<std::shared_ptr<Driver>> driver =
      LoadLibrary(kSoftcudaLibrary);
  if (driver.ok() || !absl::IsUnavailable(driver.status())) return driver;
  tried.push_back(kSoftcudaLibrary);
  return absl::UnavailableError(absl::StrCat(
      "no software driver: tried ", absl::StrJoin(tried, ", "),
      "; build the target permafrost_softcuda, or give its path in "
      "PERMAFROST_DRIVER"));
}

absl::StatusOr<std::shared_ptr<const Driver>> Driver::Load(
    const DriverChoice& choice) {
  switch (choice.select) {
    case DriverChoice::Select::kCuda:
      return LoadCuda();
    case DriverChoice::Select::kSoft:
      return LoadSoftcuda();
    case DriverChoice::Select::kPath:
      return LoadLibrary(choice.path);
    case DriverChoice::Select::kAuto:
      break;
  }
  absl::StatusOr<std::shared_ptr<Driver>> cuda = LoadCuda();
  if (cuda.ok()) return cuda;
  absl::StatusOr<std::shared_ptr<Driver>> soft = LoadSoftcuda();
  if (!soft.ok()) {
    return absl::UnavailableError(
        absl::StrCat(cuda.status().message(), "; ", soft.status().message()));
  }
  (*soft)->selection_note_ = std::string(cuda.status().message());
  return soft;
}

std::shared_ptr<const Driver> Driver::WithApi(
    std::shared_ptr<const Driver> base, DriverApi api) {
  PERMAFROST_CHECK(base != nullptr, "WithApi needs a driver to stand on");
  std::shared_ptr<Driver> driver(new Driver());
  driver->api_ = api;
  driver->library_ = base->library_;
  driver->kind_ = base->kind_;
  driver->path_ = base->path_;
  driver->version_ = base->version_;
  driver->selection_note_ = base->selection_note_;
  return driver;
}

std::string Driver::Describe() const {
  return absl::StrCat(
      "driver: ", DriverKindName(kind_), " ", VersionText(version_), " (",
      path_, ")",
      selection_note_.empty() ? "" : "; not cuda because: ", selection_note_);
}

void* Driver::FindSymbol(const char* name) const {
  return dlsym(library_, name);
}

}  // namespace permafrost
