#!/usr/bin/env bash
# Fuzzes every target, or those named, for SECONDS of processor time each, and prints a table of what came of it.
#
#     fuzz/run.sh SECONDS [TARGET...]
#
# Needs cargo-fuzz, a nightly Rust and GNU time. JOBS (1) targets run at a time. WORK (fuzz/) takes corpus/, artifacts/ and log/;
# a corpus is kept from run to run. A new one begins with fixtures/fuzz/<target>/ and, where LLVM 22 is installed, with what
# fuzz/seeds.sh makes. A finding does not end a run; its status is 1 if there was any. REUSE=1 takes the executables that are there.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
seconds=${1:?usage: fuzz/run.sh SECONDS [TARGET...]}
shift
targets=("$@")
if [ ${#targets[@]} = 0 ]; then
  targets=($(cd "$here/fuzz_targets" && ls | sed 's/\.rs$//'))
fi
work=$(mkdir -p "${WORK:-$here}" && cd "${WORK:-$here}" && pwd)
host=$(rustc +nightly -vV | sed -n 's/^host: //p')
if [ -z "${REUSE:-}" ]; then
  # gcc moves constant arrays out of the stack and still marks them as gone when their block ends (zstd has such arrays).
  (cd "$here/.." && CFLAGS="-fno-sanitize-address-use-after-scope ${CFLAGS:-}" cargo +nightly fuzz build >&2)
fi
scratch=$(mktemp -d -p "$([ -d /dev/shm ] && echo /dev/shm || echo /tmp)")
trap 'rm -rf "$scratch"' EXIT
# A build meanwhile must not change what runs.
mkdir "$scratch/bin"
for target in "${targets[@]}"; do
  cp "$here/target/$host/release/$target" "$scratch/bin/"
done
is_new() { [ -z "$(ls -A "$work/corpus/$1" 2>/dev/null)" ]; }
for target in "${targets[@]}"; do
  if is_new "$target" && [ ! -d "$scratch/seeds" ]; then
    OFFLOAD_BUNDLER=${OFFLOAD_BUNDLER:-$here/../target/release/clang-offload-bundler} \
      "$here/seeds.sh" "$scratch/seeds" 2>"$scratch/seeds.log" ||
      echo "fuzz/run.sh: not all seeds could be made: $(tail -n 1 "$scratch/seeds.log")" >&2
  fi
done

# A zstd stream may ask for a window of 2 GiB, of which only what is written to becomes memory: hence two limits.

# processor_time FILE...: the seconds that GNU time wrote, in all.
processor_time() { cat "$@" /dev/null | awk '{ sum += $1 + $2 } END { printf "%d", sum }'; }

run_one() {
  local target=$1 corpus="$work/corpus/$1" artifacts="$work/artifacts/$1" log="$work/log/$1" spent=0 round=0
  local inputs=("$corpus")
  if is_new "$target"; then
    for seeds in "$here/../fixtures/fuzz/$target" "$here/../fixtures/fuzz/found/$target" "$scratch/seeds/$target"; do
      [ ! -d "$seeds" ] || inputs+=("$seeds")
    done
  fi
  mkdir -p "$corpus" "$artifacts" "$work/log" "$scratch/tmp/$target" "$scratch/time/$target"
  ls "$artifacts" | sort >"$scratch/$target.before"
  : >"$log"
  while [ "$spent" -lt "$seconds" ]; do
    TMPDIR="$scratch/tmp/$target" command time -o "$scratch/time/$target/$round" -f '%U %S' \
      "$scratch/bin/$target" -fork=1 -ignore_crashes=1 -ignore_timeouts=1 -ignore_ooms=1 \
      -rss_limit_mb=1024 -malloc_limit_mb=4096 -timeout=10 -report_slow_units=1 -max_len=16384 -print_final_stats=1 \
      -max_total_time=$((seconds - spent < 20 ? 20 : seconds - spent)) \
      -artifact_prefix="$artifacts/" "${inputs[@]}" >>"$log" 2>&1 || true
    inputs=("$corpus")
    spent=$(processor_time "$scratch/time/$target"/*)
    round=$((round + 1))
    rm -rf "$scratch/tmp/$target"
    mkdir -p "$scratch/tmp/$target"
  done
  local found
  found=$(ls "$artifacts" | sort | comm -13 "$scratch/$target.before" - | wc -l)
  # A line of the fuzzer: "#RUNS: cov: EDGES ft: FEATURES corp: INPUTS exec/s: ...". Runs count from 0 in every round.
  sed -n 's/^#\([0-9]*\): cov: \([0-9]*\) ft: \([0-9]*\) corp: \([0-9]*\) .*/\1 \2 \3 \4/p' "$log" |
    awk -v target="$target" -v spent="$spent" -v files="$(ls "$corpus" | wc -l)" -v found="$found" '
      $1 < last { runs += last }
      { last = $1; if (!seen++) { edges = $2; features = $3 } end_edges = $2; end_features = $3 }
      END {
        printf "| `%s` | %d | %d | %d / %d | %d / %d | %d | %d |\n",
          target, runs + last, spent, edges, features, end_edges, end_features, files, found
      }' >"$scratch/$target.row"
}

for target in "${targets[@]}"; do
  run_one "$target" &
  while [ "$(jobs -rp | wc -l)" -ge "${JOBS:-1}" ]; do
    wait -n
  done
done
wait
echo '| target | runs | processor seconds | edges / features at the start | at the end | corpus | findings |'
echo '|---|---|---|---|---|---|---|'
for target in "${targets[@]}"; do
  cat "$scratch/$target.row"
done
! grep -q -v '| 0 |$' "$scratch"/*.row
