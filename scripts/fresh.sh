#!/usr/bin/env bash
# Follows the README on a minimal Debian system: creates a root, clones this repository's HEAD, installs the
# prerequisites, then runs both commands and prints their times. Needs root and debootstrap. The package archive
# and the proxy settings are those of this machine.
#   fresh.sh [folder to build the root in; default: a temporary one, removed at the end]
set -euo pipefail

suite=bookworm
demo_limit_s=300 # on two cores, with no cache of compiled files
repository=$(cd "$(dirname "$0")/.." && pwd)

if [[ $(id -u) -ne 0 ]] || ! command -v debootstrap >/dev/null; then
  echo 'fresh.sh: needs root, and: apt-get install -y debootstrap' >&2
  exit 1
fi
# Mounts have a namespace of their own, so that none is left behind.
if [[ ${VOLTA_FRESH_INSIDE-} != 1 ]]; then
  VOLTA_FRESH_INSIDE=1 exec unshare --mount --propagation private "$0" "$@"
fi

if [[ $# -gt 0 ]]; then
  mkdir -p "$1"
  root=$(cd "$1" && pwd)
else
  root=$(mktemp -d)
  chmod 755 "$root" # apt downloads as a user of its own
  trap 'cd /; umount -R "$root/proc" "$root/sys" "$root/dev/pts" 2>/dev/null || true; rm -rf --one-file-system "$root"' EXIT
fi

# Runs a command in the root, with a clean environment but for proxies.
inside() {
  env -i HOME=/srv PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
    chroot "$root" /bin/bash -euc "$1"
}

# Runs a step in the clone and says how long it took.
step() {
  local start=$SECONDS
  echo "== $1"
  inside "cd /srv/volta && $1"
  took=$((SECONDS - start))
  times+="$(printf '%5d s  %s' "$took" "$1")"$'\n'
}

# Debian's archives that this machine uses: one line with address and suite for each.
archives=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN)' 'Created-By: Packages' |
  awk '$3 == "main" && ($4 == "Debian" || $1 ~ /debian/) {print $1, $2}' | sort -u)
mirror=$(awk -v suite="$suite" '$2 == suite {print $1; exit}' <<<"$archives")
mirror=${mirror:-http://deb.debian.org/debian}

start=$SECONDS
debootstrap --variant=minbase "$suite" "$root" "$mirror"
times=$(printf '%5d s  debootstrap' $((SECONDS - start)))$'\n'

apt-config dump Acquire | grep -E '^Acquire::([a-z]+::Proxy|Check-Valid-Until|Retries)' \
  >"$root/etc/apt/apt.conf.d/90host" || true
awk -v suite="$suite" 'index($2, suite) == 1 {print "deb", $1, $2, "main"}' <<<"$archives" \
  >"$root/etc/apt/sources.list"
cp /etc/resolv.conf /etc/hosts "$root/etc/"
mount --bind /proc "$root/proc"
mount --rbind /sys "$root/sys" # PoCL reads the processor's topology there
mkdir -p "$root/dev/pts"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts" # tests of terminal output need it
ln -sf pts/ptmx "$root/dev/ptmx"

git clone --quiet --bare "$repository" "$root/srv/volta.git"
inside 'apt-get update -q && apt-get install -y make git && git clone -q /srv/volta.git /srv/volta'

step 'make demo'
demo_s=$took
step 'make test'
step 'make demo' # nothing left to install or build

printf '\n%s' "$times"
if [[ $demo_s -gt $demo_limit_s ]]; then
  echo "make demo took longer than $demo_limit_s s" >&2
  exit 1
fi
