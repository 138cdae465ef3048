#include "report/page_assets.h"

namespace volta::report {

// Lines have the colours of Okabe and Ito, which can be told apart with any colour vision; they are
// lighter on dark pages.
const char* const kStyle = R"css(
:root {
  color-scheme: light dark;
  --page: #f7f7f5; --card: #ffffff; --line: #e4e4df; --grid: #ecece8;
  --text: #1c1e21; --soft: #63676e; --accent: #0067a8; --hit: 0 103 168; --miss: 213 94 0;
  --good: #00734f; --good-back: #e2f3ec; --bad: #b23c00; --bad-back: #fdebe0; --code: #f1f1ee;
  --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #b8508c; --c4: #c98600; --c5: #3f9fd8; --c6: #5f6670; --c7: #7a5a2e;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #131518; --card: #1b1e22; --line: #2d3138; --grid: #292d33;
    --text: #e7e8ea; --soft: #9aa0a8; --accent: #62b5ee; --hit: 72 158 222; --miss: 240 130 60;
    --good: #58cfa4; --good-back: #15332a; --bad: #f59a62; --bad-back: #3a2316; --code: #24282e;
    --c0: #56aee8; --c1: #f08a45; --c2: #35c79c; --c3: #e08fc0; --c4: #eab544; --c5: #9bd3f5; --c6: #a9b0ba; --c7: #c7a373;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", Arial, sans-serif;
  font-variant-numeric: tabular-nums;
}
main { max-width: 1136px; margin: 0 auto; padding: 40px 24px 56px; }
h1, h2, h3, p, ul, figure, pre, table, dl, dd { margin: 0; padding: 0; }
h1 { font-size: 32px; line-height: 1.2; font-weight: 650; letter-spacing: -.015em; overflow-wrap: anywhere; }
h2 { font-size: 18px; line-height: 1.3; font-weight: 620; margin: 40px 0 12px; }
h3 { font-size: 14px; line-height: 20px; font-weight: 620; overflow-wrap: anywhere; }
code, pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: 13px; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; }

.over { display: flex; flex-wrap: wrap; align-items: center; gap: 8px 12px; margin-bottom: 10px; color: var(--soft); font-size: 13px; }
.over > * { min-width: 0; overflow-wrap: anywhere; }
.chip { padding: 2px 10px; border-radius: 99px; font-weight: 600; color: var(--good); background: var(--good-back); }
.chip.open { color: var(--accent); background: var(--code); }
.chip.bad { color: var(--bad); background: var(--bad-back); }
.lead { margin-top: 10px; max-width: 820px; font-size: 17px; color: var(--soft); overflow-wrap: anywhere; }
.lead b { color: var(--text); font-weight: 600; }
.reason { margin-top: 16px; padding: 10px 14px; border-radius: 8px; color: var(--bad); background: var(--bad-back); white-space: pre-wrap; overflow-wrap: anywhere; }

.figures { display: flex; flex-wrap: wrap; gap: 1px; margin-top: 28px; overflow: hidden; background: var(--line); }
.figures > div { flex: 1 1 150px; padding: 16px 20px 15px; background: var(--card); min-width: 0; }
.figures dt { font-size: 13px; color: var(--soft); overflow-wrap: anywhere; }
.figures dd { margin-top: 2px; font-size: 24px; line-height: 1.25; font-weight: 620; letter-spacing: -.01em; overflow-wrap: anywhere; }
.figures dd.best { color: var(--accent); }
.figures small { display: block; font-size: 13px; font-weight: 400; letter-spacing: 0; color: var(--soft); }

