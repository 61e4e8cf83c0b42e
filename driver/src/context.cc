// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include "permafrost/driver/context.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "permafrost/driver/check.h"
#include "permafrost/driver/status.h"

namespace permafrost {

absl::StatusOr<std::shared_ptr<const Context>> Context::RetainPrimary(
    DriverRef driver, int ordinal) {
  PERMAFROST_CHECK(driver != nullptr, "a context needs a driver");
  const DriverApi& api = driver->api();
  int count = 0;
  PERMAFROST_RETURN_IF_ERROR(
      CuStatus(api.DeviceGetCount(&count), "cuDeviceGetCount"));
  if (ordinal < 0 || ordinal >= count) {
    return absl::InvalidArgumentError(absl::StrCat(
        "device ordinal: got ", ordinal, ", limit ", count, " devices"));
  }
  const std::string what = absl::StrCat("device ", ordinal);
  std::shared_ptr<Context> context(new Context());
  context->ordinal_ = ordinal;
  PERMAFROST_RETURN_IF_ERROR(
      CuStatus(api.DeviceGet(&context->device_, ordinal), "cuDeviceGet", what));
  context->driver_ = std::move(driver);
  PERMAFROST_ASSIGN_OR_RETURN(
      const int major,
      context->DeviceAttribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
  PERMAFROST_ASSIGN_OR_RETURN(
      const int minor,
      context->DeviceAttribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  context->compute_capability_ = major * 10 + minor;
  // Last, so that the destructor releases exactly what was retained.
  PERMAFROST_RETURN_IF_ERROR(
      CuStatus(api.DevicePrimaryCtxRetain(&context->context_, context->device_),
               "cuDevicePrimaryCtxRetain", what));
  return context;
}

Context::~Context() {
  if (context_ != nullptr) api().DevicePrimaryCtxRelease(device_);
}

absl::StatusOr<std::string> Context::DeviceName() const {
  std::array<char, 256> name{};
  PERMAFROST_RETURN_IF_ERROR(
      CuStatus(api().DeviceGetName(name.data(),
                                   static_cast<int>(name.size()) - 1, device_),
               "cuDeviceGetName"));
  return std::string(name.data());
}

absl::StatusOr<int64_t> Context::TotalMemoryBytes() const {
  size_t bytes = 0;
  PERMAFROST_RETURN_IF_ERROR(
      CuStatus(api().DeviceTotalMem(&bytes, device_), "cuDeviceTotalMem"));
  return static_cast<int64_t>(bytes);
}

absl::StatusOr<int64_t> Context::FreeMemoryBytes() const {
  const Scope scope = MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  PERMAFROST_RETURN_IF_ERROR(
      CuStatus(api().MemGetInfo(&free_bytes, &total_bytes), "cuMemGetInfo"));
  return static_cast<int64_t>(free_bytes);
}

absl::StatusOr<int> Context::DeviceAttribute(
    CUdevice_attribute attribute) const {
  int value = 0;
  PERMAFROST_RETURN_IF_ERROR(
      CuStatus(api().DeviceGetAttribute(&value, attribute, device_),
               "cuDeviceGetAttribute",
               absl::StrCat("device attribute ", static_cast<int>(attribute))));
  return value;
}

Context::Scope::Scope(const Context& context)
    : api_(context.api()),
      status_(
          CuStatus(api_.CtxPushCurrent(context.get()), "cuCtxPushCurrent")) {}

Context::Scope::~Scope() {
  CUcontext popped = nullptr;
  if (status_.ok()) api_.CtxPopCurrent(&popped);
}

}  // namespace permafrost
