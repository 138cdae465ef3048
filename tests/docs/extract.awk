# Turns the ```cpp blocks of a page into sources.
#   awk -v page=docs/devices.md -v out=FOLDER/devices -f extract.awk docs/devices.md
# A block with `int main` is a program: FOLDER/devices_1.cpp and so on. All others are fragments, each the body of a function
# in FOLDER/devices.cpp. A comment before a block has options, separated by semicolons:
#   <!-- example: with model, x -->     variables that the fragment uses; declared in prelude.h
#   <!-- example: continued -->         continues the scope of the preceding fragment
#   <!-- example: declarations -->      at namespace scope: functions, classes for later fragments
#   <!-- example: not run -->           compiled only
#   <!-- example: as step.cpp -->       the file name in source locations of its output
#   <!-- example: not compiled: why --> neither compiled nor run
# <!-- output --> before a ```text block marks it as the output of the preceding block (see compare.awk). If the output
# depends on the library for products, the mark is <!-- output: with oneDNN -->.
# Prints "fragments" and "program NUMBER LINE" for the files it has written.

function fail(what) {
  print page ":" NR ": " what >"/dev/stderr"
  failed = 1
  exit 1
}

function directive(text,    count, parts, i, part) {
  if (pending) fail("two comments for one example")
  pending = NR
  count = split(text, parts, /; */)
  for (i = 1; i <= count; ++i) {
    part = parts[i]
    if (part ~ /^with [a-z_, ]+$/) variables = substr(part, 6)
    else if (part == "continued") continued = 1
    else if (part == "declarations") declarations = 1
    else if (part == "not run") not_run = 1
    else if (part ~ /^as [a-z_]+\.cpp$/) alias = substr(part, 4)
    else if (part ~ /^not compiled: .+/) not_compiled = 1
    else fail("no such kind of example: " part)
  }
}

function reset() {
  pending = continued = declarations = not_run = not_compiled = 0
  variables = ""
  alias = "-"
}

function close_function() {
  if (open_function) fragments = fragments "}\n"
  open_function = 0
}

# Moves a fragment's #include lines to the top of the file.
function hoist(    count, lines, i) {
  count = split(body, lines, "\n")
  body = ""
  for (i = 1; i < count; ++i) {
    if (lines[i] ~ /^#include/) {
      if (!index(includes, lines[i] "\n")) includes = includes lines[i] "\n"
      lines[i] = ""
    }
    body = body lines[i] "\n"
  }
}

# Handles the block that ended at this line.
function finish(    i, count, names, prefix, file) {
  if (not_compiled) return
  if (is_program) {
    if (continued || declarations || variables != "") fail("a program is none of that")
    file = out "_" ++programs ".cpp"
    printf "#line %d \"%s\"\n%s", start + 1, page, body >file
    close(file)
    print "program " programs " " start (not_run ? " not-run" : "")
    shown = not_run ? 0 : start
  } else if (declarations) {
    hoist()
    close_function()
    fragments = fragments "#line " (start + 1) " \"" page "\"\n" body
    shown = 0
  } else {
    hoist()
    if (continued && !open_function) fail("nothing before it to continue")
    if (!continued) {
      close_function()
      fragments = fragments "void example_" start "() {\n"
      open_function = 1
      runs = !not_run
      if (runs) table = table "    {" start ", example_" start "},\n"
    }
    prefix = "docs_at(" start ");\n"
    count = split(variables, names, /, */)
    for (i = 1; i <= count; ++i) prefix = prefix "VOLTA_DOCS_" names[i] "\n"
    fragments = fragments prefix "#line " (start + 1) " \"" page "\"\n" body
    have_fragments = 1
    shown = runs ? start : 0
  }
  shown_alias = alias
}

BEGIN {
  reset()
  expected = out ".expected"
  printf "" >expected
}

in_block && /^```/ {
  in_block = 0
  if (in_cpp) {
    finish()
    reset()
  }
  in_cpp = in_output = 0
  next
}
in_output { print >expected; next }
in_cpp {
  if ($0 ~ /^int main\(/) is_program = 1
  body = body $0 "\n"
  next
}
in_block { next }

/^<!-- example: .* -->$/ { directive(substr($0, 15, length($0) - 18)); next }
/^<!-- output(: with oneDNN)? -->$/ {
  if (!shown) fail("no example before it that is run")
  wants_output = /oneDNN/ ? "onednn" : "always"
  next
}
/^<!-- *(example|output)/ { fail("not a comment that extract.awk knows: " $0) }

/^```/ {
  in_block = NR
  if ($0 == "```cpp") {
    if (wants_output) fail("the output of an example is a ```text block")
    in_cpp = 1
    start = NR
    body = ""
    is_program = 0
  } else {
    if (pending) fail("the comment of line " pending " has no ```cpp block")
    if (wants_output) {
      if ($0 != "```text") fail("the output of an example is a ```text block")
      printf "@@ %d %s %s\n", shown, shown_alias, wants_output >expected
      in_output = 1
      wants_output = 0
    }
  }
  next
}
/[^ ]/ {
  if (pending) fail("the comment of line " pending " has no block")
  if (wants_output) fail("an output has no block")
}

END {
  if (failed) exit 1
  if (in_block) { NR = in_block; fail("this block has no end") }
  if (pending) fail("the comment of line " pending " has no block")
  close_function()
  if (have_fragments) {
    file = out ".cpp"
    printf "// The fragments of %s.\n#include \"prelude.h\"\n%snamespace {\nusing namespace volta;\n%s", page, includes, fragments >file
    printf "const DocsExample docs_examples[] = {\n%s    {0, nullptr}};\n}  // namespace\n", table >file
    printf "int main() { return docs_run(\"%s\", docs_examples); }\n", page >file
    print "fragments"
  }
}
