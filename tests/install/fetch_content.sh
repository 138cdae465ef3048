#!/usr/bin/env bash
# Builds examples/downstream/fetch_content including Volta, and runs it on the devices of the backends it has built.
# The folder lies as deep as the build's own, so that a compiler cache knows most of the files.
source "$(dirname "$0")/common.sh"

folder=$VOLTA_BUILD-fetch-content
read -ra options <<<"$VOLTA_BACKEND_OPTIONS"
configure "$VOLTA_SOURCE/examples/downstream/fetch_content" "$folder" -DCMAKE_CXX_COMPILER="$VOLTA_COMPILER" \
  -DCMAKE_BUILD_TYPE=Release -DFETCHCONTENT_SOURCE_DIR_VOLTA="$VOLTA_SOURCE" "${options[@]}"
"$VOLTA_CMAKE" --build "$folder"
cd "$work"
"$folder/xor" cpu | tee output
grep -q "^Volta $VOLTA_VERSION on " output
if built opencl; then "$folder/xor" opencl:0; fi
