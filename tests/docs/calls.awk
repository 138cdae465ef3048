# Checks that the functions named in the tables of a page exist: every name before a parenthesis or after `::` in the
# `code` of their second column must be a word of the public headers.
#   awk -f calls.awk HEADER ... page=1 docs/pytorch.md docs/names.md docs/modules.md

BEGIN { own["net"] = own["opt"] = 1 }  # variables of the examples

!page {
  gsub(/[^A-Za-z0-9_]+/, " ")
  count = split($0, words, " ")
  for (i = 1; i <= count; ++i) known[words[i]] = 1
  next
}
/^\| / {
  split($0, cells, /[^\\]\| /)
  text = cells[2]
  while (match(text, /`[^`]+`/)) {
    code = substr(text, RSTART + 1, RLENGTH - 2)
    text = substr(text, RSTART + RLENGTH)
    gsub(/"[^"]*"/, "", code)
    while (match(code, /[A-Za-z_][A-Za-z0-9_]*\(|::[A-Za-z_][A-Za-z0-9_]*/)) {
      name = substr(code, RSTART, RLENGTH)
      code = substr(code, RSTART + RLENGTH)
      gsub(/[:(]/, "", name)
      if (name ~ /^(vector|int64_t)$/) continue
      ++names
      if (!known[name] && !own[name]) {
        print FILENAME ":" FNR ": the headers have no " name >"/dev/stderr"
        failed = 1
      }
    }
  }
}
END {
  print names + 0 " names"
  exit failed || names < 100
}
