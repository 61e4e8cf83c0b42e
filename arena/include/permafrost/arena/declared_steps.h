// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_DECLARED_STEPS_H_
#define PERMAFROST_ARENA_DECLARED_STEPS_H_

#include "permafrost/arena/model_config.h"
#include "permafrost/arena/serving_limits.h"
#include "permafrost/arena/step_dag.h"

namespace permafrost {

/// Which step of serving a DAG is of.
enum class StepPhase {
  kDecode,   ///< a token, or a token and its drafts, of each sequence
  kPrefill,  ///< chunks of prompts
};

/// On how many streams the step is issued.
enum class StepStreams {
  kOne,
  /// A side stream runs the shared expert, the small projections of the gated
  /// delta net, and the norm and store of latent keys, each joined before use.
  kForked,
};

/// What a step of that model does with the buffers of `BufferTable()`, written
/// down beside the table: two layers in a row of each kind that the model has,
/// between embedding and head.
///
/// It says which operations use which buffers and in what order, so that a plan
/// can be made before anything runs; its origin is `kDeclared`. Buffers that
/// this model or these limits do without are left out, and so are operations
/// that would write nothing else. Weights, caches and states are no buffers of
/// the arena and are not listed.
/// With 2-bit weights or adapters, projections share scratch and so stay on one
/// stream.
///
/// The result passes `ValidateStepDag`. Threads: any. Capture: no driver call.
StepDag DeclareStep(const ModelConfig& config, const ServingLimits& limits,
                    StepPhase phase, StepStreams streams);

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_DECLARED_STEPS_H_
