// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_DRIVER_LOG_H_
#define PERMAFROST_DRIVER_LOG_H_

#include <functional>

#include "absl/strings/string_view.h"

// What the library says that is nobody's return value: what a destructor could
// not give back, which driver was taken. It never logs on the path of a replay,
// and an error that a function returns is not logged as well.

namespace permafrost {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

/// "debug", "info" and so on.
const char* LogLevelName(LogLevel level);

/// Takes one message, without a line end. It may be called from any thread, one
/// call at a time, and must not log itself.
using LogSink = std::function<void(LogLevel level, absl::string_view message)>;

/// Messages below `level` are dropped; `kWarning` at first. kOff drops all.
/// Threads: any.
void SetLogLevel(LogLevel level);
LogLevel GetLogLevel();

/// Sends messages to `sink` from now on; an empty one puts the first back,
/// which writes "permafrost: LEVEL: MESSAGE" lines to standard error. Threads:
/// any; when it returns, the sink before is not called any more.
void SetLogSink(LogSink sink);

/// Logs a message, for the library's own components.
/// Threads: any. Capture: no driver call. Cost: one atomic read when dropped.
void Log(LogLevel level, absl::string_view message);

}  // namespace permafrost

#endif  // PERMAFROST_DRIVER_LOG_H_
