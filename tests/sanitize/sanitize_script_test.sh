#!/usr/bin/env bash
# SPDX-FileCopyrightText: The permafrost authors
# SPDX-License-Identifier: Apache-2.0
#
# script/sanitize with a stand-in for compute-sanitizer: what is blind, noisy or
# not there is never a pass.
set -euo pipefail
readonly script=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# As compute-sanitizer: --tool TOOL --nvtx=yes --error-exitcode CODE PROGRAM ...
cat >"$work/tool" <<'TOOL'
#!/usr/bin/env bash
tool=$2 code=$5 program=$6 fault=${7:-}
case $KIND in
  blind) ;;
  noisy) echo "========= at probe_$tool+0x10"; exit "$code" ;;
  elsewhere) [[ $fault != "$tool" ]] || exit "$code" ;;
  seeing)
    if [[ $fault == "$tool" ]]; then
      echo "========= at probe_$tool+0x10"
      exit "$code"
    fi
    [[ $program != *faulty ]] || exit "$code"
    ;;
esac
exec "$program"
TOOL
for program in probe sound faulty; do
  printf '#!/bin/sh\nexit 0\n' >"$work/$program"
done
printf '#!/bin/sh\nexit 1\n' >"$work/failing"
chmod +x "$work"/*

# expect CODE TEXT COMMAND...
expect() {
  local wanted=$1 text=$2 code=0 output
  shift 2
  output=$("$@" 2>&1) || code=$?
  if [[ $code != "$wanted" || $output != *"$text"* ]]; then
    echo "want status $wanted and '$text', got status $code and: $output" >&2
    failures=$((failures + 1))
  fi
}

# with_tool KIND SECONDS PROGRAM...
# shellcheck disable=SC2317  # called through expect
with_tool() {
  local kind=$1 seconds=$2
  shift 2
  KIND=$kind PERMAFROST_COMPUTE_SANITIZER=$work/tool "$script" --gpu-programs \
    memcheck "$seconds" "$work/probe" "${@/#/$work/}"
}

expect 0 "result: PASS" with_tool seeing 60 sound
expect 1 "result: FAIL (found something: memcheck)" with_tool seeing 60 sound faulty
expect 1 "result: FAIL (found something: memcheck)" with_tool seeing 60 failing
expect 3 "blind to the planted fault" with_tool blind 60 sound
expect 3 "result: FAIL (not run: memcheck)" with_tool blind 60 sound
# It reports the sound kernel too, or something that is not the planted fault.
expect 3 "result: FAIL (not run: memcheck)" with_tool noisy 60 sound
expect 3 "result: FAIL (not run: memcheck)" with_tool elsewhere 60 sound
expect 3 "no time left for sound" with_tool seeing 0 sound
expect 3 "no compute-sanitizer" env PERMAFROST_COMPUTE_SANITIZER="$work/none" \
  "$script" --gpu-programs memcheck 60 "$work/probe" "$work/sound"
expect 2 "" "$script" --gpu-programs leakcheck 60 "$work/probe" "$work/sound"
expect 2 "" "$script" --gpu-programs memcheck 60 "$work/probe"
expect 2 "" "$script" --no-such-option
# softcuda's checkers: a probe after which nobody said anything.
expect 1 "probe memcheck: exit status 0" "$script" --probe "$work/probe" memcheck
expect 0 "" "$script" --probe "$work/probe" none
expect 1 "probe none: exit status 1" "$script" --probe "$work/failing" none

exit "$((failures > 0))"
