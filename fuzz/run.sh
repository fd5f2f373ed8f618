#!/usr/bin/env bash
# Fuzzes every target, or those named, for SECONDS of processor time each, and prints a table of what came of it.
#
#     fuzz/run.sh SECONDS [TARGET...]
#
# Needs cargo-fuzz, a nightly Rust, GNU ar and GNU time. JOBS (1) targets run at a time. WORK (fuzz/) takes corpus/,
# artifacts/ and log/; a corpus is kept from run to run. A new one begins with fuzz/kept/<target>.a, fuzz/found/<target>.a
# and, where LLVM 22 is installed, what fuzz/seeds.sh makes. A finding does not end a run; its status is 1 if there was
# any. REUSE=1 takes the executables that are there.
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
  mkdir -p "$artifacts" "$work/log" "$scratch/tmp/$target" "$scratch/time/$target"
  if is_new "$target"; then
    mkdir -p "$corpus"
    for kept in "$here/kept/$target.a" "$here/found/$target.a"; do
      [ ! -e "$kept" ] || ar x --output "$corpus" "$kept"
    done
    [ ! -d "$scratch/seeds/$target" ] || cp "$scratch/seeds/$target"/* "$corpus/"
  fi
  # What LLVM takes is not ours.
  local slow=1
  [ "$target" != differential ] || slow=5
  ls "$artifacts" | sort >"$scratch/$target.before"
  : >"$log"
  while [ "$spent" -lt "$seconds" ]; do
    TMPDIR="$scratch/tmp/$target" command time -o "$scratch/time/$target/$round" -f '%U %S' \
      "$scratch/bin/$target" -rss_limit_mb=1024 -malloc_limit_mb=4096 -timeout=10 -report_slow_units=$slow -max_len=16384 \
      -print_final_stats=1 -print_funcs=0 \
      -max_total_time=$((seconds - spent < 20 ? 20 : seconds - spent)) \
      -artifact_prefix="$artifacts/" "$corpus" >>"$log" 2>&1 || true
    spent=$(processor_time "$scratch/time/$target"/*)
    round=$((round + 1))
    rm -rf "$scratch/tmp/$target"
    mkdir -p "$scratch/tmp/$target"
  done
  # Slow is what takes a second of processor time, not what had to wait for a processor.
  for slow in $(cd "$artifacts" && find . -name 'slow-unit-*'); do
    command time -o "$scratch/slow" -f '%U %S' "$scratch/bin/$target" "$artifacts/$slow" >/dev/null 2>&1 || true
    [ "$(processor_time "$scratch/slow")" -ge 1 ] || rm "$artifacts/$slow"
  done
  local found
  found=$(ls "$artifacts" | sort | comm -13 "$scratch/$target.before" - | wc -l)
  # Lines of the fuzzer: "#RUN WHAT cov: EDGES ft: FEATURES corp: ...", and "stat::number_of_executed_units: RUNS" at the end of
  # each round.
  awk -v target="$target" -v spent="$spent" -v files="$(ls "$corpus" | wc -l)" -v found="$found" '
    /^#[0-9]+[ \t]+[A-Za-z]+[ \t]+cov: / {
      if ($2 == "INITED" && !seen++) { edges = $4; features = $6 }
      if ($4 > end_edges) end_edges = $4
      if ($6 > end_features) end_features = $6
    }
    /^stat::number_of_executed_units:/ { runs += $2 }
    END {
      printf "| `%s` | %d | %d | %d / %d | %d / %d | %d | %d |\n",
        target, runs, spent, edges, features, end_edges, end_features, files, found
    }' "$log" >"$scratch/$target.row"
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
