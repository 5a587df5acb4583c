#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# guest.sh - run a command under another kernel: a Debian cloud kernel in QEMU (software emulation, no KVM), the host's root
# shared read-only, this project's folder read-write at its own path. stdout, stderr and the exit status come back.
#
#   scripts/guest.sh [-k 6.1|FILE.deb] [-t SECONDS] [-c CPUS] [-m MIB] -- COMMAND [ARGS...]
#
# Needs root and the packages of [all] in scripts/packages. The kernel package is downloaded once into build/guest and never
# installed. The command starts in this project's folder about 6 s after the boot; reckon 10 times the host's time, and 50 times
# for a compiler: build on the host, run here. Status 125: the guest did not come up (two tries), 124: time was up.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
kernel=6.1 limit=300 cpus=2 mib=2048
while getopts k:t:c:m: o; do
	case $o in
	k) kernel=$OPTARG ;;
	t) limit=$OPTARG ;;
	c) cpus=$OPTARG ;;
	m) mib=$OPTARG ;;
	*) sed -n '3,12s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
	esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || { sed -n '3,12s/^# \{0,1\}//p' "$0" >&2; exit 2; }
PATH=/usr/bin:/bin:/usr/sbin:/sbin:$PATH
[ "$(id -u)" = 0 ] || { echo "guest: not root" >&2; exit 125; }
for tool in qemu-system-x86_64 busybox cpio depmod modprobe flock; do
	command -v $tool >/dev/null || { echo "guest: no $tool; hint: ./dev deps --all" >&2; exit 125; }
done
virtiofsd=/usr/lib/qemu/virtiofsd
# cx16=off below: QEMU 7.2 gets cmpxchg16b wrong now and then, and kernels from 6.12 on die of it in their allocator
[ -x $virtiofsd ] || { echo "guest: no $virtiofsd (package qemu-system-common)" >&2; exit 125; }
store=$top/build/guest
mkdir -p "$store"

