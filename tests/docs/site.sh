#!/usr/bin/env bash
# Builds the site: every page is in its navigation, every link works, nothing is loaded from elsewhere. Exits with 77
# where mkdocs is missing.
#   site.sh <folder to build into>
set -euo pipefail
command -v mkdocs >/dev/null || { echo 'mkdocs is not installed' >&2; exit 77; }
cd "$(dirname "$0")/../.."
site=$1
mkdocs build --quiet --strict --clean --site-dir "$site"

failed=0
for page in docs/*.md docs/internals/*.md; do
  name=${page#docs/}
  if ! grep -q "[: ]$name\$" mkdocs.yml; then
    echo "mkdocs.yml: $name is not in the navigation" >&2
    failed=1
  fi
done
# Scripts, styles and pictures must come with the site, so that it works without a network.
if grep -rnoE '(<script[^>]+src|<link[^>]+stylesheet[^>]+href|<img[^>]+src)="(https?:)?//[^"]+"' --include='*.html' "$site"; then
  echo 'the site loads something from elsewhere' >&2
  failed=1
fi
# Python's Markdown, unlike GitHub's, shows lists and tables as text if no blank line precedes them.
if grep -rnE '^(<p>)?(- |\| )' --include='*.html' "$site" | head -5 | grep .; then
  echo 'the site shows a list or a table as text; a blank line before it helps' >&2
  failed=1
fi
exit $failed
