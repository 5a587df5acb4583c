/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stddef.h>

#include "base/err.h"

const char *err_usual_hint(int code)
{
	switch (-code) {
	case ENOENT:
		return "is the name right? It counts from the folder that byteledger was started "
		       "in";
	case EACCES:
	case EPERM:
		return "'ls -l' says whose it is, 'byteledger check' what this user may";
	case ENOSPC:
	case EDQUOT:
		return "make room, or write it elsewhere";
	case EFBIG:
		return "'ulimit -f' is the limit on the size of files";
	case EROFS:
		return "name a file elsewhere with -o";
	case EEXIST:
		return "-o names another file";
	case EISDIR:
		return "a file is wanted, and that is a folder";
	case ENOTDIR:
		return "a part of the path is a file, and no folder";
	case ELOOP:
		return "its symbolic links lead in a circle, or are not followed here: name the "
		       "file itself";
	case ENAMETOOLONG:
		return "a shorter name";
	case ENOMEM:
		return "'ulimit -v' and the limit of the cgroup say how much memory there may be";
	case EAGAIN:
		return "'ulimit -u' and 'ulimit -v' say how many threads there may be";
	case EMFILE:
	case ENFILE:
		return "'ulimit -n' is the limit on open files";
	case EIO:
		return "the disk or its file system failed: 'dmesg' may say more";
	case ESRCH:
		return "the process has ended";
	case EBADMSG:
		return "it is damaged, or was made by something else: 'byteledger info FILE' tells "
		       "what can be "
		       "read";
	case E2BIG:
		return "it is larger than what byteledger takes";
	default:
		return NULL;
	}
}