# fetch_kernel - the newest package of that version, unpacked below build/guest/KERNEL; one process at a time
fetch_kernel() {
	exec 8>"$store/fetch.lock"
	flock 8
	dir=$store/$(basename "$kernel" .deb)
	if [ ! -e "$dir/ready" ]; then
		rm -rf "$dir"
		mkdir -p "$dir/deb"
		if [ -f "$kernel" ]; then
			cp "$kernel" "$dir/deb/"
		else
			name=$(apt-cache search --names-only "^linux-image-$(echo "$kernel" | sed 's/\./\\./g')\.[0-9.-]*-cloud-amd64\$" |
				awk '{print $1}' | sort -V | tail -1)
			[ -n "$name" ] || { echo "guest: no package of a cloud kernel $kernel; hint: apt-get update" >&2; exit 125; }
			(cd "$dir/deb" && apt-get download -q "$name" >"$store/download.log" 2>&1) ||
				{ tail -3 "$store/download.log" >&2; echo "guest: cannot download $name" >&2; exit 125; }
		fi
		dpkg-deb -x "$dir"/deb/*.deb "$dir/root"
		version=$(basename "$(ls -d "$dir"/root/boot/vmlinuz-* | head -1)" | sed 's/vmlinuz-//')
		depmod -b "$dir/root" "$version"
		echo "$version" >"$dir/version"
		initramfs
		touch "$dir/ready"
	fi
	version=$(cat "$dir/version")
	exec 8>&-
}

# initramfs - busybox, the virtio modules, and an init that mounts the host's root and goes there
initramfs() {
	root=$dir/initramfs
	mkdir -p "$root/bin" "$root/mod" "$root/proc" "$root/sys" "$root/dev" "$root/root"
	cp "$(command -v busybox)" "$root/bin/busybox"
	: >"$root/mod/order"
	for m in virtio_pci virtio_console virtiofs; do
		# "builtin NAME" lines: nothing to load
		modprobe -d "$dir/root" -S "$version" --show-depends $m 2>/dev/null | awk '$1 == "insmod" {print $2}' |
			while read -r file; do
				base=$(basename "$file")
				[ -e "$root/mod/$base" ] || { cp "$file" "$root/mod/"; echo "$base" >>"$root/mod/order"; }
			done
	done
	cat >"$root/init" <<-'INIT'
		#!/bin/busybox sh
		/bin/busybox --install -s /bin
		export PATH=/bin
		mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev
		while read m; do insmod /mod/$m; done </mod/order
		for w in $(cat /proc/cmdline); do case $w in work=*) WORK=${w#work=} ;; esac; done
		mount -t virtiofs -o ro root /root || { echo "guest: cannot mount the root"; poweroff -f; }
		for d in tmp var/tmp run; do mount -t tmpfs tmpfs /root/$d; done
		chmod 1777 /root/tmp /root/var/tmp
		mkdir -p /dev/pts /dev/shm; mount -t devpts devpts /dev/pts; mount -t tmpfs tmpfs /dev/shm
		ln -s /proc/self/fd /dev/fd; ln -s /proc/self/fd/0 /dev/stdin; ln -s /proc/self/fd/1 /dev/stdout; ln -s /proc/self/fd/2 /dev/stderr
		mount -t tracefs tracefs /sys/kernel/tracing; mount -t debugfs debugfs /sys/kernel/debug
		mount -t bpf bpf /sys/fs/bpf; mount -t cgroup2 cgroup2 /sys/fs/cgroup; mount -t securityfs securityfs /sys/kernel/security
		ifconfig lo 127.0.0.1 up
		[ -d /root$WORK ] || mkdir -p /root$WORK
		mount -t virtiofs work /root$WORK || { echo "guest: cannot mount the work folder"; poweroff -f; }
		for d in proc sys dev; do mount -o move /$d /root/$d; done
		exec switch_root /root /bin/sh $(cat /root/proc/cmdline | tr ' ' '\n' | sed -n 's/^main=//p')
	INIT
	chmod +x "$root/init"
	(cd "$root" && find . | cpio -o -H newc --quiet) >"$dir/initrd"
}

fetch_kernel
run=$store/run.$$
mkdir -p "$run"
pids=
cleanup() {
	for p in $pids; do kill "$p" 2>/dev/null || true; done
	wait 2>/dev/null || true
	rm -rf "$run"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# What the guest's shell runs as its init: ports are opened once, so the command writes through pipes.
{
	echo "exec >/dev/console 2>&1 </dev/null"
	echo 'port() { for p in /sys/class/virtio-ports/*; do [ "$(cat $p/name)" = $1 ] && echo /dev/$(basename $p); done; }'
	echo 'exec 5>"$(port status)"; echo begun >&5'
	echo 'mkfifo /tmp/o /tmp/e; cat /tmp/o >"$(port out)" & co=$!; cat /tmp/e >"$(port err)" & ce=$!'
	printf 'cd %q\n' "$top"
	echo 'export HOME=/root PATH=/usr/bin:/bin:/usr/sbin:/sbin TERM=dumb LC_ALL=C.UTF-8 BYTELEDGER_GUEST=1'
	printf '('
	printf '%q ' "$@"
	echo ') >/tmp/o 2>/tmp/e'
	echo 'rc=$?; wait $co $ce; echo "status $rc" >&5; sync; sleep 0.1; echo o >/proc/sysrq-trigger; sleep 60'
} >"$run/main"

boot() {
	rm -f "$run"/*.sock "$run/status"
	unshare -m sh -c "mount --make-rprivate / && mkdir -p '$run/ro' && mount --bind / '$run/ro' && mount -o remount,bind,ro '$run/ro' &&
		exec $virtiofsd --socket-path='$run/root.sock' -o source='$run/ro' -o sandbox=chroot -o cache=always" >"$run/fs1.log" 2>&1 &
	pids="$pids $!"
	$virtiofsd --socket-path="$run/work.sock" -o source="$top" -o sandbox=chroot -o cache=auto >"$run/fs2.log" 2>&1 &
	pids="$pids $!"
	for _ in $(seq 100); do
		[ -S "$run/root.sock" ] && [ -S "$run/work.sock" ] && break
		sleep 0.05
	done
	[ -p "$run/out" ] || mkfifo "$run/out" "$run/err"
	cat "$run/out" &
	out=$!
	cat "$run/err" >&2 &
	err=$!
	pids="$pids $out $err"
	timeout -k 5 "$limit" qemu-system-x86_64 -nodefaults -no-user-config -display none -no-reboot \
		-machine q35,memory-backend=mem -accel tcg,thread=multi -cpu max,cx16=off -smp "$cpus" -m "${mib}M" \
		-object memory-backend-memfd,id=mem,size="${mib}M",share=on \
		-kernel "$dir/root/boot/vmlinuz-$version" -initrd "$dir/initrd" \
		-append "console=ttyS0 quiet panic=-1 mitigations=off work=$top main=$run/main" -serial "file:$run/console" \
		-chardev socket,id=r,path="$run/root.sock" -device vhost-user-fs-pci,chardev=r,tag=root \
		-chardev socket,id=w,path="$run/work.sock" -device vhost-user-fs-pci,chardev=w,tag=work \
		-device virtio-serial-pci \
		-chardev file,id=o,path="$run/out" -device virtserialport,chardev=o,name=out \
		-chardev file,id=e,path="$run/err" -device virtserialport,chardev=e,name=err \
		-chardev file,id=s,path="$run/status" -device virtserialport,chardev=s,name=status </dev/null >"$run/qemu.log" 2>&1 &
	qemu=$!
	pids="$pids $qemu"
	code=0
	wait $qemu || code=$?
	# if qemu never opened a pipe, its reader would wait for ever
	for _ in $(seq 40); do
		kill -0 $out 2>/dev/null || kill -0 $err 2>/dev/null || break
		sleep 0.05
	done
	kill $out $err 2>/dev/null || true
	wait $out $err 2>/dev/null || true
}

# A boot now and then dies before its init (a double fault of the emulation): once more, but never once the command has begun.
for try in 1 2; do
	boot
	grep -q '^begun' "$run/status" 2>/dev/null && break
	[ $try = 1 ] || { cat "$run/qemu.log" "$run/fs1.log" "$run/fs2.log" >&2; tail -20 "$run/console" >&2; echo "guest: did not come up" >&2; exit 125; }
done
status=$(sed -n 's/^status //p' "$run/status" | tr -d '\r')
if [ -z "$status" ]; then
	tail -20 "$run/console" >&2 || true
	[ $code = 124 ] && { echo "guest: ended after $limit s" >&2; exit 124; }
	echo "guest: the kernel ended before the command did" >&2
	exit 125
fi
exit "$status"
