#!/usr/bin/env bash
# Makes the pictures of the documents anew: docs/pictures/report.png, of a report of a run made here.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh pictures
cmake --preset release >/dev/null
cmake --build --preset release --target volta_tests
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# photograph page.html picture.png width height
photograph() {
  # The same letters on every machine, whatever its system's font is.
  sed -i 's/ system-ui,/ Inter, system-ui,/' "$1"
  chromium --headless=new --no-sandbox --disable-gpu --hide-scrollbars \
    --user-data-dir="$folder/profile" --window-size="$3,$4" --screenshot="$2" "file://$1" 2>"$folder/log" ||
    { cat "$folder/log" >&2; exit 1; }
  pngquant --quality 80-98 --speed 1 --strip --force --output "$2" "$2"
  optipng -quiet -o5 "$2"
  local size
  size=$(stat -c %s "$2")
  echo "$2: $size bytes"
  [[ $size -lt 200000 ]] || { echo "$2: too large for a repository, 200000 bytes at most" >&2; exit 1; }
}

mkdir -p docs/pictures
VOLTA_REPORT_EXAMPLE=$folder OMP_WAIT_POLICY=passive VOLTA_TEST_NVRTC=0 \
  build/release/bin/volta_tests --gtest_brief=1 --gtest_filter='ReportExample.*'
photograph "$folder/example.html" docs/pictures/report.png 1200 1570
