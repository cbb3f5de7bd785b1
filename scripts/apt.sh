# Sourced by the need-* scripts: installs Debian packages, as root only.

# install_packages NAME... installs without recommendations. The package lists are fetched
# only if the first attempt fails, so that several scripts in a row fetch them once.
install_packages() {
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "missing: $*" >&2
    echo "install it with your system's package manager, or run this as root on Debian" >&2
    return 1
  fi
  echo "installing $*"
  export DEBIAN_FRONTEND=noninteractive
  local get=(apt-get -qq -y --no-install-recommends -o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-confold install)
  local log
  log=$(mktemp)
  if ! "${get[@]}" "$@" </dev/null >"$log" 2>&1 &&
     ! { apt-get -qq update </dev/null >"$log" 2>&1 && "${get[@]}" "$@" </dev/null >"$log" 2>&1; }; then
    cat "$log" >&2
    rm -f "$log"
    return 1
  fi
  rm -f "$log"
}
