# Compares the output of a page's examples with the output that the page shows.
#   awk -v page=docs/devices.md -v onednn=1 -f compare.awk expected actual=1 output
# Both files have "@@ LINE" before the output of the example at that line. Words must be equal; numbers may differ by
# 2 percent, or by two in their last digit: processors round differently. A line "…" stands for any number of lines.
# Source locations in the page are compared as locations in the file that the example's comment names (`as step.cpp`).

function complain(line, what) {
  print page ":" line ": " what >"/dev/stderr"
  failed = 1
}

function is_number(word) { return word ~ /^[-+]?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?$/ }

function agree(a, b,    difference, unit, digits) {
  if (a == b) return 1
  if (!is_number(a) || !is_number(b)) return 0
  difference = a - b
  if (difference < 0) difference = -difference
  unit = 1
  if (a ~ /\./) {
    digits = a
    sub(/^[^.]*\./, "", digits)
    sub(/e.*/, "", digits)
    unit = 10 ^ -length(digits)
  } else if (a !~ /e/) {
    return difference <= 0.02 * (a < 0 ? -a : a)  # counts
  }
  if (a ~ /e/) unit = 0
  return difference <= 2 * unit || difference <= 0.02 * (a < 0 ? -a : a)
}

# Splits a line into words. Brackets and signs around numbers are separate words.
function same_line(a, b,    as, bs, count, i) {
  gsub(/[][(){},:%=]/, " & ", a)
  gsub(/[][(){},:%=]/, " & ", b)
  count = split(a, as, " ")
  if (split(b, bs, " ") != count) return 0
  for (i = 1; i <= count; ++i)
    if (!agree(as[i], bs[i])) return 0
  return 1
}

# Returns whether the expected lines from i on match the actual lines from j on.
function matches(e, i, a, j,    k) {
  while (i <= wanted[e]) {
    if (want[e, i] == "…") {
      for (k = j; k <= got[a] + 1; ++k)
        if (matches(e, i + 1, a, k)) return 1
      return 0
    }
    if (j > got[a] || !same_line(want[e, i], have[a, j])) {
      if (i + j > deepest) { deepest = i + j; bad_i = i; bad_j = j }
      return 0
    }
    ++i
    ++j
  }
  if (j <= got[a]) { if (i + j > deepest) { deepest = i + j; bad_i = i; bad_j = j }; return 0 }
  return 1
}

/^@@ / {
  current = $2
  if (!actual) { lines[++count] = current; alias[current] = $3; needs[current] = $4; wanted[current] = 0 }
  else { ran[current] = 1 }
  next
}
!actual { want[current, ++wanted[current]] = $0; next }
{ have[current, ++got[current]] = $0 }

END {
  for (n = 1; n <= count; ++n) {
    e = lines[n]
    if (!ran[e]) { complain(e, "was not run"); continue }
    if (alias[e] != "-")
      for (j = 1; j <= got[e]; ++j) {
        line = have[e, j]
        while (match(line, /(docs\/)?[a-z_]+\.md:[0-9]+/)) {
          place = substr(line, RSTART, RLENGTH)
          split(place, parts, ":")
          line = substr(line, 1, RSTART - 1) alias[e] ":" (parts[2] - e) substr(line, RSTART + RLENGTH)
        }
        have[e, j] = line
      }
    if (needs[e] == "onednn" && !onednn) continue
    deepest = 0
    if (matches(e, 1, e, 1)) continue
    complain(e, "prints something else than the page says, first at line " bad_i " of the output")
    print "  the page:    " want[e, bad_i] >"/dev/stderr"
    print "  the program: " have[e, bad_j] >"/dev/stderr"
    print "all that it printed:" >"/dev/stderr"
    for (j = 1; j <= got[e]; ++j) print have[e, j] >"/dev/stderr"
  }
  exit failed
}
