// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_RUNTIME_ANSWERS_H_
#define SOFTCUDA_RUNTIME_ANSWERS_H_

#include <cuda.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/policy.h"

// Decisions that no documentation makes, and files of drivers' answers to them.
namespace softcuda::runtime {

enum class Answer : uint8_t {
#define SOFTCUDA_ANSWER(name, key, ...) k##name,
#define SOFTCUDA_CLASS_ANSWER(api, key)
#define SOFTCUDA_FIXED_ANSWER(key, value)
#include "runtime/answers.inc"
#undef SOFTCUDA_ANSWER
#undef SOFTCUDA_CLASS_ANSWER
#undef SOFTCUDA_FIXED_ANSWER
};

/// The decision: the default, or what a file said.
int AnswerTo(Answer answer);
inline CUresult CodeOf(Answer answer) {
  return static_cast<CUresult>(AnswerTo(answer));
}
inline bool Says(Answer answer) { return AnswerTo(answer) != 0; }

/// The capture class that a file gave the entry point, or `fallback`.
CaptureClass AnsweredClass(Api api, CaptureClass fallback);

/// Keys and values of a file of answers.
using AnswerList = std::vector<std::pair<std::string, int64_t>>;

/// Reads the text of a file of answers: a JSON object whose member "answers" is
/// an object of integers. Other members may be strings and integers.
///
/// False, with what is wrong and where in `*error`, for any other text; then
/// `*answers` is as it was.
bool ParseAnswers(std::string_view text, AnswerList* answers,
                  std::string* error);

/// Puts answers in the place of defaults; -1 is what nobody could tell, and
/// leaves the default. Returns a line for each that is not used: unknown keys,
/// and values that softcuda cannot do.
std::vector<std::string> ApplyAnswers(const AnswerList& answers);

/// Reads the file that PERMAFROST_SOFTCUDA_POLICY names, if any. What is wrong
/// with it is reported as misuse, and a file that cannot be read changes
/// nothing.
///
/// Threads: before the first call of the driver.
void LoadAnswersFromEnvironment();

}  // namespace softcuda::runtime

#endif  // SOFTCUDA_RUNTIME_ANSWERS_H_
