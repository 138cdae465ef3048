# Prints every string literal of C++ sources on a line after the name of its file and a tab. Adjacent literals are
# joined, and the replacement fields of fmt ({}) are written as an ellipsis.
#   awk -f literals.awk FILE ...

function flush() {
  if (literal == "") return
  gsub(/\\"/, "\"", literal)
  gsub(/\\n/, " ", literal)
  gsub(/\\\\/, "\\", literal)
  gsub(/\{\{/, "\001", literal)
  gsub(/\}\}/, "\002", literal)
  gsub(/\{[^{}]*\}/, "…", literal)
  gsub(/\001/, "{", literal)
  gsub(/\002/, "}", literal)
  print file "\t" literal
  literal = ""
}

FNR == 1 {
  flush()
  file = FILENAME
}
{
  line = $0
  gsub(/'\\?"'/, "'_'", line)
  while (match(line, /"([^"\\]|\\.)*"/)) {
    before = substr(line, 1, RSTART - 1)
    if (before ~ /\/\//) break  # a comment
    if (before ~ /[^ \t]/) flush()
    literal = literal substr(line, RSTART + 1, RLENGTH - 2)
    line = substr(line, RSTART + RLENGTH)
  }
  if (line ~ /[^ \t]/ && line !~ /^[ \t]*\/\//) flush()
}
END { flush() }
