#!/usr/bin/env bash
# Opens example reports in Chromium: the script must print nothing to the console, values must appear
# under the pointer, the log scale must switch, nothing may be wider than a phone, and dark mode must be dark.
#   report_in_browser.sh path/to/volta_tests
set -uo pipefail
tests=$1
for name in chromium chromium-browser google-chrome; do
  browser=$(command -v $name) && break
done
[ -n "${browser-}" ] || { echo 'no Chromium here: skipped (apt-get install chromium)'; exit 77; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "report_in_browser: $*" >&2; exit 1; }

VOLTA_REPORT_EXAMPLE=$folder "$tests" --gtest_brief=1 --gtest_filter=ReportExample.*:Report.HostileTextStaysText >"$folder/log" 2>&1 ||
  { cat "$folder/log"; fail 'the reports could not be made'; }

# Prints the page's elements after its scripts ran, and writes their console output to $folder/console.
dom() {
  timeout 120 "$browser" --headless=new --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$folder/profile" \
    --enable-logging=stderr --virtual-time-budget=5000 --dump-dom "$@" 2>"$folder/stderr" || fail "Chromium gave up: $(tail -3 "$folder/stderr")"
  grep -o 'CONSOLE.*' "$folder/stderr" >"$folder/console"
  return 0
}

# Tests the check: a page that throws must be noticed.
echo '<!DOCTYPE html><script>throw new Error("noticed")</script>' >"$folder/broken.html"
dom "file://$folder/broken.html" >/dev/null
grep -q noticed "$folder/console" || fail 'errors of a page go unnoticed'

# Simulates the actions of a reader. The results are written to the page's title.
cat >"$folder/reader.js" <<'END'
var found = [];
var plot = document.querySelector(".plot");
var box = plot.getBoundingClientRect();
plot.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + box.width / 2, clientY: box.top + 20 }));
var tip = plot.querySelector(".tip");
var rows = Array.from(tip.children).map(function (row) { return row.children[0].textContent + "=" + row.children[1].textContent; });
found.push(tip.hidden ? "tip hidden" : "tip " + rows.length + " " + rows.slice(0, 3).join(";"));
found.push("made of text " + document.querySelectorAll("[onclick]").length);
plot.dispatchEvent(new PointerEvent("pointerleave"));
found.push(tip.hidden ? "tip gone" : "tip stays");
var both = function () {
  return ["linear", "log"].map(function (view) { return getComputedStyle(plot.querySelector("." + view)).display; }).join("/");
};
found.push(both());
document.querySelector(".toggle").click();
found.push(both());
found.push("background " + getComputedStyle(document.body).backgroundColor);
document.title = found.join(" | ");
END
for page in example hostile; do
  sed '/<\/body>/e printf "<script>"; cat '"$folder"'/reader.js; printf "</script>"' "$folder/$page.html" >"$folder/$page-read.html"
  for mode in light dark; do
    setting=$([ $mode = dark ] && echo 0 || echo 1)
    dom "--blink-settings=preferredColorScheme=$setting" "file://$folder/$page-read.html" >"$folder/dom"
    [ ! -s "$folder/console" ] || fail "$page: $(cat "$folder/console")"
    grep -q '<html[^>]* data-script="ready"' "$folder/dom" || fail "$page: the script did not reach its end"
    title=$(grep -o '<title>[^<]*</title>' "$folder/dom" | head -1)
    echo "$page, $mode: $title"
    if [ $page = example ]; then
      grep -qE 'tip 3 step=[0-9]+;training \(smoothed\)=[0-9.]+ nats;test=[0-9.]+ nats \|' <<<"$title" || fail 'not the values under the pointer'
    else
      grep -q 'tip 11 ' <<<"$title" || fail 'the hostile page does not tell ten lines and the step'
    fi
    grep -qF '| made of text 0 | tip gone | none/block | block/none |' <<<"$title" || fail "$page: elements made of text, the pointer or the log scale"
    eval "$mode"='${title##*background }'
  done
  [ "$light" != "$dark" ] || fail "$page: dark mode is as light mode"
done

# Opens the page in a frame of the same origin that is as wide as a phone.
for page in example hostile; do
  {
    printf '<!DOCTYPE html><title>waiting</title><iframe width="360" height="2000" style="border:0" onload="var d = this.contentDocument.documentElement; document.title = d.dataset.script + d.scrollWidth" srcdoc="'
    sed 's/&/\&amp;/g; s/"/\&quot;/g' "$folder/$page.html"
    printf '"></iframe>'
  } >"$folder/phone.html"
  dom "file://$folder/phone.html" >"$folder/dom"
  title=$(grep -o '<title>[^<]*</title>' "$folder/dom" | head -1)
  echo "$page, 360 pixels wide: $title"
  [ "$title" = '<title>ready360</title>' ] || fail "$page is wider than a phone: $title"
done
