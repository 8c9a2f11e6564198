# Shared by the scripts: a virtual environment with the locked dependencies, and the real components that tests talk to.

unset PYTHONDONTWRITEBYTECODE # without bytecode every command compiles all that it imports

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=${OPMKIT_VENV:-$root/.venv}
components=(docker-registry podman buildah dockerd skopeo umoci htpasswd openssl runc chromium make zsh fish)

say() { printf '\033[1m%s\033[0m\n' "$*" >&2; }

may_install() { [ "${OPMKIT_INSTALL:-yes}" = yes ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

apt_install() {
  say "Installing: $*"
  [ -n "${apt_updated:-}" ] || { apt-get update -qq && apt_updated=yes; }
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# A python that is new enough, with the venv module.
find_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11; do
    [ -n "$candidate" ] && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11, 2))' 2>/dev/null || continue
    if ! "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
      may_install && apt_install python3-venv || continue
    fi
    echo "$candidate"
    return
  done
  echo "Python 3.11.2 or newer with its venv module is needed; set PYTHON to its path" >&2
  return 1
}

pip_install() { "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile "$@"; }

# uv installs in seconds what takes pip a minute. Where it fails, for example because only pip knows the package index of
# the machine, pip does it.
install_requirements() {
  pip_install --require-hashes -r "$root/scripts/installer.lock" &&
    "$venv/bin/uv" pip install --quiet --system-certs --python "$venv/bin/python" -r "$@" ||
    pip_install -r "$@"
}

# make_venv LOCKFILE: the environment, brought up to date only when the lock file or pyproject.toml changed.
make_venv() {
  local lock=$root/$1 stamp=$venv/.opmkit-$1
  if [ ! -x "$venv/bin/python" ]; then
    say "Creating $venv"
    local python
    python=$(find_python)
    "$python" -m venv "$venv"
  fi
  if ! cmp -s "$lock" "$stamp" || [ "$root/pyproject.toml" -nt "$stamp" ] || [ ! -x "$venv/bin/opm" ]; then
    say "Installing the dependencies locked in $1"
    install_requirements "$lock" --require-hashes
    # The demo runs a few commands: they compile what they import in less time than everything takes.
    [ "$1" = requirements.lock ] || "$venv/bin/python" -m compileall -q -j 0 "$venv"/lib/*/site-packages >/dev/null || true
    pip_install --no-build-isolation --no-deps -e "$root"
    cp "$lock" "$stamp"
  fi
  # Commands that tests and benchmarks start load this bytecode, also where none may be written.
  "$venv/bin/python" -m compileall -q "$root/src"
}

# The registry, engines, image tools and browser that tests talk to, where this user may install them.
install_components() {
  declare -A package=([dockerd]=docker.io [htpasswd]=apache2-utils [etcd]=etcd-server)
  local name missing=()
  if [ -n "${OPMKIT_CLUSTER_BIN:-}" ]; then
    components+=(etcd)
  fi
  for name in "${components[@]}"; do
    command -v "$name" >/dev/null || missing+=("${package[$name]:-$name}")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if may_install; then
    apt_install "${missing[@]}" crun conmon fonts-dejavu-core
  else
    say "Not installed, so their tests are skipped: ${missing[*]}"
  fi
}
