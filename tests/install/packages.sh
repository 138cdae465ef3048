#!/usr/bin/env bash
# Checks the output of cpack: the archive, and the Debian packages with their contents and control fields. Both are
# unpacked and run. As root the test also installs the packages into a scratch root and removes them.
source "$(dirname "$0")/common.sh"

quietly "$VOLTA_CPACK" --config "$VOLTA_BUILD/CPackConfig.cmake" -B "$work/packages" \
  -D CPACK_DEBIAN_COMPRESSION_TYPE=gzip # faster than the default
cd "$work/packages"

stripped() {
  local file
  while IFS= read -r file; do
    if readelf -SW "$file" | grep -qE '\.(symtab|debug_info)'; then fail "$file is not stripped"; fi
  done < <(find "$1" -type f \( -name 'libvolta*.so*' -o -path '*/bin/volta' \))
}

echo '--- the archive'
folder=volta-$VOLTA_VERSION-linux-$(uname -m)
[[ $(tar -tzf "$folder.tar.gz" | cut -d/ -f1 | sort -u) == "$folder" ]] || fail "not one folder $folder in the archive"
mkdir "$work/another place"
tar -xzf "$folder.tar.gz" -C "$work/another place"
archive="$work/another place/$folder"
install_into "$work/installed"
diff <(files_in "$work/installed") <(files_in "$archive") || fail 'the archive has other files than an installation'
stripped "$archive"
check_run_paths "$archive"
if built tools; then check_command "$archive/bin/volta"; fi

echo '--- the Debian packages'
command -v dpkg >/dev/null || { echo 'dpkg is not here, and no packages are made'; exit 0; }
architecture=$(dpkg --print-architecture)
declare -A section=([runtime]=libs [dev]=libdevel [cuda]=libs [opencl]=libs [tools]=science)
package_of() {
  if [[ $1 == runtime ]]; then echo "libvolta$abi"; else echo "volta-$1"; fi
}
field() { # component, field
  dpkg-deb -f "$(package_of "$1")_${VOLTA_VERSION}_$architecture.deb" "$2"
}
has() { # component, field, text
  [[ $(field "$1" "$2") == *"$3"* ]] || fail "$(package_of "$1"): '$3' is not in $2: $(field "$1" "$2")"
}
has_not() {
  [[ $(field "$1" "$2") != *"$3"* ]] || fail "$(package_of "$1"): '$3' is in $2: $(field "$1" "$2")"
}

diff <(for component in $VOLTA_COMPONENTS; do echo "$(package_of "$component")_${VOLTA_VERSION}_$architecture.deb"; done | sort) \
  <(printf '%s\n' *.deb | sort) || fail 'other packages than expected'
for component in $VOLTA_COMPONENTS; do
  package=$(package_of "$component")
  [[ $(field "$component" Package) == "$package" ]] || fail "Package: $(field "$component" Package)"
  [[ $(field "$component" Version) == "$VOLTA_VERSION" ]] || fail "$package: Version: $(field "$component" Version)"
  [[ $(field "$component" Architecture) == "$architecture" ]] || fail "$package: Architecture: $(field "$component" Architecture)"
  [[ $(field "$component" Section) == "${section[$component]}" ]] || fail "$package: Section: $(field "$component" Section)"
  has "$component" Source volta
  [[ $(field "$component" Maintainer) =~ ^.+\ \<.+@.+\>$ ]] || fail "$package: Maintainer: $(field "$component" Maintainer)"
  description=$(field "$component" Description)
  [[ $(wc -l <<<"$description") -ge 2 && $(wc -L <<<"$description") -le 80 ]] ||
    fail "$package: a description has two lines or more, of 80 columns or less: $description"
  if [[ $component == runtime ]]; then
    has_not runtime Depends volta
  else
    has "$component" Depends "libvolta$abi (= $VOLTA_VERSION)"
  fi
  mkdir -p "$work/root" "$work/$component"
  dpkg-deb -x "${package}_${VOLTA_VERSION}_$architecture.deb" "$work/$component"
  dpkg-deb -x "${package}_${VOLTA_VERSION}_$architecture.deb" "$work/root"
  cmp "$work/$component/usr/share/doc/$package/copyright" "$VOLTA_SOURCE/cmake/licences/copyright"
  [[ -z $(find "$work/$component" -perm /022 ! -type l) ]] || fail "$package: files that others may write"
done
dpkg-deb -e "libvolta${abi}_${VOLTA_VERSION}_$architecture.deb" "$work/control"
[[ $(cat "$work/control/shlibs") == "libvolta $abi libvolta$abi (>= $VOLTA_VERSION)" ]] || fail "shlibs: $(cat "$work/control/shlibs")"
[[ $(cat "$work/control/triggers") == 'activate-noawait ldconfig' ]] || fail "triggers: $(cat "$work/control/triggers")"
if grep -q '^set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS "ON")' "$VOLTA_BUILD/CPackConfig.cmake"; then
  has runtime Depends 'libc6 (>= '
  has runtime Depends 'libstdc++6 (>= '
  if built opencl; then has opencl Depends ocl-icd-libopencl1; fi
else
  echo 'dpkg-shlibdeps (dpkg-dev) or file is not here: the packages name only each other'
fi
if built opencl; then has opencl Suggests opencl-icd; fi
if built cuda; then # these libraries are opened at run time, so they are suggested
  for library in libcuda1 nvrtc cublas cudnn; do
    has cuda Suggests $library
    has_not cuda Depends $library
  done
fi
diff <(files_in "$work/installed") <(files_in "$work/root/usr") || fail 'the packages have other files than an installation'
stripped "$work/root"
check_run_paths "$work/root"
if built tools; then check_command "$work/root/usr/bin/volta"; fi

echo '--- installed and removed'
if [[ $(id -u) -ne 0 ]]; then
  echo 'not root: not tried'
  exit 0
fi
# The scratch root has only a package database. Scripts of its packages must not call this machine's ldconfig.
scratch=$work/scratch
mkdir -p "$scratch"/var/lib/dpkg/{info,updates,triggers} "$work/bin"
touch "$scratch/var/lib/dpkg/status" "$scratch/var/lib/dpkg/available"
ln -s "$(command -v true)" "$work/bin/ldconfig"
packager() {
  PATH=$work/bin:$PATH quietly dpkg --root="$scratch" --force-script-chrootless --force-depends "$@"
}
packager --install ./*.deb
for component in $VOLTA_COMPONENTS; do
  quietly dpkg --root="$scratch" --verify "$(package_of "$component")"
done
if built tools; then check_command "$scratch/usr/bin/volta"; fi
removed=()
for component in $VOLTA_COMPONENTS; do removed+=("$(package_of "$component")"); done
packager --purge "${removed[@]}"
left=$(find "$scratch" -mindepth 1 -path "$scratch/var" -prune -o -print)
[[ -z $left ]] || fail "removed packages left this behind: $left"
