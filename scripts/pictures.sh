#!/usr/bin/env bash
# Makes the pictures of the documents: docs/pictures/report.png shows the report of a run, docs/pictures/train.png
# shows the terminal during a training.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh pictures
cmake --preset release >/dev/null
cmake --build --preset release --target volta_tests volta_cli
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# photograph page.html picture.png width height
photograph() {
  # Sets a fixed font, so that the picture is the same on every machine.
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

# Records a run that Ctrl-C ends in a terminal of 124 columns. Of lines that are overwritten the last state is kept.
VOLTA_DEVICE=cpu TERM=xterm-256color script -qec \
  "stty cols 124 rows 30; cd $folder; timeout --foreground -s INT 40 $PWD/build/release/bin/volta train digits-cnn --epochs 3 --seed 1 --out run" \
  "$folder/typescript" >/dev/null || true
{
  cat <<'PAGE'
<!doctype html><meta charset="utf-8"><style>
body { margin: 0; background: #14161a; color: #d8dde6; font: 15px/1.45 "DejaVu Sans Mono", monospace; padding: 18px 22px; }
.prompt { color: #7fb4ff; } pre { margin: 0; font: inherit; white-space: pre; }
</style><pre><span class="prompt">$</span> volta train digits-cnn --epochs 3
PAGE
  sed -e '1d' -e '$d' "$folder/typescript" | tr -d '\000' |
    sed -e 's/\r*$//' -e 's/.*\r\(..*\)/\1/' -e 's/\x1b\[[0-9;?]*[A-Za-z]//g' -e 's/\^C//' \
      -e 's/&/\&amp;/g' -e 's/</\&lt;/g' -e "s|$folder/||g"
  echo '</pre>'
} >"$folder/train.html"
photograph "$folder/train.html" docs/pictures/train.png 1180 170
