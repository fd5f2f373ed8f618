#!/usr/bin/env bash
# Minimises what fuzz/run.sh gathered, and keeps it as fuzz/kept/<target>/: the smallest set of inputs that reaches what all
# of them reach, of these the smaller ones, up to 120 files and 120 KB a target.
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
  [ ! -d "$kept/$target" ] || all+=("$kept/$target")
  inputs=$(find "${all[@]}" -type f | wc -l)
  mkdir "$scratch/$target"
  "$here/target/$host/release/$target" -set_cover_merge=1 -max_len=16384 -rss_limit_mb=1024 -malloc_limit_mb=4096 \
    -artifact_prefix="$scratch/" "$scratch/$target" "${all[@]}" >"$scratch/log" 2>&1 || { tail -n 3 "$scratch/log" >&2; exit 1; }
  rm -rf "${kept:?}/$target"
  mkdir -p "$kept/$target"
  find "$scratch/$target" -type f -printf '%s %f\n' | sort -n | awk 'NR <= 120 && (sum += $1) <= 122880 { print $2 }' |
    while read -r name; do
      cp "$scratch/$target/$name" "$kept/$target/"
    done
  echo "$target: $inputs inputs, $(ls "$scratch/$target" | wc -l) after minimising," \
    "$(ls "$kept/$target" | wc -l) kept"
done
