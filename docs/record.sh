#!/bin/sh
# Draws a terminal session as session.svg: the commands below, as they were typed, and what the program really prints; and
# has `inspect` draw space.svg, of the wheel that the README makes smaller. `docs/record.sh [DIRECTORY]` writes to docs/, or to the directory; `.ci/run pictures` compares.
#   cargo build --release && .ci/install sample_wheel && docs/record.sh
# Needs Debian's librocrand1, and the wheel of the README's first example. Besides sh, awk and sed there is nothing to install,
# and the pictures name no font that a reader may not have. $TOOL is another executable.
set -eu
export LC_ALL=C

here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:-$here}"
to=$(cd "${1:-$here}" && pwd)
tool=${TOOL:-$here/../target/release/clang-offload-bundler}
library=/usr/lib/x86_64-linux-gnu/librocrand.so.1
wheel=$(echo "$here"/../target/wheels/bitsandbytes-0.50.2-*.whl)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
ln -s "$(readlink -f "$tool")" "$work/bin/offload-bundle"
ln -s "$library" "$work/$(basename "$library")"
PATH=$work/bin:$PATH
cd "$work"

# A prompt, the command in bold, and its output. The locale tells the program which characters it may draw bars with.
type_and_run() {
  printf '\033[32m$\033[0m \033[1m%s\033[0m\n' "$1"
  LC_ALL=C.UTF-8 sh -c "$2" 2>&1
}

name=$(basename "$library")
{
  type_and_run "offload-bundle inspect $name" "offload-bundle inspect --color=always $name"
  type_and_run "offload-bundle extract $name --target gfx90a -o gfx90a" \
    "offload-bundle extract $name --target gfx90a -o gfx90a"
  printf '\n'
  type_and_run "offload-bundle recompress $name -o small.so --close-gaps" \
    "offload-bundle recompress $name -o small.so --close-gaps"
} >session

# One byte for each character of a bar, so that awk need not know UTF-8: \001 is 8 eighths of a cell, \002 is 7, \010 is 1.
sed 's/█/\x01/g; s/▉/\x02/g; s/▊/\x03/g; s/▋/\x04/g; s/▌/\x05/g; s/▍/\x06/g; s/▎/\x07/g; s/▏/\x08/g' session >plain

awk '
BEGIN {
  cell = 8.4; row = 20; left = 20; top = 62; size = 14
  color["32"] = "#3fb950"; color["36"] = "#39c5cf"; color["31"] = "#ff7b72"; color["33"] = "#d29922"; color["2"] = "#8b949e"; color[""] = "#c9d1d9"; color["1"] = "#f0f6fc"
  for (i = 1; i <= 8; i++) eighths[sprintf("%c", i)] = 9 - i
}
function escaped(text) { gsub(/&/, "\\&amp;", text); gsub(/</, "\\&lt;", text); gsub(/>/, "\\&gt;", text); return text }
# A run of characters of one style, at its column, word by word where more than one space parts them. The length of each is
# given, so that every font fits the grid.
function put(text, column, style,    gap) {
  while (match(text, /[^ ]/)) {
    column += RSTART - 1; text = substr(text, RSTART)
    gap = match(text, /  /) ? RSTART - 1 : length(text)
    write(substr(text, 1, gap), column, style)
    column += gap; text = substr(text, gap + 1)
  }
}
function write(words, column, style,    bold) {
  sub(/ $/, "", words)
  bold = style == "1" ? " font-weight=\"bold\"" : ""
  body = body sprintf("<text x=\"%.1f\" y=\"%d\" fill=\"%s\"%s textLength=\"%.1f\" lengthAdjust=\"spacingAndGlyphs\">%s</text>\n",
    left + column * cell, top + line * row, color[style], bold, length(words) * cell, escaped(words))
}
# A bar, drawn and not written, since fonts leave gaps between blocks.
function draw(bar, column, style,    i, wide) {
  for (i = 1; i <= length(bar); i++) wide += eighths[substr(bar, i, 1)] / 8
  body = body sprintf("<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"12\" rx=\"2\" fill=\"%s\"/>\n",
    left + column * cell, top + line * row - 11, wide * cell, color[style])
}
{
  rest = $0; column = 0; style = ""
  while (rest != "") {
    if (match(rest, /^\033\[[0-9]*m/)) {
      style = substr(rest, 3, RLENGTH - 3); if (style == "0") style = ""
      rest = substr(rest, RLENGTH + 1)
    } else {
      bar = match(rest, /^[\001-\010]+/); if (!bar) match(rest, /^[^\001-\010\033]+/)
      run = substr(rest, 1, RLENGTH); rest = substr(rest, RLENGTH + 1)
      if (bar) draw(run, column, style); else put(run, column, style)
      column += length(run)
    }
  }
  if (column > columns) columns = column
  line++
}
END {
  width = int(2 * left + columns * cell + 0.5); height = top + line * row
  printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" font-size=\"%d\" ", width, height, width, height, size
  printf "font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, '"'"'DejaVu Sans Mono'"'"', monospace\">\n"
  printf "<rect width=\"%d\" height=\"%d\" rx=\"10\" fill=\"#0d1117\" stroke=\"#30363d\"/>\n", width, height
  split("#ff5f56 #ffbd2e #27c93f", dots, " ")
  for (i = 1; i <= 3; i++) printf "<circle cx=\"%d\" cy=\"22\" r=\"6\" fill=\"%s\"/>\n", 4 + i * 20, dots[i]
  printf "%s</svg>\n", body
}' plain >"$to/session.svg"

offload-bundle recompress "$wheel" --keep-for 'RTX 5090,MI300X' -o small.whl 2>recompress.log
offload-bundle inspect small.whl --svg "$to/space.svg" >/dev/null
