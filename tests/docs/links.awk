# Lists the headings and links of Markdown pages.
#   awk -f links.awk PAGE ...
# Prints "anchor PAGE NAME" for every heading and "link PAGE LINE TARGET" for every link or picture. A heading has a
# name only if GitHub and the site (Python-Markdown) give it the same name.

function slug(text, collapse) {
  text = tolower(text)
  gsub(/[^-a-z0-9_ ]/, "", text)
  gsub(/^ +| +$/, "", text)
  gsub(collapse ? "[- ]+" : " ", "-", text)
  return text
}

FNR == 1 { in_block = 0 }
/^ *```/ { in_block = !in_block; next }
in_block { next }

/^#+ / {
  text = $0
  sub(/^#+ +/, "", text)
  if (slug(text, 0) == slug(text, 1) && !seen[FILENAME, text]++) print "anchor", FILENAME, slug(text, 0)
}
{
  line = $0
  gsub(/`[^`]*`/, "", line)
  while (match(line, /\]\([^ )]+\)/)) {
    print "link", FILENAME, FNR, substr(line, RSTART + 2, RLENGTH - 3)
    line = substr(line, RSTART + RLENGTH)
  }
}
