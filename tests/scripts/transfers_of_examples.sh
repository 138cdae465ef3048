#!/usr/bin/env bash
# Checks for all examples of the table that a training step after the first one only moves its batch to the device and
# reads back the loss that it prints. transfers_of_one_example.sh runs each example and has the rule. In examples that
# count epochs a step is an epoch, and the example reads back the values that it prints at its end.
#   transfers_of_examples.sh DEVICE FOLDER-OF-EXAMPLES [example ...; default all]
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
device=$1 folder=$(cd "$2" && pwd)
shift 2
digit=$((28 * 28 * 4 + 8)) # a picture with its label
picture=$((3 * 32 * 32 * 4 + 8))
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Columns: name, bytes to the device, numbers from it, few steps, more steps, arguments with @ for the device. char_lstm
# and gpt2_train print an average of losses, mlp also prints an accuracy. gpu_training reads the loss of every step, and
# some more values when it measures times.
table="
xor              0                    1/50  50  150 @ %
mlp              0                    2/25  25  50  @ %
custom_op        0                    1/100 100 200 @ %
gpu_training     $((64 * 18 * 4))     2     50  250 --device @ --steps % --widths 1
regression       0                    0     30  60  --device @ --steps %
sine_lstm        0                    0     10  20  --device @ --steps %
super_resolution 0                    0     10  20  --device @ --steps %
char_lstm        $((32 * 16 * 2 * 8)) 1     10  20  --device @ --steps % --hidden 32 --length 16
gpt2_train       $((16 * 32 * 2 * 8)) 1     10  20  --device @ --steps % --layers 1 --width 48 --length 32 --folder $scratch
mnist            $((746 * digit))     1     1   2   --device @ --epochs % --count 640
vae              $((640 * digit))     1     1   2   --device @ --epochs % --count 640
dcgan            $((64 * digit))      0     10  20  --device @ --steps % --features 8 --count 640
cifar_resnet     $((307 * picture))   1     1   2   --device @ --epochs % --count 256 --depth 1 --width 8 --batch 32
"
failed=0
while read -r name bytes numbers few more arguments; do
  [ -n "$name" ] || continue
  if [ $# -gt 0 ] && [[ " $* " != *" $name "* ]]; then continue; fi
  # shellcheck disable=SC2086 # the arguments are split into words on purpose
  output=$("$here/transfers_of_one_example.sh" "$bytes" "$numbers" "$few" "$more" "$folder/$name" \
    ${arguments//@/$device} 2>&1)
  code=$?
  echo "$name: $(tail -n 1 <<<"$output")"
  if [ $code -ne 0 ]; then
    echo "$output"
    failed=1
  fi
done <<<"$table"
exit $failed
