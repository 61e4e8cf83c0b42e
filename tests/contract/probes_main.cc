// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Asks a driver what no documentation says of it, and writes the answers as
// JSON, which softcuda takes in place of its defaults:
//
//   contract_probes [--out FILE]     PERMAFROST_DRIVER names the driver
//
// Each group of questions runs in a process of its own, under a time limit: a
// crash costs the answers of its group that were still to come, and no other.
// Exit status: 0 all asked, 1 some were not, 2 bad usage, 3 no driver or no
// device.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "probes.h"

namespace permafrost::contract {
namespace {

constexpr char kDevicePart[] = "device";
constexpr unsigned int kPartLimitSeconds = 30;

// --- the process that asks ---

void WriteLine(int descriptor, const std::string& key,
               const std::string& value) {
  const std::string line = key + " " + value + "\n";
  if (write(descriptor, line.data(), line.size()) !=
      static_cast<ssize_t>(line.size())) {
    std::exit(1);
  }
}

int AskPart(const std::string& name, int descriptor) {
  alarm(kPartLimitSeconds);
  if (name == kDevicePart) {
    int version = 0;
    std::string device;
    if (!AskForDevice(&version, &device)) return 1;
    WriteLine(descriptor, "driver_version", std::to_string(version));
    WriteLine(descriptor, "device", device);
    return 0;
  }
  const bool known =
      AskProbePart(name, [descriptor](const char* key, int64_t value) {
        WriteLine(descriptor, key, std::to_string(value));
      });
  return known ? 0 : 2;
}

// --- the process that collects ---

struct PartResult {
  int status = -1;  // as waitpid gives it
  std::vector<std::pair<std::string, std::string>> lines;
};

PartResult RunPart(const std::string& name) {
  PartResult result;
  int ends[2] = {};
  if (pipe(ends) != 0) return result;
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    const std::string descriptor = std::to_string(ends[1]);
    execl("/proc/self/exe", "contract_probes", "--part", name.c_str(),
          descriptor.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = read(ends[0], buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<size_t>(got));
  }
  close(ends[0]);
  if (child > 0) (void)waitpid(child, &result.status, 0);
  for (size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos;
       at = end + 1) {
    const std::string line = text.substr(at, end - at);
    const size_t space = line.find(' ');
    result.lines.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
  return result;
}

bool IsGood(const PartResult& part) {
  return WIFEXITED(part.status) && WEXITSTATUS(part.status) == 0;
}

void TellEnd(const std::string& name, const PartResult& part) {
  const bool killed = WIFSIGNALED(part.status);
  std::fprintf(
      stderr, "probes: '%s' ended with %s %d after %s\n", name.c_str(),
      killed ? "signal" : "status",
      killed ? WTERMSIG(part.status) : WEXITSTATUS(part.status),
      part.lines.empty() ? "no answer" : part.lines.back().first.c_str());
}

int Collect(const char* out_path) {
  nlohmann::ordered_json document;
  document["schema"] = "permafrost.driver_answers/1";
  const PartResult device = RunPart(kDevicePart);
  if (!IsGood(device) || device.lines.size() != 2) {
    std::fprintf(stderr, "probes: no driver or no device\n");
    return 3;
  }
  document["driver_version"] = std::stoi(device.lines[0].second);
  document["device"] = device.lines[1].second;
  std::fprintf(stderr, "device: %s\n", device.lines[1].second.c_str());
  bool complete = true;
  nlohmann::ordered_json answers = nlohmann::ordered_json::object();
  for (const std::string& name : ProbeParts()) {
    const PartResult part = RunPart(name);
    for (const auto& [key, value] : part.lines) {
      answers[key] = std::stoll(value);
    }
    if (IsGood(part)) continue;
    complete = false;
    TellEnd(name, part);
  }
  document["answers"] = answers;
  const std::string text =
      document.dump(2, ' ', true, nlohmann::json::error_handler_t::replace) +
      "\n";
  if (out_path == nullptr) {
    std::cout << text;
  } else {
    std::ofstream file(out_path);
    file << text;
    file.close();
    if (!file) {
      std::fprintf(stderr, "probes: cannot write '%s'\n", out_path);
      return 2;
    }
  }
  return complete ? 0 : 1;
}

int Main(int argc, char** argv) {
  if (argc == 4 && std::strcmp(argv[1], "--part") == 0) {
    return AskPart(argv[2], std::atoi(argv[3]));
  }
  const bool to_file = argc == 3 && std::strcmp(argv[1], "--out") == 0;
  if (argc != 1 && !to_file) {
    std::fprintf(stderr, "usage: contract_probes [--out FILE]\n");
    return 2;
  }
  return Collect(to_file ? argv[2] : nullptr);
}

}  // namespace
}  // namespace permafrost::contract

int main(int argc, char** argv) {
  return permafrost::contract::Main(argc, argv);
}
