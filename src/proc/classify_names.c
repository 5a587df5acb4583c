/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/classify_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

struct word_rule {
	/* the name begins with it */
	const char *word;
	enum region_class class;
	/* NULL: from the name */
	const char *label;
	const char *owner;
};

/* Special files. Those that the kernel deletes at once carry " (deleted)". */
static const struct word_rule specials[] = {
	{ "/memfd:byteledger", REGION_BYTELEDGER, "memfd", "byteledger" },
	{ "/memfd:", REGION_MEMFD, NULL, NULL },
	{ "/SYSV", REGION_SYSV_SHM, NULL, NULL },
	{ "/dev/zero (deleted)", REGION_SHARED_ANONYMOUS, "shared anonymous", NULL },
	{ "/dev/zero", REGION_ANONYMOUS, "/dev/zero", NULL },
	{ "/dev/shm/", REGION_POSIX_SHM, NULL, NULL },
	{ "/anon_hugepage", REGION_HUGETLB, "huge pages", NULL },
	{ "/dev/hugepages/", REGION_HUGETLB, NULL, NULL },
	{ "/drm mm object", REGION_DEVICE, "GPU buffers", "drm" },
	{ "/i915", REGION_DEVICE, "GPU buffers", "i915" },
	{ "/dmabuf:", REGION_DEVICE, "dma-buf", NULL },
	{ "/dev/dri/", REGION_DEVICE, NULL, NULL },
	{ "/dev/nvidia", REGION_DEVICE, "nvidia", "nvidia" },
	{ "/dev/kfd", REGION_DEVICE, "kfd", "amdgpu" },
	{ "/dev/", REGION_DEVICE, NULL, NULL },
	{ "/[aio]", REGION_KERNEL_BUFFER, "aio ring", NULL },
	{ "/secretmem", REGION_MEMFD, "secret memory", NULL },
};

/* Pseudo names of the kernel. */
static const struct word_rule pseudos[] = {
	{ "[heap]", REGION_ALLOCATOR, "heap (brk)", NULL },
	{ "[vdso]", REGION_KERNEL_HELPER, "vdso", NULL },
	{ "[vvar", REGION_KERNEL_HELPER, "vvar", NULL },
	{ "[vsyscall]", REGION_KERNEL_HELPER, "vsyscall", NULL },
	{ "[sigpage]", REGION_KERNEL_HELPER, "sigpage", NULL },
	{ "[vectors]", REGION_KERNEL_HELPER, "vectors", NULL },
	{ "[uprobes", REGION_INSTRUMENTATION, "uprobe trampoline", NULL },
	{ "anon_inode:byteledger", REGION_BYTELEDGER, "anon_inode", "byteledger" },
	{ "anon_inode:[io_uring]", REGION_KERNEL_BUFFER, "io_uring", NULL },
	{ "anon_inode:[perf_event]", REGION_KERNEL_BUFFER, "perf events", NULL },
	{ "anon_inode:bpf", REGION_KERNEL_BUFFER, "BPF", NULL },
	{ "anon_inode:[bpf", REGION_KERNEL_BUFFER, "BPF", NULL },
	{ "anon_inode:kvm", REGION_KERNEL_BUFFER, "KVM", NULL },
	{ "anon_inode:[kvm", REGION_KERNEL_BUFFER, "KVM", NULL },
	{ "anon_inode:[userfaultfd]", REGION_KERNEL_BUFFER, "userfaultfd", NULL },
	{ "socket:", REGION_KERNEL_BUFFER, "packet socket ring", NULL },
};

/* Who sets VMA names without a leading blank. The first that fits. */
static const struct word_rule vma_names[] = {
	{ "byteledger", REGION_BYTELEDGER, "byteledger", "byteledger" },
	{ "Go: ", REGION_RUNTIME, NULL, "Go" },
	{ "glibc: malloc", REGION_ALLOCATOR, NULL, "glibc malloc" },
	{ "glibc: pthread stack", REGION_STACK, "thread stacks", NULL },
	{ "glibc: pthread user stack", REGION_STACK, "thread stacks", NULL },
	{ "stack_and_tls:", REGION_STACK, "thread stacks", NULL },
	{ "glibc:", REGION_ALLOCATOR, NULL, "glibc" },
	{ "jemalloc_", REGION_ALLOCATOR, NULL, "jemalloc" },
	{ "mimalloc", REGION_ALLOCATOR, NULL, "mimalloc" },
	{ "tcmalloc_", REGION_ALLOCATOR, NULL, "tcmalloc" },
	{ "scudo:", REGION_ALLOCATOR, NULL, "scudo" },
	{ "partition_alloc", REGION_ALLOCATOR, NULL, "PartitionAlloc" },
	{ "libc_malloc", REGION_ALLOCATOR, NULL, "libc malloc" },
	{ "absl", REGION_ALLOCATOR, NULL, "abseil" },
	{ "cpython:", REGION_RUNTIME, NULL, "CPython" },
	{ "dalvik-", REGION_RUNTIME, NULL, "ART" },
	{ "v8", REGION_RUNTIME, NULL, "V8" },
	{ "ruby", REGION_RUNTIME, NULL, "Ruby" },
	{ "Ruby:", REGION_RUNTIME, NULL, "Ruby" },
	{ "OCaml:", REGION_RUNTIME, NULL, "OCaml" },
};

