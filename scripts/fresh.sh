#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# fresh.sh - prove that a fresh Debian is enough: debootstrap a minimal root outside the tree, clone the project into it, run
# commands there, print how long each took and how much was installed.
#
#   scripts/fresh.sh [-s SUITE] [-d FOLDER] [COMMAND...]      default commands: 'DEMO_SERVE=0 ./dev demo' './dev check'
#
# SUITE: bookworm (default), trixie, sid or any other that debootstrap knows. Needs root and debootstrap. FOLDER (default: a new
# one below /var/tmp, removed afterwards) is kept if named; one that holds a root already is used again, with a new clone.
# apt inside uses this machine's mirror and configuration, npm the authorities that it trusts.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
folder= keep= suite=bookworm
while getopts d:s: o; do
	case $o in
	d) folder=$OPTARG keep=1 ;;
	s) suite=$OPTARG ;;
	*) sed -n '3,10s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
	esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || set -- 'DEMO_SERVE=0 ./dev demo' './dev check'
[ "$(id -u)" = 0 ] || { echo "fresh: not root" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "fresh: no debootstrap; hint: ./dev deps --all" >&2; exit 1; }
: "${folder:=$(mktemp -d /var/tmp/byteledger-fresh-XXXXXX)}"
[ -n "$keep" ] || trap 'rm -rf --one-file-system "$folder"' EXIT
mkdir -p "$folder"
folder=$(realpath "$folder")

seconds() { date +%s; }
if [ ! -e "$folder/.fresh-ready" ]; then
	start=$(seconds)
	own=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
	mirror=$(apt-get indextargets --format '$(SITE) $(RELEASE)' 2>/dev/null | awk -v own="$own" '$2 == own {print $1; exit}')
	debootstrap --variant=minbase "$suite" "$folder" ${mirror:+"$mirror"} >"$folder.log" 2>&1 ||
		{ tail -5 "$folder.log" >&2; exit 1; }
	# of another release debootstrap has written the sources itself
	kept="apt.conf.d auth.conf.d"
	[ "$suite" != "$own" ] || kept="$kept sources.list sources.list.d preferences.d keyrings trusted.gpg.d"
	for f in $kept; do
		[ ! -e "/etc/apt/$f" ] || { rm -rf "$folder/etc/apt/$f"; cp -a "/etc/apt/$f" "$folder/etc/apt/$f"; }
	done
	cp -L /etc/resolv.conf /etc/hosts "$folder/etc/"
	touch "$folder/.fresh-ready"
	echo "fresh: debootstrap took $(($(seconds) - start)) s"
fi
rm -rf "$folder/srv/byteledger"
git clone -q "$top" "$folder/srv/byteledger"
[ ! -e /etc/ssl/certs/ca-certificates.crt ] || cp /etc/ssl/certs/ca-certificates.crt "$folder/srv/authorities.crt"
installed() { du -smx --exclude="$folder/srv" --exclude="$folder/tmp" --exclude="$folder/var/cache/apt" "$folder" | cut -f1; }
before=$(installed)
status=0
for command; do
	echo "fresh: $command"
	start=$(seconds)
	# A mount namespace of its own: nothing of it outlives the command. Its root, not only a chroot, where no user namespace
	# could be made and no mount kept from spreading.
	unshare -m --propagation private sh -c '
		mount --bind "$1" "$1" && cd "$1" && mount -t proc proc proc && mount -t sysfs sysfs sys && mount --rbind /dev dev &&
		{ mount -t tracefs tracefs sys/kernel/tracing; mount -t bpf bpf sys/fs/bpf; mount -t cgroup2 cgroup2 sys/fs/cgroup; } 2>/dev/null
		pivot_root . mnt || exit
		exec env -i HOME=/root TERM=dumb PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
			${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
			NODE_EXTRA_CA_CERTS=/srv/authorities.crt \
			chroot . sh -c "umount -l /mnt && cd /srv/byteledger && $2"' - "$folder" "$command" </dev/null || status=$?
	echo "fresh: $command: $(($(seconds) - start)) s, status $status, $(($(installed) - before)) MiB installed so far"
	[ $status = 0 ] || break
done
exit $status
