# shellcheck shell=bash
# SPDX-FileCopyrightText: The permafrost authors
# SPDX-License-Identifier: Apache-2.0
#
# What script/demo and script/test share; sourced, with `set -euo pipefail` on.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jobs=$(nproc)
readonly root jobs

step() { printf '== %s\n' "$*" >&2; }

# Sets the machine up and takes over what the build needs to know of it.
prepare() {
  "$root/script/setup"
  local variables
  variables=$("$root/script/setup" --print-env)
  eval "$variables"
  if [[ -z ${CMAKE_CXX_COMPILER_LAUNCHER:-} ]] && command -v ccache >/dev/null; then
    export CMAKE_CXX_COMPILER_LAUNCHER=ccache
  fi
}

# build PRESET [TARGET...]: configures a preset and builds it, or these targets of
# it. Standard output stays free for the program that comes after.
build() {
  local preset=$1 log
  shift
  step "build: preset $preset${*:+, targets $*}"
  mkdir -p "$root/build/$preset"
  log=$root/build/$preset/configure.log
  # A build folder remembers the toolkit it was made with; the one that setup
  # chose today wins.
  if ! cmake -S "$root" --preset "$preset" -UPERMAFROST_CUDA_INCLUDE_DIR \
    "-DPERMAFROST_NVCC=$CUDA_HOME/bin/nvcc" >"$log" 2>&1; then
    cat "$log" >&2
    printf 'configuring preset %s failed (%s)\n' "$preset" "$log" >&2
    return 1
  fi
  cmake --build "$root/build/$preset" --parallel "$jobs" ${1:+--target "$@"} >&2
}
