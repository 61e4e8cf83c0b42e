// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_SRC_MODEL_CONFIG_READER_H_
#define PERMAFROST_ARENA_SRC_MODEL_CONFIG_READER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "nlohmann/json.hpp"
#include "strict_json.h"

namespace permafrost {

/// The largest figure that is read: no model comes near it, and the product of
/// two still fits 64 bits.
inline constexpr int64_t kMostOfAFigure = int64_t{1} << 31;

/// One figure of a config: every key that may hold it, in order, and the least
/// value that makes sense.
struct ConfigFigure {
  absl::Span<const char* const> keys;
  int64_t least = 1;
  /// A list counts as its widest entry.
  bool may_be_list = false;
  /// What the word "auto" stands for; without it the word is refused.
  std::optional<int64_t> automatic = std::nullopt;
};

/// The keys of one config.json, with errors that name the source and the key.
///
/// A key whose value is null counts as absent, as the tools that write these
/// files mean it. Of several spellings of one figure all that are present must
/// agree.
class ConfigReader {
 public:
  using Json = nlohmann::json;

  static absl::StatusOr<ConfigReader> Parse(absl::string_view text,
                                            absl::string_view source);

  /// The figure; nullopt when no spelling is present.
  absl::StatusOr<std::optional<int64_t>> Optional(
      const ConfigFigure& figure) const;
  /// The figure; an error listing the spellings when none is present.
  absl::StatusOr<int64_t> Required(const ConfigFigure& figure) const;
  /// `absent` when the key is not there.
  absl::StatusOr<bool> Bool(const char* key, bool absent) const;
  /// A list of integers from `least` to `most`; nullopt when the key is absent.
  absl::StatusOr<std::optional<std::vector<int64_t>>> Integers(
      const char* key, int64_t least, int64_t most) const;
  /// The value of a key whose form the caller checks; null when it is absent.
  const Json* Find(absl::string_view key) const { return Present(Text(), key); }
  /// The value beside the nested text; null when it is absent or nothing is
  /// nested.
  const Json* FindOutside(absl::string_view key) const {
    return nested_ ? Present(root_, key) : nullptr;
  }
  /// The family, from the nested text first; empty when it is nowhere.
  absl::StatusOr<std::string> ModelType() const;

  /// An error of this config: `model config 'source': what`.
  absl::Status Refuse(absl::string_view what) const;
  /// The spelling that this config uses, as `Path` writes it; the first one
  /// where it uses none.
  std::string KeyOf(const ConfigFigure& figure) const;
  /// The key as the file's reader would look for it: `text_config.hidden_size`.
  std::string Path(absl::string_view key) const;

 private:
  explicit ConfigReader(absl::string_view source) : source_(source) {}

  /// Where the figures are: the object itself, or its `text_config`.
  const Json& Text() const;
  /// Null when the key is absent or its value is null.
  static const Json* Present(const Json& object, absl::string_view key);
  /// The number that `value` holds for `figure`; nullopt for any other value.
  static std::optional<int64_t> NumberIn(const Json& value,
                                         const ConfigFigure& figure);

  std::string source_;
  Json root_;
  bool nested_ = false;
};

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_SRC_MODEL_CONFIG_READER_H_
