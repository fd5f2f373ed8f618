#!/usr/bin/env bash
# Runs LLVM 22's tools and ours on the corpus of every target whose inputs are files, and prints a table of how they ended.
#
#     fuzz/reference.sh [DIRECTORY]
#
# DIRECTORY has a folder for each target; without it, the inputs are those of fuzz/kept. Each run has 5 seconds and 2 GiB of address space; LLVM_BIN
# (/usr/lib/llvm-22/bin) and OFFLOAD_BUNDLER (target/release/clang-offload-bundler) name the tools. Whether what is written
# is right is the business of the target `differential`.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
llvm=${LLVM_BIN:-/usr/lib/llvm-22/bin}
ours=$(realpath "${OFFLOAD_BUNDLER:-$here/../target/release/clang-offload-bundler}")
targets=host-x86_64-unknown-linux-gnu-,hip-amdgcn-amd-amdhsa--gfx906
work=$(mktemp -d -p "$([ -d /dev/shm ] && echo /dev/shm || echo /tmp)")
trap 'rm -rf "$work"' EXIT
if [ $# = 0 ]; then
  for archive in "$here"/kept/*.a; do
    mkdir -p "$work/corpus/$(basename "$archive" .a)"
    ar x --output "$work/corpus/$(basename "$archive" .a)" "$archive"
  done
fi
corpus=$(cd "${1:-$work/corpus}" && pwd)
cd "$work"
ln -s "$ours" clang-offload-bundler
ln -s "$ours" llvm-offload-binary
export LLVM_DISABLE_SYMBOLIZATION=1 PATH="$llvm:$PATH"

# ended COMMAND...: ok, error, crash or hang.
ended() {
  local status=0
  timeout -s KILL 5 sh -c 'ulimit -v 2097152 -c 0; exec "$@"' sh "$@" </dev/null >/dev/null 2>&1 || status=$?
  case $status in
    0) echo ok ;;
    137) echo hang ;;
    [1-9] | [1-9][0-9] | 12[0-7]) echo error ;;
    *) echo crash ;;
  esac
}

# type_of FILE: what it is taken for.
type_of() {
  case $(head -c 8 "$1" | tr -d '\0' | cut -c 1-7) in
    '!<arch>' | '!<thin>' | '<bigaf>') echo a ;;
    $'\177ELF'*) echo o ;;
    *)
      if grep -qa '^// __CLANG_OFFLOAD_BUNDLE__' "$1"; then
        echo ii
      elif grep -qa '^# __CLANG_OFFLOAD_BUNDLE__' "$1"; then
        echo s
      elif grep -qa '^; __CLANG_OFFLOAD_BUNDLE__' "$1"; then
        echo ll
      else
        echo o
      fi
      ;;
  esac
}

# count WHAT COMMAND...: runs both tools on `in` and notes how they ended.
count() {
  local what=$1 tool=$2
  shift 2
  echo "$what llvm $(ended "$llvm/$tool" "$@")" >>ended
  rm -f out1 out2
  echo "$what ours $(ended "./$tool" "$@")" >>ended
  rm -f out1 out2
}

echo '| corpus | files | run | LLVM 22: success | error | crash | hang | ours: success | error | crash | hang |'
echo '|---|---|---|---|---|---|---|---|---|---|---|'
for folder in list unbundle compressed text archive offload_binary; do
  : >ended
  for file in "$corpus/$folder"/*; do
    cp "$file" in
    type=$(type_of in)
    count '`-list`' clang-offload-bundler -list -type=$type -input=in
    count '`-unbundle`' clang-offload-bundler -unbundle -type=$type -input=in -targets=$targets -output=out1 -output=out2 \
      -allow-missing-bundles
    count '`llvm-offload-binary`' llvm-offload-binary in --image=file=out1,kind=hip
  done
  for what in '`-list`' '`-unbundle`' '`llvm-offload-binary`'; do
    row="| \`$folder\` | $(ls "$corpus/$folder" | wc -l) | $what |"
    for tool in llvm ours; do
      for end in ok error crash hang; do
        row+=" $(grep -cxF "$what $tool $end" ended || true) |"
      done
    done
    echo "$row"
  done
done
