# Checks the #include lines of src against src/layers.txt, which is read first. Prints the first forbidden #include of
# each folder, folders without a row, and cycles among the rows.
#   cd src && find . -name '*.h' -o ... | sort | xargs awk -f layers.awk layers.txt
function folder_of(path) { sub(/\/[^\/]*$/, "", path); return path }

function visit(folder, i, count, names) {
  if (state[folder] == "done") return
  if (state[folder] == "open") { print "layers.txt: " folder " may include itself, through others"; bad = 1; return }
  state[folder] = "open"
  count = split(allowed[folder], names, " ")
  for (i = 1; i <= count; i++) visit(names[i])
  state[folder] = "done"
}

FILENAME == "layers.txt" {
  sub(/#.*/, "")
  if (split($0, part, ":") < 2) next
  folder = part[1]
  order[++rows] = folder
  allowed[folder] = part[2]
  count = split(part[2], names, " ")
  for (i = 1; i <= count; i++) {
    may[folder, names[i]] = 1
    if (!(names[i] in allowed)) { print "layers.txt: " folder " stands before " names[i] ", which it may include"; bad = 1 }
  }
  next
}

FNR == 1 {
  here = folder_of(substr(FILENAME, 3))
  files++
  if (!(here in allowed) && !told[here]++) { print FILENAME ": " here " has no row in layers.txt"; bad = 1 }
}

/^[ \t]*#[ \t]*include "/ {
  split($0, part, "\"")
  if (part[2] ~ /^(volta|hwy)\// || part[2] !~ /\//) next
  there = folder_of(part[2])
  if (there == here || (here, there) in may || (here, there) in told) next
  told[here, there] = 1
  print FILENAME ":" FNR ": " here " may not include " there ": " $0
  bad = 1
}

END {
  for (i = 1; i <= rows; i++) visit(order[i])
  if (files < 300) { print "only " files " files were read"; bad = 1 }
  exit bad
}
