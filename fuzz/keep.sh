#!/usr/bin/env bash
# Minimises what fuzz/run.sh gathered, and keeps it in fuzz/kept/<target>.a: the smallest set of inputs that reaches what all
# of them reach, of these the smaller ones, up to 120 inputs and 120 KB a target.
#
#     fuzz/keep.sh [TARGET...]
#
# WORK as for fuzz/run.sh, which built the executables.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(cd "${WORK:-$here}" && pwd)
kept=$here/kept
host=$(rustc +nightly -vV | sed -n 's/^host: //p')
targets=("$@")
if [ ${#targets[@]} = 0 ]; then
  targets=($(cd "$here/fuzz_targets" && ls | sed 's/\.rs$//'))
fi
scratch=$(mktemp -d -p "$([ -d /dev/shm ] && echo /dev/shm || echo /tmp)")
trap 'rm -rf "$scratch"' EXIT
export TMPDIR=$scratch
for target in "${targets[@]}"; do
  all=("$work/corpus/$target")
  mkdir "$scratch/$target" "$scratch/$target.kept" "$scratch/$target.new"
  if [ -e "$kept/$target.a" ]; then
    ar x --output "$scratch/$target.kept" "$kept/$target.a"
    all+=("$scratch/$target.kept")
  fi
  inputs=$(find "${all[@]}" -type f | wc -l)
  "$here/target/$host/release/$target" -set_cover_merge=1 -max_len=16384 -rss_limit_mb=1024 -malloc_limit_mb=4096 \
    -artifact_prefix="$scratch/" "$scratch/$target" "${all[@]}" >"$scratch/log" 2>&1 || { tail -n 3 "$scratch/log" >&2; exit 1; }
  find "$scratch/$target" -type f -printf '%s %f\n' | sort -n | awk 'NR <= 120 && (sum += $1) <= 122880 { print $2 }' |
    while read -r name; do
      cp "$scratch/$target/$name" "$scratch/$target.new/"
    done
  # D: without times and owners; S: without an index.
  rm -f "$kept/$target.a"
  (cd "$scratch/$target.new" && ls | LC_ALL=C sort | xargs ar qcDS "$kept/$target.a")
  echo "$target: $inputs inputs, $(ls "$scratch/$target" | wc -l) after minimising," \
    "$(ls "$scratch/$target.new" | wc -l) kept"
done
