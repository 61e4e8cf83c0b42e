// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_CAPTURE_SRC_NODE_RECORD_H_
#define PERMAFROST_CAPTURE_SRC_NODE_RECORD_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "permafrost/arena/kernel_signature.h"
#include "permafrost/driver/driver.h"

namespace permafrost {

/// Some bytes of a node's image that are one thing.
struct NodePart {
  std::string name;
  int64_t offset_bytes = 0;  ///< Into `NodeRecord::image`.
  int64_t size_bytes = 0;
  ParamKind kind = ParamKind::kOpaque;
};

/// What the driver says of one node, as bytes.
///
/// For a kernel the image is its parameter space, then the launch shape; for a
/// copy or a fill it is the fields of the driver's struct, 8 bytes each.
struct NodeRecord {
  CUgraphNode node = nullptr;
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  std::string name;  ///< Kernel name, "memcpy", "memset" or the kind's name.
  std::vector<std::byte> image;
  std::vector<NodePart> parts;  ///< By offset; gaps are padding.
  /// Parameter bytes at the front of the image; all of it but for kernels.
  int64_t param_bytes = 0;

  /// The unsigned value of up to 8 bytes of the image.
  uint64_t Value(int64_t offset_bytes, int64_t size_bytes) const;
  /// The value of the part of that name; the part must exist.
  uint64_t Value(absl::string_view part) const;
  /// For messages: the value in hexadecimal, or the bytes of a large part.
  std::string ValueText(const NodePart& part) const;
};

class GraphRecord {
 public:
  std::vector<NodeRecord> nodes;
};

/// The nodes of a graph in the driver's order.
absl::StatusOr<std::vector<CUgraphNode>> ListNodes(const Driver& driver,
                                                   CUgraph graph);

/// Reads a node from the driver. The parts of a kernel are the parameters that
/// the driver knows, "param 0" and so on, all opaque. A node of a kind that is
/// not read has no image.
absl::StatusOr<NodeRecord> ReadNode(const Driver& driver, CUgraphNode node);

/// How messages name a node: "node 3 (moe_swiglu)".
std::string NodeLabel(size_t index, const NodeRecord& node);

/// "memcpy", "host", "mem_alloc" and so on.
const char* NodeTypeName(CUgraphNodeType type);

}  // namespace permafrost

#endif  // PERMAFROST_CAPTURE_SRC_NODE_RECORD_H_
