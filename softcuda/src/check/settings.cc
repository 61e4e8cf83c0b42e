// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "check/settings.h"

#include <unistd.h>

#include <cctype>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "check/report.h"

namespace softcuda::check {
namespace {

// Decimal, or hexadecimal behind 0x.
bool ParseNumber(std::string_view text, uint64_t* value) {
  int base = 10;
  if (text.substr(0, 2) == "0x") {
    text.remove_prefix(2);
    base = 16;
  }
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, *value, base);
  return error == std::errc() && at == end && !text.empty();
}

template <typename Set>
bool ParseSwitch(std::string_view text, const Set& set) {
  if (text != "0" && text != "1") return false;
  set(text == "1");
  return true;
}

// Runs behind the caller's own handlers that were registered later. What those
// before it would do is lost, so it does nothing unless asked to.
void EndWithExitCode() {
  const int code = Settings::Get().exit_code();
  if (code == 0 || Reporter::Get().count() == 0) return;
  std::fflush(nullptr);
  _exit(code);
}

}  // namespace

struct Settings::Entry {
  const char* name;
  const char* accepts;
  bool (*set)(Settings&, std::string_view);
};

const std::vector<Settings::Entry>& Settings::Table() {
  static const auto* const table = new std::vector<Entry>{
      {"initcheck", "0 or 1",
       [](Settings&, std::string_view text) {
         return ParseSwitch(text,
                            [](bool on) { Reporter::Get().set_initcheck(on); });
       }},
      {"racecheck", "0 or 1",
       [](Settings&, std::string_view text) {
         return ParseSwitch(text,
                            [](bool on) { Reporter::Get().set_racecheck(on); });
       }},
      {"leakcheck", "0 or 1",
       [](Settings& o, std::string_view text) {
         return ParseSwitch(text, [&](bool on) { o.leakcheck_ = on; });
       }},
      {"hostcheck", "0 or 1",
       [](Settings& o, std::string_view text) {
         return ParseSwitch(text, [&](bool on) { o.hostcheck_ = on; });
       }},
      {"quiet", "0 or 1",
       [](Settings&, std::string_view text) {
         return ParseSwitch(text,
                            [](bool on) { Reporter::Get().set_quiet(on); });
       }},
      {"report_format", "text or json",
       [](Settings&, std::string_view text) {
         if (text != "text" && text != "json") return false;
         Reporter::Get().set_json(text == "json");
         return true;
       }},
      {"report_file", "the path of a file that lines are added to, or nothing",
       [](Settings&, std::string_view text) {
         return Reporter::Get().set_file(std::string(text));
       }},
      {"exit_code", "0 to 255",
       [](Settings& o, std::string_view text) {
         uint64_t value = 0;
         if (!ParseNumber(text, &value) || value > 255) return false;
         o.exit_code_ = static_cast<int>(value);
         return true;
       }},
      {"poison", "off or a byte",
       [](Settings& o, std::string_view text) {
         uint64_t value = 0;
         if (text == "off") {
           o.poison_ = -1;
           return true;
         }
         if (!ParseNumber(text, &value) || value > 255) return false;
         o.poison_ = static_cast<int>(value);
         return true;
       }},
      {"address_reuse", "round, never or always",
       [](Settings& o, std::string_view text) {
         if (text == "round") {
           o.address_reuse_ = AddressReuse::kRound;
         } else if (text == "never") {
           o.address_reuse_ = AddressReuse::kNever;
         } else if (text == "always") {
           o.address_reuse_ = AddressReuse::kAlways;
         } else {
           return false;
         }
         return true;
       }},
      {"late_work", "0 or 1",
       [](Settings& o, std::string_view text) {
         return ParseSwitch(text, [&](bool on) { o.late_work_ = on; });
       }},
      {"step_limit", "a number of instructions, or 0",
       [](Settings& o, std::string_view text) {
         uint64_t value = 0;
         if (!ParseNumber(text, &value)) return false;
         o.step_limit_ = value;
         return true;
       }},
      {"compute_capability", "8.0 or 9.0",
       [](Settings& o, std::string_view text) {
         if (text != "8.0" && text != "9.0") return false;
         o.compute_capability_ = text == "8.0" ? 80 : 90;
         return true;
       }},
      {"driver_version", "a version such as 12080, from 12000 to 99999",
       [](Settings& o, std::string_view text) {
         uint64_t value = 0;
         if (!ParseNumber(text, &value) || value < 12000 || value > 99999) {
           return false;
         }
         o.driver_version_ = static_cast<int>(value);
         return true;
       }},
  };
  return *table;
}

Settings& Settings::Get() {
  static Settings* const settings = new Settings;
  return *settings;
}

Settings::Settings() {
  for (const Entry& entry : Table()) {
    std::string variable = "SOFTCUDA_";
    for (const char* c = entry.name; *c != '\0'; ++c) {
      variable += static_cast<char>(std::toupper(*c));
    }
    const char* const value = std::getenv(variable.c_str());
    if (value == nullptr || *value == '\0' || entry.set(*this, value)) continue;
    Report report;
    report.check = "misuse";
    report.what = "environment variable " + variable + ": got '" + value +
                  "', accepted: " + entry.accepts + "; ignored";
    Reporter::Get().Add(std::move(report));
  }
  (void)std::atexit(EndWithExitCode);
}

bool Settings::Set(std::string_view name, std::string_view value,
                   std::string* why) {
  for (const Entry& entry : Table()) {
    if (name != entry.name) continue;
    if (entry.set(*this, value)) return true;
    *why = "option " + std::string(name) + ": got '" + std::string(value) +
           "', accepted: " + entry.accepts;
    return false;
  }
  *why = "no option '" + std::string(name) + "'; accepted:";
  for (const Entry& entry : Table()) *why += std::string(" ") + entry.name;
  return false;
}

std::vector<std::string> Settings::Names() {
  std::vector<std::string> names;
  for (const Entry& entry : Table()) names.emplace_back(entry.name);
  return names;
}

}  // namespace softcuda::check
