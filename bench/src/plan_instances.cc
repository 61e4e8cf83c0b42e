// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "plan_instances.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "permafrost/arena/line_packing.h"
#include "permafrost/driver/status.h"

namespace permafrost::bench {
namespace {

constexpr int64_t kMaxWallNs = 10'000'000'000;
/// The largest of google/minimalloc's is 12 KiB.
constexpr size_t kMaxFileBytes = size_t{4} << 20;
constexpr const char* kRefuted = "refuted";

const char* VerdictName(PackingVerdict verdict) {
  switch (verdict) {
    case PackingVerdict::kPacked:
      return "packed";
    case PackingVerdict::kImpossible:
      return "impossible";
    case PackingVerdict::kGaveUp:
      return "gave up";
  }
  return "?";
}

/// Whether no two buffers of one moment share bytes and all lie below the
/// capacity.
bool IsSound(const std::vector<LineBuffer>& buffers,
             const std::vector<int64_t>& offsets, int64_t capacity_bytes) {
  for (size_t a = 0; a < buffers.size(); ++a) {
    if (offsets[a] < 0 || offsets[a] > capacity_bytes - buffers[a].bytes) {
      return false;
    }
    for (size_t b = a + 1; b < buffers.size(); ++b) {
      if (buffers[a].lower < buffers[b].upper &&
          buffers[b].lower < buffers[a].upper &&
          offsets[a] < offsets[b] + buffers[b].bytes &&
          offsets[b] < offsets[a] + buffers[a].bytes) {
        return false;
      }
    }
  }
  return true;
}

absl::StatusOr<std::string> ReadInstance(const std::filesystem::path& path) {
  const auto refuse = [&path](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("--instances: got file '", path.string(), "', ", what));
  };
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return refuse("which is no file; accepted: a table of buffers");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return refuse("which cannot be read; accepted: a readable file");
  std::string text(kMaxFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return refuse("reading which failed");
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMaxFileBytes) {
    return refuse(absl::StrCat("which has more than ", kMaxFileBytes,
                               " bytes; accepted: a file up to that"));
  }
  return text;
}

absl::StatusOr<InstanceRow> Solve(const std::filesystem::path& path,
                                  int64_t max_nodes) {
  InstanceRow row;
  const std::vector<std::string> parts =
      absl::StrSplit(path.filename().string(), '.');
  if (parts.size() != 3 || !absl::SimpleAtoi(parts[1], &row.capacity_bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--instances: got file '", path.string(),
                     "'; accepted: names like A.1048576.csv, with the capacity "
                     "in bytes"));
  }
  row.name = parts[0];
  PERMAFROST_ASSIGN_OR_RETURN(const std::string text, ReadInstance(path));
  PERMAFROST_ASSIGN_OR_RETURN(const std::vector<LineBuffer> buffers,
                              ParseLineBuffers(text, path.string()));
  const auto start = std::chrono::steady_clock::now();
  const absl::StatusOr<LinePacking> solved = PackLine(
      buffers, {.capacity_bytes = row.capacity_bytes, .max_nodes = max_nodes});
  row.wall_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                    std::chrono::steady_clock::now() - start)
                    .count();
  if (!solved.ok()) {
    return absl::Status(
        solved.status().code(),
        absl::StrCat(path.string(), ": ", solved.status().message()));
  }
  const LinePacking& packing = *solved;
  row.buffers = static_cast<int64_t>(buffers.size());
  row.bound_bytes = packing.bound_bytes;
  row.height_bytes = packing.height_bytes;
  row.nodes = packing.nodes;
  row.verdict = VerdictName(packing.verdict);
  if (packing.verdict != PackingVerdict::kPacked) return row;
  if (!IsSound(buffers, packing.offsets, row.capacity_bytes)) {
    row.verdict = kRefuted;
  } else {
    row.is_solved = row.wall_ns <= kMaxWallNs;
  }
  return row;
}

}  // namespace

absl::StatusOr<std::vector<InstanceRow>> SolveInstances(
    const std::string& folder, int64_t max_nodes) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end;
       !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() != ".csv") continue;
    paths.push_back(entry->path());
  }
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat("--instances: got '", folder, "', which cannot be read (",
                     error.message(), "); accepted: a folder"));
  }
  if (paths.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--instances: got '", folder,
                     "', which has no .csv file; accepted: a folder with files "
                     "like A.1048576.csv"));
  }
  std::sort(paths.begin(), paths.end());
  std::vector<InstanceRow> rows;
  for (const std::filesystem::path& path : paths) {
    PERMAFROST_ASSIGN_OR_RETURN(InstanceRow row, Solve(path, max_nodes));
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<std::string> FaultsOf(absl::Span<const InstanceRow> rows) {
  std::vector<std::string> faults;
  std::vector<std::string> unsolved;
  for (const InstanceRow& row : rows) {
    if (row.verdict == kRefuted) {
      faults.push_back(
          absl::StrCat(row.name, ": the packing does not hold what it says"));
    } else if (!row.is_solved) {
      unsolved.push_back(row.name);
    }
  }
  if (unsolved.size() > rows.size() / 11) {
    std::string names;
    for (const std::string& name : unsolved) absl::StrAppend(&names, " ", name);
    faults.push_back(absl::StrCat("got ", unsolved.size(), " unsolved (",
                                  names.substr(1), "), limit ",
                                  rows.size() / 11));
  }
  return faults;
}

}  // namespace permafrost::bench
