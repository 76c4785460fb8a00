#!/usr/bin/env bash
# install.sh coordinator|worker OUT: makes an image of a bare Debian 12, from what build.sh has
# put into OUT. As root; the programs run as the user 65532.
set -euo pipefail
image="$1" out="$2"
user=65532

install_packages() {
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q
  apt-get install -q -y --no-install-recommends "$@"
  apt-get clean
  rm -rf /var/lib/apt/lists/*
}

case "$image" in
  coordinator)
    # Instead of systemd, which nothing starts here.
    install_packages systemd-standalone-sysusers "$out"/lockstepd_*.deb
    # The journal: a volume that is mounted here gets the owner and mode.
    install -d -o "$user" -g "$user" -m 0700 /var/lib/lockstep
    ;;
  worker)
    install_packages "$out"/liblockstep[0-9]*.deb "$out"/lockstep-tools_*.deb
    install "$out/digits" -t /usr/local/bin
    install -m 0644 "$out/libnccl.so.2" -t /usr/local/lib
    install -m 0644 "$out"/nccl-licence/* -t /usr/local/share/doc/nccl -D
    ldconfig
    ;;
  *)
    echo "install.sh: no image is called '$image'" >&2
    exit 2
    ;;
esac
