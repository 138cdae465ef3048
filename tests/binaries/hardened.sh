#!/usr/bin/env bash
# Checks how libraries and programs were compiled: with stack protectors, checked calls of libc, full RELRO, no
# executable stack, position-independent, and on x86 with the landing pads of control-flow protection.
#   hardened.sh PROCESSOR LIBVOLTA FILE...
set -euo pipefail
processor=$1
shift
status=0
complain() {
  echo "$1: $2"
  status=1
}
has() { # text, pattern
  grep -qE "$2" <<<"$1"
}

for file in "$@"; do
  dynamic=$(readelf -dW "$file")
  segments=$(readelf -lW "$file")
  has "$(nm -D --undefined-only "$file")" '__stack_chk_fail' || complain "$file" 'has no stack protectors'
  has "$segments" 'GNU_RELRO' || complain "$file" 'has no RELRO'
  has "$dynamic" 'BIND_NOW|FLAGS_1.*NOW' || complain "$file" 'is bound lazily: its RELRO is not full'
  has "$segments" 'GNU_STACK.* RW ' || complain "$file" 'has an executable stack'
  has "$(readelf -hW "$file")" 'Type:.*DYN' || complain "$file" 'is not position-independent'
  if [[ $processor =~ x86_64|AMD64 ]]; then
    # The file lacks the property if the system's startup files lack it, so the instructions are searched instead.
    [[ $(objdump -d --no-show-raw-insn "$file" | grep -c endbr64) -gt 0 ]] ||
      complain "$file" 'has no landing pads (-fcf-protection)'
  fi
done
# The compiler checks calls on buffers whose size it knows. libvolta has some of them.
has "$(nm -D --undefined-only "$1" | grep -v __stack_chk)" '__[a-z]+_chk' ||
  complain "$1" 'calls libc without checks (_FORTIFY_SOURCE)'
exit $status
