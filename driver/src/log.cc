// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/driver/log.h"

#include <atomic>
#include <cstdio>
#include <mutex>
#include <utility>

namespace permafrost {
namespace {

std::atomic<LogLevel> least_level = LogLevel::kWarning;

struct SinkSlot {
  std::mutex mutex;
  LogSink sink;
};

// Never destroyed: static objects of a program may log in their destructors.
SinkSlot& Slot() {
  static SinkSlot* const slot = new SinkSlot;
  return *slot;
}

}  // namespace

const char* LogLevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
    case LogLevel::kOff:
      return "off";
  }
  return "?";
}

void SetLogLevel(LogLevel level) {
  least_level.store(level, std::memory_order_relaxed);
}

LogLevel GetLogLevel() { return least_level.load(std::memory_order_relaxed); }

void SetLogSink(LogSink sink) {
  SinkSlot& slot = Slot();
  const std::lock_guard<std::mutex> lock(slot.mutex);
  slot.sink = std::move(sink);
}

void Log(LogLevel level, absl::string_view message) {
  const LogLevel least = GetLogLevel();
  if (level < least || least == LogLevel::kOff) return;
  SinkSlot& slot = Slot();
  const std::lock_guard<std::mutex> lock(slot.mutex);
  if (slot.sink) {
    slot.sink(level, message);
    return;
  }
  std::fprintf(stderr, "permafrost: %s: %.*s\n", LogLevelName(level),
               static_cast<int>(message.size()), message.data());
}

}  // namespace permafrost
