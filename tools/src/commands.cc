// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "commands.h"

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "command_line.h"
#include "foreign_text.h"
#include "permafrost/driver/status.h"
#include "text_file.h"

ABSL_FLAG(std::string, json, "",
          "JSON instead of text: alone to the standard output, --json=FILE "
          "into a file");

namespace permafrost::tool {

std::string JsonTarget() { return absl::GetFlag(FLAGS_json); }

absl::Status SendDocument(const CommandFlag& flag, const std::string& target,
                          const std::string& document, CommandOutput& output) {
  if (target == "-") {
    absl::StrAppend(&output.text, document);
    output.is_document = true;
    return absl::OkStatus();
  }
  if (const absl::Status written = WriteTextFile(target, document);
      !written.ok()) {
    return Annotate(written, SpelledFlag(flag.name));
  }
  absl::StrAppend(&output.notes, "wrote ", PrintableText(target), " (",
                  document.size(), " bytes)\n");
  return absl::OkStatus();
}

}  // namespace permafrost::tool
