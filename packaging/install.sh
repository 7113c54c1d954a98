#!/bin/sh
# Installs a release of opcell for this user: into ~/.local/bin, or where OPCELL_BIN says. OPCELL_VERSION chooses a version.
# The checksum is compared before anything is installed.
set -eu

releases=${OPCELL_RELEASES:-https://github.com/opcell/opcell/releases}
bin=${OPCELL_BIN:-$HOME/.local/bin}
version=${OPCELL_VERSION:-}

fail() {
  echo "install: $*" >&2
  exit 1
}
fetch() { curl --fail --silent --show-error --location --max-time 300 --proto '=https,file' --output "$2" "$1"; }

command -v curl >/dev/null || fail "curl is needed"
command -v sha256sum >/dev/null || fail "sha256sum is needed"
case "$(uname -s) $(uname -m)" in
  "Linux x86_64") target=x86_64-unknown-linux-gnu ;;
  *) fail "there is no release for $(uname -s) on $(uname -m); build it from a checkout: cargo install --path host/cli" ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -z "$version" ]; then
  fetch "$releases/latest/download/VERSION" "$work/VERSION" || fail "cannot find the latest version; set OPCELL_VERSION"
  version=$(cat "$work/VERSION")
fi
case "$version" in
  "" | *[!0-9A-Za-z.+-]*) fail "\"$version\" is not a version" ;;
esac
name="opcell-$version-$target"
fetch "$releases/download/v$version/$name.tar.gz" "$work/$name.tar.gz" || fail "cannot fetch $name.tar.gz"
fetch "$releases/download/v$version/SHA256SUMS" "$work/SHA256SUMS" || fail "cannot fetch the checksums"
(cd "$work" && grep " $name.tar.gz\$" SHA256SUMS | sha256sum --check --quiet -) >&2 ||
  fail "the checksum of $name.tar.gz is wrong: nothing was installed"
tar -xzf "$work/$name.tar.gz" -C "$work"
mkdir -p "$bin"
install -m 755 "$work/$name/opcell" "$bin/opcell"
echo "installed opcell $version in $bin"
case ":$PATH:" in
  *":$bin:"*) ;;
  *) echo "add $bin to your PATH" ;;
esac