static const struct word_rule *find(const struct word_rule *rules, size_t count, const char *name)
{
	/*
	 * the first two letters decide about nearly all of them, and every mapping of a file comes
	 * by here
	 */
	for (size_t i = 0; i < count; i++)
		if (name[0] == rules[i].word[0] && name[1] == rules[i].word[1] &&
		    strncmp(name, rules[i].word, strlen(rules[i].word)) == 0)
			return &rules[i];
	return NULL;
}

int name_is_special(const char *name)
{
	return name[0] == '/' && find(specials, ARRAY_LEN(specials), name) != NULL;
}

static void text(char to[LABEL_MAX], const char *from)
{
	snprintf(to, LABEL_MAX, "%s", from ? from : "");
}

/**
 * special_label() - memfd and SysV mappings are called by their own name, not by a path that does
 * not exist.
 */
static void special_label(char to[LABEL_MAX], const char *name)
{
	char base[LABEL_MAX];
	if (strncmp(name, "/memfd:", 7) == 0) {
		/*
		 * the name may hold anything, slashes and " (deleted)" included; the kernel's own
		 * comes last
		 */
		size_t len = strlen(name + 7), cut = sizeof(" (deleted)") - 1;
		if (len > cut && strcmp(name + 7 + len - cut, " (deleted)") == 0)
			len -= cut;
		snprintf(base, sizeof(base), "%.*s", (int)(len < 250 ? len : 250), name + 7);
		label_name(to, base);
	} else if (strncmp(name, "/SYSV", 5) == 0) {
		snprintf(to, LABEL_MAX, "key 0x%.8s", name + 5);
	} else {
		label_file(to, name);
	}
}

/** bracketed() - "[anon: Go: heap]" gives "Go: heap"; 0 where the name is not of that form. */
static int bracketed(const char *name, const char *prefix, char inner[LABEL_MAX])
{
	size_t skip = strlen(prefix), len = strlen(name);
	if (strncmp(name, prefix, skip) != 0 || len <= skip || name[len - 1] != ']')
		return 0;
	while (name[skip] == ' ')
		skip++;
	snprintf(inner, LABEL_MAX, "%.*s", (int)(len - 1 - skip), name + skip);
	return 1;
}

int name_rule(const char *name, struct name_rule *rule, char label[LABEL_MAX],
	      char owner[LABEL_MAX])
{
	*rule = (struct name_rule){ .how = HOW_KERNEL_NAME };
	owner[0] = '\0';
	if (strcmp(name, "[stack]") == 0) {
		rule->main_stack = 1;
		text(label, "main stack");
		return 1;
	}
	const struct word_rule *known = find(pseudos, ARRAY_LEN(pseudos), name);
	if (!known && name[0] == '/') {
		known = find(specials, ARRAY_LEN(specials), name);
		rule->how = HOW_PATH;
	}
	if (!known && strncmp(name, "anon_inode:", 11) == 0) {
		rule->class = strstr(name, "gem") ? REGION_DEVICE : REGION_KERNEL_BUFFER;
		label_name(label, name + 11);
		return 1;
	}
	char inner[LABEL_MAX];
	if (!known &&
	    (bracketed(name, "[anon:", inner) || bracketed(name, "[anon_shmem:", inner))) {
		rule->how = HOW_VMA_NAME;
		known = find(vma_names, ARRAY_LEN(vma_names), inner);
		if (!known) {
			rule->class = REGION_NAMED;
			label_name(label, inner);
			return 1;
		}
		if (known->class == REGION_STACK) {
			const char *digits = strrchr(inner, ':');
			rule->tid = digits ? strtol(digits + 1, NULL, 10) : 0;
		}
		if (!known->label)
			label_name(label, inner);
	} else if (known && !known->label) {
		special_label(label, name);
	}
	if (!known)
		return 0;
	rule->class = known->class;
	if (known->label)
		text(label, known->label);
	text(owner, known->owner);
	return 1;
}
