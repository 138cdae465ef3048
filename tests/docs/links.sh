#!/usr/bin/env bash
# Checks that every link of the project's pages leads to a file of the tree, and to a heading in it if the link names
# one. Links to other sites are not followed.
set -euo pipefail
cd "$(dirname "$0")/../.."

pages=(*.md docs/*.md docs/internals/*.md bench/*.md examples/README.md tools/volta/README.md tests/README.md)
while read -r page; do pages+=("$page"); done < <(find src -name README.md | sort)
found=$(awk -f tests/docs/links.awk "${pages[@]}")
declare -A anchors
while read -r _ page name; do anchors[$page#$name]=1; done < <(grep '^anchor ' <<<"$found")

links=0
failed=0
while read -r _ page line target; do
  if [[ $target =~ ^[a-z]+: ]]; then continue; fi
  links=$((links + 1))
  file=${target%%#*}
  if [[ -z $file ]]; then file=$page; else file=$(realpath -m --relative-to=. "$(dirname "$page")/$file"); fi
  if [[ ! -e $file ]]; then
    echo "$page:$line: there is no $target" >&2
    failed=1
  elif [[ $target == *'#'* && -z ${anchors[$file#${target#*#}]-} ]]; then
    echo "$page:$line: no heading of $file is called ${target#*#}" >&2
    failed=1
  elif [[ $page == docs/* && $file != docs/* ]]; then
    echo "$page:$line: $target is not part of the site" >&2
    failed=1
  fi
done < <(grep '^link ' <<<"$found")
echo "$links links of ${#pages[@]} pages"
if [[ $links -eq 0 ]]; then exit 1; fi
exit $failed
