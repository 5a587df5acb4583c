#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# archive.sh IN.a OUT.a - all of an archive as one object whose hidden symbols are local, in an archive again
set -eu
object="${2%.a}.o"
rm -f "$2" "$object"
ld -r --whole-archive "$1" -o "$object"
objcopy --localize-hidden "$object"
ar rcs "$2" "$object"
rm -f "$object"
