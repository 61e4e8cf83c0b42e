// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "model_config_quantization.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "permafrost/driver/status.h"

namespace permafrost {
namespace {

using Json = ConfigReader::Json;

constexpr char kConfigKey[] = "quantization_config";
/// Where MLX copies say it, beside the key that others read.
constexpr char kMlxKey[] = "quantization";

struct Method {
  const char* name;
  Quantization kind;
};

constexpr Method kMethods[] = {
    {"fp8", Quantization::kFp8},
    {"mxfp4", Quantization::kMxfp4},
    {"gptq", Quantization::kGptq},
    {"awq", Quantization::kAwq},
    {"compressed-tensors", Quantization::kCompressedTensors},
    {"modelopt", Quantization::kModelOpt},
};

/// The two spellings of the one FP8 format that weights are stored in.
constexpr const char* kFormats[] = {"e4m3", "float8_e4m3fn"};

std::string KnownMethods() {
  return absl::StrJoin(kMethods, ", ",
                       [](std::string* out, const Method& method) {
                         absl::StrAppend(out, method.name);
                       });
}

const Json* Member(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

bool IsMlx(const Json& value) {
  return value.is_object() && Member(value, "quant_method") == nullptr &&
         (Member(value, "bits") != nullptr ||
          Member(value, "group_size") != nullptr);
}

/// The part of a config that says how weights are stored, and its path.
struct Section {
  const Json* value;
  std::string path;
};

absl::Status RefuseMlx(const ConfigReader& reader, const std::string& path) {
  return reader.Refuse(absl::StrCat(
      "'", path,
      "': got group_size and bits without quant_method, the form of "
      "MLX copies, whose weights are laid out for another runtime; accepted: "
      "the config.json of the original model, or a quant_method of ",
      KnownMethods()));
}

absl::Status CheckFormat(const ConfigReader& reader, const Section& section) {
  const Json* format = Member(*section.value, "fmt");
  if (format == nullptr) return absl::OkStatus();
  for (const char* known : kFormats) {
    if (*format == known) return absl::OkStatus();
  }
  return reader.Refuse(absl::StrCat(
      "'", section.path, ".fmt': got ", DescribeJson(*format),
      "; accepted: ", absl::StrJoin(kFormats, " or "), ", or no key"));
}

absl::Status CheckBlockSize(const ConfigReader& reader,
                            const Section& section) {
  const Json* size = Member(*section.value, "weight_block_size");
  if (size == nullptr) return absl::OkStatus();
  const bool is_pair =
      size->is_array() && size->size() == 2 &&
      std::all_of(size->begin(), size->end(), [](const Json& side) {
        return IntegerIn(side, 1, kMostOfAFigure).has_value();
      });
  if (is_pair) return absl::OkStatus();
  return reader.Refuse(absl::StrCat(
      "'", section.path, ".weight_block_size': got ", DescribeJson(*size),
      "; accepted: a list of two integers from 1, or no key"));
}

absl::StatusOr<Quantization> ReadSection(const ConfigReader& reader,
                                         const Section& section) {
  if (!section.value->is_object()) {
    return reader.Refuse(absl::StrCat("'", section.path, "': got ",
                                      DescribeJson(*section.value),
                                      "; accepted: an object, or no key"));
  }
  if (IsMlx(*section.value)) return RefuseMlx(reader, section.path);
  const Json* method = Member(*section.value, "quant_method");
  const auto known = std::find_if(
      std::begin(kMethods), std::end(kMethods), [&](const Method& candidate) {
        return method != nullptr && *method == candidate.name;
      });
  if (known == std::end(kMethods)) {
    return reader.Refuse(absl::StrCat(
        "'", section.path, ".quant_method': got ",
        method == nullptr ? "no such key or null" : DescribeJson(*method),
        "; accepted: ", KnownMethods(), ", or no ", kConfigKey));
  }
  PERMAFROST_RETURN_IF_ERROR(CheckFormat(reader, section));
  PERMAFROST_RETURN_IF_ERROR(CheckBlockSize(reader, section));
  return known->kind;
}

/// The section under `key`, nested first; both where both are there.
std::vector<Section> SectionsOf(const ConfigReader& reader, const char* key) {
  std::vector<Section> sections;
  if (const Json* inner = reader.Find(key)) {
    sections.push_back({inner, reader.Path(key)});
  }
  if (const Json* outer = reader.FindOutside(key)) {
    sections.push_back({outer, key});
  }
  return sections;
}

}  // namespace

absl::StatusOr<Quantization> ReadQuantization(const ConfigReader& reader) {
  for (const Section& section : SectionsOf(reader, kMlxKey)) {
    if (IsMlx(*section.value)) return RefuseMlx(reader, section.path);
  }
  const std::vector<Section> sections = SectionsOf(reader, kConfigKey);
  std::optional<Quantization> found;
  for (const Section& section : sections) {
    PERMAFROST_ASSIGN_OR_RETURN(const Quantization kind,
                                ReadSection(reader, section));
    if (found && *found != kind) {
      return reader.Refuse(absl::StrCat(
          "'", sections[0].path, "' and '", section.path, "' disagree: got ",
          DescribeJson(*Member(*sections[0].value, "quant_method")), " and ",
          DescribeJson(*Member(*section.value, "quant_method")),
          "; accepted: one of them, or both with the same quant_method"));
    }
    found = kind;
  }
  return found.value_or(Quantization::kNone);
}

}  // namespace permafrost
