// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "model_config_layers.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "permafrost/driver/status.h"

namespace permafrost {
namespace {

using Json = ConfigReader::Json;
using Layers = std::vector<LayerKind>;

/// Far beyond any model, and a list that is still small.
constexpr int64_t kMostLayers = 1 << 16;
constexpr char kLayerCount[] = "num_hidden_layers";
constexpr char kInterval[] = "full_attention_interval";
constexpr int64_t kUsualInterval = 4;

/// What a list can say of a layer; a family gives the linear ones their kind.
enum class LayerWord {
  kFull,
  kSliding,
  kLinear,
  kMamba,
  kFeedForward,
  kExperts,
};

struct LayerSpelling {
  const char* text;
  LayerWord word;
};

// The attentions of deepseek_v4 and qwen4_exp reach over the whole sequence,
// whatever they compress or select.
constexpr LayerSpelling kWordList[] = {
    {"full_attention", LayerWord::kFull},
    {"attention", LayerWord::kFull},
    {"compressed_sparse_attention", LayerWord::kFull},
    {"heavily_compressed_attention", LayerWord::kFull},
    {"deepseek_sparse_attention", LayerWord::kFull},
    {"hybrid_indexed", LayerWord::kFull},
    {"sliding_attention", LayerWord::kSliding},
    {"chunked_attention", LayerWord::kSliding},
    {"linear_attention", LayerWord::kLinear},
    {"mamba", LayerWord::kMamba},
    {"mlp", LayerWord::kFeedForward},
    {"moe", LayerWord::kExperts},
};
constexpr LayerSpelling kLetterPattern[] = {
    {"M", LayerWord::kMamba},
    {"*", LayerWord::kFull},
    {"-", LayerWord::kFeedForward},
    {"E", LayerWord::kExperts},
};
constexpr LayerSpelling kNumberList[] = {
    {"0", LayerWord::kLinear},
    {"1", LayerWord::kFull},
};

enum class ListForm { kWords, kLetters, kNumbers };

struct LayerListKey {
  const char* key;
  ListForm form;
  /// Whether its length stands for an absent layer count.
  bool counts_layers;
};

constexpr LayerListKey kLists[] = {
    {"layer_types", ListForm::kWords, false},
    {"layers_block_type", ListForm::kWords, true},
    {"hybrid_override_pattern", ListForm::kLetters, true},
    {"attn_type_list", ListForm::kNumbers, false},
};

absl::Span<const LayerSpelling> SpellingsOf(ListForm form) {
  switch (form) {
    case ListForm::kWords:
      return kWordList;
    case ListForm::kLetters:
      return kLetterPattern;
    case ListForm::kNumbers:
      break;
  }
  return kNumberList;
}

const char* NameOf(LayerKind kind) {
  switch (kind) {
    case LayerKind::kFullAttention:
      return "full attention";
    case LayerKind::kSlidingAttention:
      return "sliding attention";
    case LayerKind::kLinearAttention:
      return "linear attention";
    case LayerKind::kMamba2:
      return "Mamba-2";
    case LayerKind::kFeedForward:
      return "dense feed-forward";
    case LayerKind::kExperts:
      break;
  }
  return "experts";
}

/// What the word means in this family; nullopt where it has no such layer.
std::optional<LayerKind> KindOf(LayerWord word, const Family& family) {
  const bool lists_feed_forward = family.placement == MoePlacement::kLayerList;
  switch (word) {
    case LayerWord::kFull:
      return LayerKind::kFullAttention;
    case LayerWord::kSliding:
      return LayerKind::kSlidingAttention;
    case LayerWord::kLinear:
      if (family.linear == LinearRule::kNone) return std::nullopt;
      // transformers 5 renames the Mamba layers of its configs to this.
      return family.linear == LinearRule::kMamba2 ? LayerKind::kMamba2
                                                  : LayerKind::kLinearAttention;
    case LayerWord::kMamba:
      if (family.linear != LinearRule::kMamba2) return std::nullopt;
      return LayerKind::kMamba2;
    case LayerWord::kFeedForward:
      if (!lists_feed_forward) return std::nullopt;
      return LayerKind::kFeedForward;
    case LayerWord::kExperts:
      if (!lists_feed_forward) return std::nullopt;
      return LayerKind::kExperts;
  }
  return std::nullopt;
}

/// The entries of a list as texts; nullopt when the value is no such list.
std::optional<std::vector<std::string>> EntriesOf(const Json& value,
                                                  ListForm form) {
  std::vector<std::string> entries;
  if (form == ListForm::kLetters) {
    if (!value.is_string()) return std::nullopt;
    for (char c : value.get_ref<const std::string&>()) {
      entries.emplace_back(1, c);
    }
    return entries;
  }
  if (!value.is_array()) return std::nullopt;
  for (const Json& entry : value) {
    if (form == ListForm::kWords && entry.is_string()) {
      entries.push_back(entry.get<std::string>());
    } else if (form == ListForm::kNumbers && entry.is_number_integer()) {
      entries.push_back(entry.dump());
    } else {
      entries.push_back(DescribeJson(entry));
    }
  }
  return entries;
}

absl::StatusOr<Layers> ReadList(const ConfigReader& reader,
                                const Family& family, const LayerListKey& list,
                                const Json& value) {
  const absl::Span<const LayerSpelling> spellings = SpellingsOf(list.form);
  const auto refuse = [&](const std::string& got) {
    std::vector<std::string> known;
    for (const LayerSpelling& spelling : spellings) {
      if (KindOf(spelling.word, family)) known.emplace_back(spelling.text);
    }
    return reader.Refuse(absl::StrCat(
        "'", reader.Path(list.key), "': got ", got, "; accepted of ",
        family.model_type, ": ",
        list.form == ListForm::kLetters ? "a string of " : "a list of ",
        absl::StrJoin(known, ", "), ", one a layer"));
  };
  const std::optional<std::vector<std::string>> entries =
      EntriesOf(value, list.form);
  if (!entries) return refuse(DescribeJson(value));
  if (entries->empty()) return refuse("an empty list");
  Layers layers;
  for (const std::string& entry : *entries) {
    const auto found =
        std::find_if(spellings.begin(), spellings.end(),
                     [&](const LayerSpelling& s) { return entry == s.text; });
    const std::optional<LayerKind> kind =
        found == spellings.end() ? std::nullopt : KindOf(found->word, family);
    if (!kind) {
      return refuse(absl::StrCat("'", QuoteForeign(entry), "' for layer ",
                                 layers.size()));
    }
    layers.push_back(*kind);
  }
  return layers;
}

/// A list that a config holds, with the key that holds it.
struct FoundLayers {
  const char* key;
  Layers layers;
};

/// Two descriptions of the same layers, of which one may be a rule.
absl::Status CheckAgree(const ConfigReader& reader, const FoundLayers& first,
                        const FoundLayers& second) {
  const auto refuse = [&](const std::string& got, const std::string& other) {
    return reader.Refuse(absl::StrCat(
        "'", reader.Path(first.key), "' and '", reader.Path(second.key),
        "' disagree: got ", got, " and ", other,
        "; accepted: one of them, or both with the same layers"));
  };
  if (first.layers.size() != second.layers.size()) {
    return refuse(absl::StrCat(first.layers.size(), " layers"),
                  absl::StrCat(second.layers.size(), " layers"));
  }
  const auto [at, other] = std::mismatch(
      first.layers.begin(), first.layers.end(), second.layers.begin());
  if (at == first.layers.end()) return absl::OkStatus();
  return refuse(
      absl::StrCat(NameOf(*at), " for layer ", at - first.layers.begin()),
      NameOf(*other));
}

/// The layer list of the config; nullopt when it has none.
absl::StatusOr<std::optional<FoundLayers>> ReadLists(const ConfigReader& reader,
                                                     const Family& family) {
  std::optional<FoundLayers> found;
  for (const LayerListKey& list : kLists) {
    const Json* value = reader.Find(list.key);
    if (value == nullptr) continue;
    PERMAFROST_ASSIGN_OR_RETURN(Layers layers,
                                ReadList(reader, family, list, *value));
    FoundLayers next = {list.key, std::move(layers)};
    if (found) {
      PERMAFROST_RETURN_IF_ERROR(CheckAgree(reader, *found, next));
    } else {
      found = std::move(next);
    }
  }
  return found;
}

/// Whether the length of the list under `key` stands for the layer count.
bool CountsLayers(const char* key) {
  return std::any_of(std::begin(kLists), std::end(kLists),
                     [key](const LayerListKey& list) {
                       return list.key == key && list.counts_layers;
                     });
}

absl::StatusOr<int64_t> ReadLayerCount(const ConfigReader& reader,
                                       const std::optional<FoundLayers>& list) {
  constexpr const char* kKeys[] = {kLayerCount};
  PERMAFROST_ASSIGN_OR_RETURN(const std::optional<int64_t> count,
                              reader.Optional({.keys = kKeys}));
  const int64_t listed =
      list ? static_cast<int64_t>(list->layers.size()) : int64_t{0};
  if (!count && !(list && CountsLayers(list->key))) {
    return reader.Required({.keys = kKeys});
  }
  if (count.value_or(listed) > kMostLayers) {
    return reader.Refuse(absl::StrCat(
        "'", reader.Path(count ? kLayerCount : list->key), "': got ",
        count.value_or(listed), " layers; accepted: 1 to ", kMostLayers));
  }
  if (!count) return listed;
  if (list && listed != *count) {
    return reader.Refuse(
        absl::StrCat("'", reader.Path(list->key), "': got ", listed,
                     " layers; accepted: one for each of the ", *count, " of '",
                     reader.Path(kLayerCount), "'"));
  }
  return *count;
}

Layers Periodic(int64_t count, int64_t interval, LayerKind between) {
  Layers layers;
  for (int64_t i = 0; i < count; ++i) {
    layers.push_back((i + 1) % interval == 0 ? LayerKind::kFullAttention
                                             : between);
  }
  return layers;
}

absl::Status RefuseMissingList(const ConfigReader& reader,
                               const Family& family) {
  return reader.Refuse(absl::StrCat(
      "'", reader.Path(kLists[0].key), "': got no such key or null; accepted: ",
      absl::StrJoin(kLists, " or ",
                    [](std::string* out, const LayerListKey& list) {
                      absl::StrAppend(out, list.key);
                    }),
      ", since the layers of ", family.model_type, " differ"));
}

/// The layers that a list of layer numbers names.
std::vector<bool> MarkLayers(int64_t num_layers,
                             const std::vector<int64_t>& listed) {
  std::vector<bool> marked(static_cast<size_t>(num_layers), false);
  for (int64_t layer : listed) marked[static_cast<size_t>(layer)] = true;
  return marked;
}

/// How many of the layers `is_moe` holds of.
template <typename Predicate>
int64_t CountLayers(int64_t num_layers, Predicate is_moe) {
  int64_t count = 0;
  for (int64_t i = 0; i < num_layers; ++i) count += is_moe(i) ? 1 : 0;
  return count;
}

/// Those after `first_k_dense_replace` dense layers, of which every
/// `moe_layer_freq`-th is routed, or those that a list of 0 and 1 picks.
absl::StatusOr<int64_t> CountAfterDense(const ConfigReader& reader,
                                        int64_t num_layers) {
  constexpr const char* kFirst[] = {"first_k_dense_replace"};
  constexpr const char* kEvery[] = {"moe_layer_freq"};
  PERMAFROST_ASSIGN_OR_RETURN(const std::optional<int64_t> first,
                              reader.Optional({.keys = kFirst, .least = 0}));
  const int64_t dense = first.value_or(0);
  if (dense > num_layers) {
    return reader.Refuse(absl::StrCat("'", reader.Path(kFirst[0]), "': got ",
                                      dense, "; accepted: 0 to ", num_layers,
                                      ", the layers of the model"));
  }
  const Json* frequency = reader.Find(kEvery[0]);
  if (frequency != nullptr && frequency->is_array()) {
    PERMAFROST_ASSIGN_OR_RETURN(const std::optional<std::vector<int64_t>> picks,
                                reader.Integers(kEvery[0], 0, 1));
    if (static_cast<int64_t>(picks->size()) != num_layers) {
      return reader.Refuse(absl::StrCat(
          "'", reader.Path(kEvery[0]), "': got ", picks->size(),
          " layers; accepted: an integer, or one entry for each of the ",
          num_layers, " of '", reader.Path(kLayerCount), "'"));
    }
    return CountLayers(num_layers, [&](int64_t i) {
      return i >= dense && (*picks)[static_cast<size_t>(i)] == 1;
    });
  }
  PERMAFROST_ASSIGN_OR_RETURN(const std::optional<int64_t> every,
                              reader.Optional({.keys = kEvery}));
  return CountLayers(num_layers, [&](int64_t i) {
    return i >= dense && i % every.value_or(1) == 0;
  });
}

absl::StatusOr<int64_t> CountSparseStep(const ConfigReader& reader,
                                        int64_t num_layers) {
  constexpr const char* kStep[] = {"decoder_sparse_step"};
  PERMAFROST_ASSIGN_OR_RETURN(const std::optional<int64_t> step,
                              reader.Optional({.keys = kStep}));
  PERMAFROST_ASSIGN_OR_RETURN(
      const std::optional<std::vector<int64_t>> dense,
      reader.Integers("mlp_only_layers", 0, num_layers - 1));
  const std::vector<bool> is_dense =
      MarkLayers(num_layers, dense.value_or(std::vector<int64_t>()));
  return CountLayers(num_layers, [&](int64_t i) {
    return (i + 1) % step.value_or(1) == 0 && !is_dense[static_cast<size_t>(i)];
  });
}

absl::StatusOr<int64_t> CountInterleaved(const ConfigReader& reader,
                                         int64_t num_layers) {
  PERMAFROST_ASSIGN_OR_RETURN(const std::optional<std::vector<int64_t>> listed,
                              reader.Integers("moe_layers", 0, num_layers - 1));
  constexpr const char* kStep[] = {"interleave_moe_layer_step"};
  PERMAFROST_ASSIGN_OR_RETURN(const std::optional<int64_t> step,
                              reader.Optional({.keys = kStep}));
  if (listed) {
    const std::vector<bool> is_moe = MarkLayers(num_layers, *listed);
    return std::count(is_moe.begin(), is_moe.end(), true);
  }
  return CountLayers(
      num_layers, [&](int64_t i) { return (i + 1) % step.value_or(1) == 0; });
}

absl::StatusOr<int64_t> CountMoeLayers(const ConfigReader& reader,
                                       MoePlacement placement,
                                       const ModelConfig& config) {
  switch (placement) {
    case MoePlacement::kEveryLayer:
      break;
    case MoePlacement::kAfterDense:
      return CountAfterDense(reader, config.num_layers);
    case MoePlacement::kSparseStep:
      return CountSparseStep(reader, config.num_layers);
    case MoePlacement::kInterleaved:
      return CountInterleaved(reader, config.num_layers);
    case MoePlacement::kLayerList:
      return static_cast<int64_t>(std::count(
          config.layers.begin(), config.layers.end(), LayerKind::kExperts));
  }
  return config.num_layers;
}

/// The keys that decide where the experts are, for an error.
const char* PlacementKeys(MoePlacement placement) {
  switch (placement) {
    case MoePlacement::kEveryLayer:
      break;
    case MoePlacement::kAfterDense:
      return "first_k_dense_replace and moe_layer_freq";
    case MoePlacement::kSparseStep:
      return "decoder_sparse_step and mlp_only_layers";
    case MoePlacement::kInterleaved:
      return "moe_layers and interleave_moe_layer_step";
    case MoePlacement::kLayerList:
      return "the layer list";
  }
  return "num_hidden_layers";
}

}  // namespace

absl::Status ReadLayers(const ConfigReader& reader, const Family& family,
                        ModelConfig& config) {
  PERMAFROST_ASSIGN_OR_RETURN(std::optional<FoundLayers> list,
                              ReadLists(reader, family));
  PERMAFROST_ASSIGN_OR_RETURN(config.num_layers, ReadLayerCount(reader, list));
  std::optional<FoundLayers> rule;
  switch (family.layers) {
    case LayerRule::kListRequired:
      if (!list) return RefuseMissingList(reader, family);
      break;
    case LayerRule::kFull:
      config.layers = Periodic(config.num_layers, 1, LayerKind::kFullAttention);
      break;
    case LayerRule::kAlternating:
      config.layers =
          Periodic(config.num_layers, 2, LayerKind::kSlidingAttention);
      break;
    case LayerRule::kInterval: {
      constexpr const char* kKeys[] = {kInterval};
      PERMAFROST_ASSIGN_OR_RETURN(const std::optional<int64_t> interval,
                                  reader.Optional({.keys = kKeys}));
      config.layers =
          Periodic(config.num_layers, interval.value_or(kUsualInterval),
                   LayerKind::kLinearAttention);
      if (interval) rule = FoundLayers{kInterval, config.layers};
      break;
    }
  }
  if (!list) return absl::OkStatus();
  if (rule) PERMAFROST_RETURN_IF_ERROR(CheckAgree(reader, *list, *rule));
  config.layers = std::move(list->layers);
  return absl::OkStatus();
}

absl::Status ReadMoePlacement(const ConfigReader& reader, const Family& family,
                              ModelConfig& config) {
  if (!config.is_moe()) return absl::OkStatus();
  PERMAFROST_ASSIGN_OR_RETURN(config.num_moe_layers,
                              CountMoeLayers(reader, family.placement, config));
  if (config.num_moe_layers == 0) {
    return reader.Refuse(absl::StrCat(
        PlacementKeys(family.placement), ": got no layer for the ",
        config.num_experts,
        " experts; accepted: at least one such layer, or no experts"));
  }
  return absl::OkStatus();
}

}  // namespace permafrost
