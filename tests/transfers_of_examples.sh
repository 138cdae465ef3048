#!/usr/bin/env bash
# A training step after the first moves its batch to the device and nothing else, in the examples of the
# table: bytes a step (an epoch where the example counts those) against what the batch has.
#   transfers_of_examples.sh DEVICE FOLDER-OF-EXAMPLES [example ...; default all]
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
device=$1 folder=$(cd "$2" && pwd)
shift 2
digit=$((28 * 28 * 4 + 8)) # with its label
picture=$((3 * 32 * 32 * 4 + 8))
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# name, bytes, few, more, arguments
table="
regression       0                    30 60 --steps %
sine_lstm        0                    10 20 --steps %
super_resolution 0                    10 20 --steps %
char_lstm        $((32 * 16 * 2 * 8)) 10 20 --steps % --hidden 32 --length 16
gpt2_train       $((16 * 32 * 2 * 8)) 10 20 --steps % --layers 1 --width 48 --length 32 --folder $scratch
mnist            $((746 * digit))     1  2  --epochs % --count 640
vae              $((640 * digit))     1  2  --epochs % --count 640
dcgan            $((64 * digit))      10 20 --steps % --features 8 --count 640
cifar_resnet     $((307 * picture))   1  2  --epochs % --count 256 --depth 1 --width 8 --batch 32
"
failed=0
while read -r name bytes few more arguments; do
  [ -n "$name" ] || continue
  if [ $# -gt 0 ] && [[ " $* " != *" $name "* ]]; then continue; fi
  # shellcheck disable=SC2086 # arguments are words
  output=$("$here/example_transfers.sh" "$bytes" "$few" "$more" "$folder/$name" --device "$device" $arguments 2>&1)
  code=$?
  echo "$name: $(tail -n 1 <<<"$output")"
  if [ $code -ne 0 ]; then
    echo "$output"
    failed=1
  fi
done <<<"$table"
exit $failed
