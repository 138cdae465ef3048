# Checks that the library has every message that errors.md quotes, and that every class of errors has a chapter.
#   awk -f messages.awk literals classes=1 error.h page=1 docs/errors.md
# `literals` is the output of literals.awk. A message is the first `code` of a table's row; an ellipsis stands for a
# varying part. A message must be part of one literal, or its pieces must be parts of literals of one file.

function complain(what) {
  print FILENAME ":" FNR ": " what >"/dev/stderr"
  failed = 1
}

function known(message,    file, pieces, count, i, all) {
  if (index(everything, message)) return 1
  count = split(message, pieces, "…")
  for (file in literals) {
    all = 1
    for (i = 1; i <= count && all; ++i) {
      gsub(/^ +| +$/, "", pieces[i])
      if (length(pieces[i]) > 2 && !index(literals[file], pieces[i])) all = 0
    }
    if (all) return 1
  }
  return 0
}

!classes {
  tab = index($0, "\t")
  file = substr($0, 1, tab - 1)
  literals[file] = literals[file] substr($0, tab + 1) "\n"
  everything = everything substr($0, tab + 1) "\n"
  next
}
classes && !page {
  if (match($0, /^VOLTA_ERROR_CLASS\([A-Za-z]+\)/)) wanted[substr($0, 19, RLENGTH - 19)] = 1
  next
}
/^## / { found[substr($0, 4)] = 1 }
/^\| `/ {
  message = substr($0, 4)
  message = substr(message, 1, index(message, "`") - 1)
  ++messages
  longest = 0
  count = split(message, pieces, "…")
  for (i = 1; i <= count; ++i)
    if (length(pieces[i]) > longest) longest = length(pieces[i])
  if (longest < 8) complain("says too little to be found in the sources: " message)
  else if (!known(message)) complain("no source has this message any more: " message)
}
END {
  for (class in wanted) {
    ++classes_wanted
    if (!found[class]) complain("has no chapter on " class)
  }
  if (classes_wanted < 9) complain("only " classes_wanted + 0 " classes of errors were found in error.h")
  if (messages < 40) complain("only " messages + 0 " messages were found on the page")
  if (!failed) print messages " messages, all of them in the sources"
  exit failed
}