.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(440px, 100%), 1fr)); gap: 16px; }
.charts + .charts { margin-top: 16px; }
.charts.small { grid-template-columns: repeat(auto-fit, minmax(min(240px, 100%), 1fr)); }
.chart { position: relative; min-width: 0; padding: 14px 18px 10px; background: var(--card); border: 1px solid var(--line); border-radius: 10px; break-inside: avoid; }
figcaption { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 12px; }
figcaption h3 { flex: 1 0 auto; max-width: 100%; }
.last { font-weight: 620; font-size: 14px; white-space: nowrap; }
.switch { position: absolute; opacity: 0; pointer-events: none; }
.toggle { padding: 0 10px; border: 1px solid var(--line); border-radius: 99px; font-size: 12px; line-height: 20px; color: var(--soft); white-space: nowrap; cursor: pointer; user-select: none; }
.switch:checked ~ figcaption .toggle { color: var(--card); background: var(--soft); border-color: var(--soft); }
.switch:focus-visible ~ figcaption .toggle { outline: 2px solid var(--accent); outline-offset: 2px; }
.switch:checked ~ .plot .linear, .switch:not(:checked) ~ .plot .log { display: none; }
.plot { position: relative; margin: 26px 6px 40px 52px; }
.labelled .plot { margin-right: 104px; }
.plot > svg, .lines { display: block; overflow: visible; }
.plot text { font-size: 12px; fill: var(--soft); }
.grid line { stroke: var(--grid); }
.ticks line { stroke: var(--line); }
.ticks.y text { text-anchor: end; }
.ticks.x text { text-anchor: middle; }
.axis { font-size: 11px; }
.plot .names text { font-weight: 620; fill: var(--c); }
.plot .names .value { font-weight: 400; fill: var(--soft); }
.lines path { fill: none; stroke: var(--c); stroke-linecap: round; stroke-linejoin: round; vector-effect: non-scaling-stroke; }
.lines .line { stroke-width: 2px; }
.lines .faint { stroke-width: 1px; opacity: .32; }
.lines .gaps { stroke: var(--bad); stroke-width: 2px; stroke-linecap: butt; }
.lines .dashed { stroke-dasharray: 7 5; }
.lines .dotted { stroke-dasharray: 1 5; }
.lines .dots { stroke-width: 6px; stroke-dasharray: none; }
.c0 { --c: var(--c0); } .c1 { --c: var(--c1); } .c2 { --c: var(--c2); } .c3 { --c: var(--c3); }
.c4 { --c: var(--c4); } .c5 { --c: var(--c5); } .c6 { --c: var(--c6); } .c7 { --c: var(--c7); }
.legend { display: flex; flex-wrap: wrap; gap: 2px 16px; margin-top: 6px; list-style: none; font-size: 13px; color: var(--soft); }
.legend li { min-width: 0; overflow-wrap: anywhere; }
.legend i { display: inline-block; width: 14px; margin: 0 6px 4px 0; border-top: 2px solid var(--c); vertical-align: middle; }
.legend .dashed i { border-top-style: dashed; } .legend .dotted i { border-top-style: dotted; }
.legend b { color: var(--text); font-weight: 600; }
.legend.narrow { display: none; }
.note { font-size: 13px; color: var(--soft); overflow-wrap: anywhere; }
.mark { display: inline-block; width: 2px; height: 11px; margin-right: 8px; background: var(--bad); }
.empty { padding: 32px 0; color: var(--soft); text-align: center; }
.cursor { position: absolute; top: 0; height: 100%; width: 1px; background: var(--soft); opacity: .6; pointer-events: none; }
.tip { position: absolute; z-index: 2; top: 4px; max-width: 260px; padding: 6px 10px; font-size: 12px; line-height: 18px; background: var(--card); border: 1px solid var(--line); border-radius: 8px; box-shadow: 0 4px 14px rgb(0 0 0 / .14); pointer-events: none; }
.tip div { display: flex; gap: 10px; }
.tip span { flex: 1; color: var(--c, var(--soft)); white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.tip b { font-weight: 600; white-space: nowrap; }

.scroll { overflow-x: auto; max-width: 100%; -webkit-overflow-scrolling: touch; }
table { border-collapse: collapse; font-size: 13px; }
th { font-weight: 500; color: var(--soft); text-align: left; }
.side { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(440px, 100%), 1fr)); gap: 0 32px; }
.side > section { min-width: 0; }
.matrix { width: 100%; max-width: 720px; border-collapse: separate; border-spacing: 2px; }
.matrix th { padding: 2px 6px; text-align: center; max-width: 90px; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.matrix th.row { text-align: right; }
.matrix td { min-width: 36px; height: 34px; padding: 0 4px; border-radius: 4px; text-align: center; background: rgb(var(--miss) / var(--s, 0)); }
.matrix td.hit { background: rgb(var(--hit) / var(--s, 0)); }
.matrix td.full { color: #fff; }
.matrix td.none { color: var(--soft); opacity: .45; }
.matrix td.share { color: var(--soft); background: none; white-space: nowrap; padding-left: 8px; }
.samples { display: grid; grid-template-columns: repeat(auto-fill, minmax(76px, 1fr)); gap: 10px 8px; }
.samples figure { min-width: 0; font-size: 13px; line-height: 17px; text-align: center; }
.samples img { display: block; width: 100%; height: auto; aspect-ratio: 1; object-fit: contain; border-radius: 6px; border: 2px solid var(--line); background: #000; image-rendering: pixelated; }
.samples .wrong img { border-color: var(--bad); }
.samples span { display: block; margin-top: 3px; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.samples small { color: var(--soft); font-size: 12px; font-weight: 400; }
.samples .wrong span { color: var(--bad); font-weight: 600; }
.text { margin-top: 12px; padding: 14px 18px; break-inside: avoid; }
.text pre { max-height: 340px; overflow: auto; white-space: pre-wrap; overflow-wrap: anywhere; line-height: 1.55; }
.text footer { margin-top: 8px; font-size: 13px; color: var(--soft); }
.text b { color: var(--accent); font-weight: 600; }

.command { display: flex; align-items: center; gap: 12px; padding: 8px 8px 8px 16px; }
.command + .command { margin-top: 8px; }
.command > span { flex: 0 0 100px; color: var(--soft); font-size: 13px; overflow-wrap: anywhere; }
.command code { flex: 1; min-width: 0; padding: 4px 0; white-space: pre-wrap; overflow-wrap: anywhere; }
.copy { flex: none; padding: 3px 10px; border: 1px solid var(--line); border-radius: 6px; font: inherit; font-size: 12px; color: var(--soft); background: none; cursor: pointer; }
.copy:hover { color: var(--text); border-color: var(--soft); }

details { margin-top: 8px; break-inside: auto; }
.fold-start { margin-top: 40px; }
summary { display: flex; align-items: baseline; gap: 10px; padding: 11px 16px; cursor: pointer; font-weight: 620; list-style: none; }
summary::-webkit-details-marker { display: none; }
summary::before { content: ""; flex: none; width: 6px; height: 6px; border: solid var(--soft); border-width: 0 2px 2px 0; transform: translateY(-2px) rotate(-45deg); transition: transform .15s; }
details[open] > summary::before { transform: translateY(-3px) rotate(45deg); }
summary span { font-weight: 400; font-size: 13px; color: var(--soft); overflow-wrap: anywhere; }
summary:focus-visible { outline: 2px solid var(--accent); outline-offset: -2px; border-radius: 10px; }
.inside { padding: 0 16px 14px; }
.list { width: 100%; }
.list th, .list td { padding: 6px 14px 6px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
.list tr:last-child td { border-bottom: 0; }
.list .n { text-align: right; white-space: nowrap; }
.list .n:last-child, .list td:last-child { padding-right: 0; }
.list .wide { min-width: 220px; overflow-wrap: anywhere; }
.list .key { min-width: 120px; max-width: 320px; overflow-wrap: anywhere; }
.pairs .key { width: 200px; }
.list .value { overflow-wrap: anywhere; white-space: pre-wrap; }
.list .total td { font-weight: 600; border-top: 1px solid var(--soft); }
.soft { color: var(--soft); }
.bar { display: inline-block; width: 64px; height: 6px; margin-right: 8px; border-radius: 3px; background: var(--grid); vertical-align: 1px; overflow: hidden; }
.bar i { display: block; width: calc(var(--w) * 1%); height: 100%; background: var(--c0); }
.end { margin-top: 32px; font-size: 13px; color: var(--soft); overflow-wrap: anywhere; }

@media (max-width: 620px) {
  main { padding: 24px 14px 40px; }
  h1 { font-size: 25px; }
  .lead { font-size: 16px; }
  .figures > div { flex-basis: 130px; padding: 12px 14px; }
  .figures dd { font-size: 20px; }
  .chart { padding: 12px 14px 8px; }
  .plot, .labelled .plot { margin-left: 48px; margin-right: 4px; }
  .plot .names { display: none; }
  .legend.narrow { display: flex; }
  .command { flex-wrap: wrap; }
  .command > span { flex-basis: 100%; }
  .matrix { border-spacing: 1px; }
  .matrix td { min-width: 26px; height: 27px; padding: 0 1px; font-size: 11px; }
  .matrix th { padding: 1px 2px; font-size: 11px; }
}
@media print {
  :root { color-scheme: light; --page: #fff; --card: #fff; --line: #d8d8d4; --grid: #ececec; --text: #000; --soft: #555; --code: #f3f3f3;
    --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #b8508c; --c4: #c98600; --c5: #3f9fd8; --c6: #5f6670; --c7: #7a5a2e;
    --accent: #0067a8; --hit: 0 103 168; --miss: 213 94 0; --good: #00734f; --good-back: #e2f3ec; --bad: #b23c00; --bad-back: #fdebe0; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  main { max-width: none; padding: 0; }
  h2 { break-after: avoid; }
  .copy, .toggle { display: none; }
  .charts { grid-template-columns: 1fr 1fr; }
  .charts.small { grid-template-columns: 1fr 1fr; }
  .text pre { max-height: none; }
  details::details-content { content-visibility: visible; height: auto; }
  tr { break-inside: avoid; }
}
)css";

const char* const kScript = R"js(
"use strict";
(function () {
  // Four digits, as the page writes them; bytes with a prefix.
  function shown(value, unit) {
    var prefixes = ["", "k", "M", "G", "T", "P"], i = 0;
    if (unit === " B") {
      while (Math.abs(value) >= 1000 && i + 1 < prefixes.length) { value /= 1000; i += 1; }
      unit = " " + prefixes[i] + "B";
    }
    var size = Math.abs(value);
    var text = size >= 1000 ? Math.round(value).toLocaleString("en-US") :
      size > 0 && size < 1e-4 ? value.toExponential(3) : String(Number(value.toPrecision(4)));
    return text + unit;
  }

  function element(kind, name, text) {
    var made = document.createElement(kind);
    if (name) made.className = name;
    if (text) made.textContent = text;
    return made;
  }

  // A chart's values under the pointer: a line across the plot, and a box beside it.
  function follow(plot) {
    var low = Number(plot.dataset.low), high = Number(plot.dataset.high);
    var lines = [];
    plot.querySelectorAll("path[data-points]").forEach(function (path) {
      var xs = [], ys = [];
      path.dataset.points.split(" ").forEach(function (point) {
        var at = point.indexOf(",");
        if (at > 0) { xs.push(Number(point.slice(0, at))); ys.push(Number(point.slice(at + 1))); }
      });
      lines.push({ name: path.dataset.name, style: path.getAttribute("class"), xs: xs, ys: ys });
    });
    var cursor = element("i", "cursor"), tip = element("div", "tip");
    cursor.hidden = tip.hidden = true;
    plot.append(cursor, tip);

    function nearest(xs, x) {
      var best = 0;
      for (var i = 1; i < xs.length; i += 1)
        if (Math.abs(xs[i] - x) < Math.abs(xs[best] - x)) best = i;
      return best;
    }
    function show(event) {
      var box = plot.getBoundingClientRect();
      var share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
      var x = low + share * (high - low);
      // Everything is told at one step, the nearest of all lines.
      var step = NaN;
      lines.forEach(function (line) {
        if (line.xs.length === 0) return;
        var own = line.xs[nearest(line.xs, x)];
        if (!(Math.abs(step - x) <= Math.abs(own - x))) step = own;
      });
      if (isNaN(step)) return;
      tip.replaceChildren();
      var head = element("div");
      head.append(element("span", "", plot.dataset.x), element("b", "", shown(step, "")));
      tip.append(head);
      lines.forEach(function (line) {
        if (line.xs.length === 0) return;
        var row = element("div", line.style.replace("line ", ""));
        // Of a line with few values, the nearest may be of another step.
        var at = nearest(line.xs, step), far = Math.abs(line.xs[at] - step) > (high - low) / 200;
        var name = line.name + (far ? " at " + shown(line.xs[at], "") : "");
        row.append(element("span", "", name), element("b", "", shown(line.ys[at], plot.dataset.unit)));
        tip.append(row);
      });
      cursor.hidden = tip.hidden = false;
      var at = (step - low) / (high - low) * box.width;
      cursor.style.left = at + "px";
      var right = at > box.width / 2;
      tip.style.left = right ? "auto" : at + 12 + "px";
      tip.style.right = right ? box.width - at + 12 + "px" : "auto";
    }
    function hide() { cursor.hidden = tip.hidden = true; }
    plot.addEventListener("pointermove", show);
    plot.addEventListener("pointerdown", show);
    plot.addEventListener("pointerleave", hide);
  }
  document.querySelectorAll(".plot").forEach(follow);

  document.querySelectorAll(".command").forEach(function (row) {
    if (!navigator.clipboard) return;
    var button = element("button", "copy", "Copy");
    button.type = "button";
    button.addEventListener("click", function () {
      navigator.clipboard.writeText(row.querySelector("code").textContent).then(function () {
        button.textContent = "Copied";
        setTimeout(function () { button.textContent = "Copy"; }, 1500);
      }, function () { button.textContent = "Not allowed"; });
    });
    row.append(button);
  });

  addEventListener("beforeprint", function () {
    document.querySelectorAll("details").forEach(function (part) { part.open = true; });
  });
  document.documentElement.dataset.script = "ready";
})();
)js";

}  // namespace volta::report
