/* SPDX-License-Identifier: Apache-2.0 */
/* Small programs are compiled, run (they print the addresses they stand at) and resolved in every way of keeping symbols. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "sym/image.h"
#include "sym/module.h"
#include "sym/sym.h"

static char dir[64];

static const char program[] =
	"#include <cstdio>\n"
	"#include <string>\n"
	"#include <vector>\n"
	"#ifdef __clang__\n#define NOCLONE\n#else\n#define NOCLONE noclone\n#endif\n"
	"#line 4\n"
	"extern \"C\" __attribute__((noinline)) void here(const char *what) {\n"
	"  printf(\"%s %lx\\n\", what, (unsigned long)__builtin_return_address(0) - 1); "
	"fflush(stdout); }\n"
	"namespace shop {\n"
	"inline __attribute__((always_inline)) int inner(int x) {\n"
	"  here(\"inner\"); // line 8\n"
	"  return x + 1; }\n"
	"inline __attribute__((always_inline)) int middle(int x) {\n"
	"  return inner(x) * 2; } // line 11\n"
	"template <class T> struct shelf {\n"
	"  __attribute__((noinline, NOCLONE)) int put(const std::vector<T> &v, std::string s) {\n"
	"    int r = middle((int)v.size()); // line 14\n"
	"    asm volatile(\"\" : : \"r\"(s.data()), \"r\"(r)); return r; } };\n"
	"}\n"
	"extern \"C\" __attribute__((noinline)) int plain_c(int x) {\n"
	"  here(\"plain\"); return x; } // line 18\n"
	"int main() { shop::shelf<std::string> s; std::vector<std::string> v(3);\n"
	"  return s.put(v, \"x\") == 8 && plain_c(1) ? 0 : 1; }\n";

static int PRINTF(1, 2) shell(const char *format, ...)
{
	char command[4096];
	va_list args;
	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	return system(command);
}

static uint64_t printed(const char *exe, const char *what)
{
	char command[256], name[64];
	unsigned long value, found = 0;
	snprintf(command, sizeof(command), "%s/%s", dir, exe);
	FILE *pipe = popen(command, "r");
	assert_non_null(pipe);
	while (fscanf(pipe, "%63s %lx", name, &value) == 2)
		if (!strcmp(name, what))
			found = value;
	pclose(pipe);
	assert_int_not_equal(found, 0);
	return found;
}

static const char *in_dir(const char *name)
{
	static char paths[64][256];
	static unsigned turn;
	char *path = paths[turn++ % 64];
	snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
	return path;
}

static int setup(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/byteledger-sym-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	FILE *file = fopen(in_dir("p.cc"), "w");
	fputs(program, file);
	fclose(file);
	return shell("cd %s && g++ -g -O2 -no-pie -fno-plt -o full p.cc", dir);
}

static int teardown(void **state)
{
	(void)state;
	return shell("rm -rf %s", dir);
}

static uint32_t resolve(struct sym *sym, const char *name, uint64_t at, const struct symbol **out)
{
	return sym_resolve(sym, in_dir(name), NULL, 0, at, out);
}

static void check_inner(struct sym *sym, const char *name, uint64_t at)
{
	const struct symbol *s;
	assert_int_equal(resolve(sym, name, at, &s), 3);
	assert_string_equal(s[0].function, "shop::inner(int)");
	assert_string_equal(s[1].function, "shop::middle(int)");
	assert_string_equal(s[2].function, "shop::shelf<std::string>::put(std::vector<std::string, "
					   "std::allocator<std::string>> const&, std::string)");
	assert_int_equal(s[0].line, 8);
	assert_int_equal(s[1].line, 11);
	assert_int_equal(s[2].line, 14);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(s[i].inlined, i < 2);
		assert_string_equal(s[i].file, in_dir("p.cc"));
	}
	assert_ptr_equal(s[0].file, s[2].file);
}

static void check_names_only(struct sym *sym, const char *name, uint64_t inner, uint64_t plain,
			     int statics_known)
{
	const struct symbol *s;
	uint32_t count = resolve(sym, name, plain, &s);
	assert_int_equal(count, statics_known ? 1 : 0);
	if (!count)
		return;
	assert_string_equal(s[0].function, "plain_c");
	assert_null(s[0].file);
	assert_int_equal(s[0].inlined, 0);
	assert_int_equal(resolve(sym, name, inner, &s), 1);
	assert_non_null(strstr(s[0].function, "shop::shelf<std::string>::put("));
}

static struct sym *fresh(void)
{
	struct err err;
	struct sym_opt opt = { .no_debuginfod = 1 };
	struct sym *sym = sym_new(&opt, &err);
	assert_non_null(sym);
	return sym;
}

/* One whose file system begins at @name, as that of a process in a container. */
static struct sym *fresh_below(const char *name)
{
	struct sym *sym = fresh();
	sym->root.fd = open(in_dir(name), O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(sym->root.fd >= 0);
	return sym;
}

static void dwarf_gives_inlined_frames_with_files_and_lines(void **state)
{
	(void)state;
	struct sym *sym = fresh();
	const struct symbol *s, *again;
	check_inner(sym, "full", printed("full", "inner"));
	assert_int_equal(resolve(sym, "full", printed("full", "plain"), &s), 1);
	assert_string_equal(s[0].function, "plain_c");
	assert_int_equal(s[0].line, 18);
	assert_int_equal(resolve(sym, "full", printed("full", "plain"), &again), 1);
	assert_ptr_equal(s, again);
	assert_int_equal(resolve(sym, "full", 0x10, &s), 0);
	sym_free(sym);
}

static void every_dwarf_dialect_gives_the_same_frames(void **state)
{
	(void)state;
	static const char *const flags[] = { "g++ -gdwarf-4 -O2", "g++ -gdwarf-5 -gz -O2",
					     "g++ -g -O2 -fdebug-types-section", "clang++ -g -O2",
					     "clang++ -gdwarf-4 -O2" };
	for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
		if (!strncmp(flags[i], "clang", 5) && shell("command -v clang++ >/dev/null"))
			continue;
		assert_int_equal(shell("cd %s && %s -no-pie -o dialect%zu p.cc", dir, flags[i], i),
				 0);
		char name[32];
		snprintf(name, sizeof(name), "dialect%zu", i);
		struct sym *sym = fresh();
		print_message("# %s\n", flags[i]);
		check_inner(sym, name, printed(name, "inner"));
		sym_free(sym);
	}
}

static void a_stripped_program_is_read_through_its_debuglink_if_the_crc_matches(void **state)
{
	(void)state;
	assert_int_equal(shell("cd %s && g++ -g -O2 -no-pie -Wl,--build-id=none -o linked p.cc && "
			       "objcopy --only-keep-debug linked linked.dbg && strip linked && "
			       "objcopy --add-gnu-debuglink=linked.dbg linked",
			       dir),
			 0);
	uint64_t inner = printed("linked", "inner"), plain = printed("linked", "plain");
	struct sym *sym = fresh();
	check_inner(sym, "linked", inner);
	sym_free(sym);
	/* in .debug/ beside it */
	assert_int_equal(shell("cd %s && mkdir .debug && mv linked.dbg .debug/", dir), 0);
	sym = fresh();
	check_inner(sym, "linked", inner);
	sym_free(sym);
	/* among the system's */
	assert_int_equal(
		shell("cd %s && mkdir -p root%s root/usr/lib/debug%s && cp linked root%s && "
		      "mv .debug/linked.dbg root/usr/lib/debug%s",
		      dir, dir, dir, dir, dir),
		0);
	sym = fresh_below("root");
	check_inner(sym, "linked", inner);
	sym_free(sym);
	/* one byte more: another CRC */
	assert_int_equal(
		shell("cd %s && mv root/usr/lib/debug%s/linked.dbg . && echo >> linked.dbg", dir,
		      dir),
		0);
	sym = fresh();
	check_names_only(sym, "linked", inner, plain, 0);
	sym_free(sym);
}

static void a_build_id_folder_serves_and_a_foreign_build_id_does_not(void **state)
{
	(void)state;
	assert_int_equal(
		shell("cd %s && g++ -g -O2 -no-pie -Wl,--build-id=0x0123456789abcdef -o "
		      "byid p.cc && "
		      "mkdir -p ids/usr/lib/debug/.build-id/01 ids%s && "
		      "objcopy --only-keep-debug byid "
		      "ids/usr/lib/debug/.build-id/01/23456789abcdef.debug && strip byid && "
		      "cp byid ids%s",
		      dir, dir, dir),
		0);
	uint64_t inner = printed("byid", "inner"), plain = printed("byid", "plain");
	struct sym *sym = fresh_below("ids");
	check_inner(sym, "byid", inner);
	sym_free(sym);
	/* the module itself is gone: the id alone finds it */
	static const uint8_t id[] = { 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef };
	const struct symbol *s;
	sym = fresh_below("ids");
	assert_int_equal(sym_resolve(sym, in_dir("vanished"), id, sizeof(id), inner, &s), 3);
	assert_string_equal(s[0].function, "shop::inner(int)");
	/* a second path with the same id shares the answers */
	const struct symbol *other;
	assert_int_equal(sym_resolve(sym, in_dir("byid"), id, sizeof(id), inner, &other), 3);
	assert_ptr_equal(s, other);
	sym_free(sym);
	/* the file under that name has another id than the process had mapped */
	static const uint8_t foreign[] = { 9, 9, 9, 9, 9, 9, 9, 9 };
	sym = fresh();
	assert_int_equal(sym_resolve(sym, in_dir("byid"), foreign, sizeof(foreign), plain, &s), 0);
	sym_free(sym);
	/* a debug file with another id below the right name */
	assert_int_equal(
		shell("cd %s && objcopy --only-keep-debug full ids/usr/lib/debug/.build-id/01/"
		      "23456789abcdef.debug",
		      dir),
		0);
	sym = fresh_below("ids");
	check_names_only(sym, "byid", inner, plain, 0);
	sym_free(sym);
}

static void a_symbol_table_alone_gives_names_and_minidebuginfo_too(void **state)
{
	(void)state;
	assert_int_equal(shell("cd %s && strip -g -o nodebug full && nm -n full >/dev/null", dir),
			 0);
	uint64_t inner = printed("full", "inner"), plain = printed("full", "plain");
	struct sym *sym = fresh();
	check_names_only(sym, "nodebug", inner, plain, 1);
	sym_free(sym);
	assert_int_equal(shell("cd %s && strip -g -o mini.elf full && "
			       "objcopy -R .comment --only-keep-debug mini.elf mini.dbg && "
			       "xz -f -k --check=crc32 mini.dbg && strip -o mini full && "
			       "objcopy --add-section .gnu_debugdata=mini.dbg.xz mini",
			       dir),
			 0);
	sym = fresh();
	check_names_only(sym, "mini", inner, plain, 1);
	sym_free(sym);
	assert_int_equal(shell("cd %s && strip -o bare full", dir), 0);
	sym = fresh();
	check_names_only(sym, "bare", inner, plain, 0);
	sym_free(sym);
	/* a damaged archive in there resolves to nothing */
	assert_int_equal(shell("cd %s && head -c 300 mini.dbg.xz >cut.xz && strip -o cut full && "
			       "objcopy --add-section .gnu_debugdata=cut.xz cut",
			       dir),
			 0);
	sym = fresh();
	check_names_only(sym, "cut", inner, plain, 0);
	sym_free(sym);
}

static void aliases_and_labels_choose_the_name_that_people_know(void **state)
{
	(void)state;
	FILE *file = fopen(in_dir("a.s"), "w");
	fputs(".text\n.globl  known, __internal\n.type known,@function\n.type "
	      "__internal,@function\n"
	      ".type local_name,@function\n__internal:\nknown:\nlocal_name:\n"
	      "nop\nnop\nlabel_inside:\nnop\nnop\n.size known,4\n.size __internal,4\n.size "
	      "local_name,4\n"
	      ".type outer,@function\n.globl outer\nouter: nop\n.type nested,@function\nnested: "
	      "nop\nnop\n"
	      ".size nested,2\nnop\nnop\n.size outer,5\n"
	      ".globl unsized\nunsized: nop\nnop\n.globl next\nnext: nop\n"
	      ".globl _start\n_start: nop\n",
	      file);
	fclose(file);
	assert_int_equal(
		shell("cd %s && gcc -nostdlib -static -no-pie -Wl,-Ttext=0x400000 -o a a.s", dir),
		0);
	static const char *const want[] = { "known",   "known",  "known", "known", "outer",
					    "nested",  "nested", "outer", "outer", "unsized",
					    "unsized", "next",   "_start" };
	struct sym *sym = fresh();
	for (unsigned i = 0; i < ARRAY_LEN(want); i++) {
		const struct symbol *s;
		assert_int_equal(resolve(sym, "a", 0x400000 + i, &s), 1);
		assert_string_equal(s[0].function, want[i]);
	}
	const struct symbol *s;
	assert_int_equal(resolve(sym, "a", 0x400000 + ARRAY_LEN(want), &s), 0);
	sym_free(sym);
}

/* A name as long as @length, that of function @number. */
static const char *long_name(unsigned number, int length)
{
	static char name[64 << 10];
	snprintf(name, sizeof(name), "f%02u_%0*d", number, length - 4, 0);
	return name;
}

static unsigned long bytes_read(void)
{
	unsigned long bytes = 0;
	FILE *io = fopen("/proc/self/io", "r");
	assert_non_null(io);
	assert_int_equal(fscanf(io, "rchar: %lu", &bytes), 1);
	fclose(io);
	return bytes;
}

static void names_are_whole_however_long_and_no_more_is_read_than_they_need(void **state)
{
	(void)state;
	static const int lengths[] = { 8,     1022, 1023, 1024,  1025, 60000, 8,     2047,
				       60000, 9,    4096, 60000, 12,   60000, 60000, 5 };
	FILE *file = fopen(in_dir("l.s"), "w");
	fputs(".text\n.globl _start\n_start: nop\n", file);
	for (unsigned i = 0; i < ARRAY_LEN(lengths); i++) {
		const char *name = long_name(i, lengths[i]);
		fprintf(file, ".type %s,@function\n%s: nop\n.size %s,1\n", name, name, name);
	}
	fclose(file);
	assert_int_equal(
		shell("cd %s && gcc -nostdlib -static -no-pie -Wl,-Ttext=0x400000 -o l l.s", dir),
		0);
	for (unsigned longest = 100; longest <= 60000; longest += 59900) {
		struct sym *sym =
			sym_new(&(struct sym_opt){ .no_debuginfod = 1, .in_process = 1 }, NULL);
		assert_non_null(sym);
		unsigned long before = bytes_read();
		for (unsigned i = ARRAY_LEN(lengths); i-- > 0;) {
			const struct symbol *s;
			if ((unsigned)lengths[i] > longest)
				continue;
			assert_int_equal(resolve(sym, "l", 0x400001 + i, &s), 1);
			assert_string_equal(s[0].function, long_name(i, lengths[i]));
		}
		unsigned long bytes = bytes_read() - before;
		if (longest < 60000 && bytes > 100000)
			fail_msg("%lu bytes read for five short names", bytes);
		sym_free(sym);
	}
}

static void plt_stubs_are_named_by_what_they_jump_to(void **state)
{
	(void)state;
	static const char *const flags[] = { "-fcf-protection=none -Wl,-z,lazy",
					     "-fcf-protection=full -Wl,-z,ibtplt", "-Wl,-z,now" };
	for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
		assert_int_equal(
			shell("cd %s && printf '#include <stdlib.h>\\n#include <stdio.h>\\nint "
			      "main(int n,"
			      "char**v){puts(v[0]);return !getenv(v[0])+system(\"true\");}' >plt.c "
			      "&& "
			      "gcc -O1 %s -no-pie -o plt plt.c && strip plt",
			      dir, flags[i]),
			0);
		char command[512], name[64];
		unsigned long at;
		unsigned seen = 0;
		snprintf(command, sizeof(command),
			 "objdump -d %s/plt | grep -oE 'call +[0-9a-f]+ "
			 "<(puts|getenv|system)@plt>' | "
			 "sed 's/call *//;s/[<>]//g'",
			 dir);
		FILE *pipe = popen(command, "r");
		struct sym *sym = fresh();
		while (fscanf(pipe, "%lx %63s", &at, name) == 2) {
			const struct symbol *s;
			assert_int_equal(resolve(sym, "plt", at + 4, &s), 1);
			assert_string_equal(s[0].function, name);
			seen++;
		}
		pclose(pipe);
		assert_int_equal(seen, 3);
		sym_free(sym);
	}
}

static void the_vdso_resolves_from_memory(void **state)
{
	(void)state;
	const char *base = (const char *)getauxval(AT_SYSINFO_EHDR);
	if (!base)
		skip();
	struct image image;
	GElf_Shdr shdr;
	assert_int_equal(
		image_open_module(&image, &(struct image_root){ .fd = -1 }, "[vdso]", NULL, 0), 0);
	Elf_Scn *scn = image_section(&image, ".dynsym", &shdr);
	Elf_Data *data = elf_getdata(scn, NULL);
	struct sym *sym = fresh();
	unsigned seen = 0;
	for (int i = 1; i < (int)(shdr.sh_size / shdr.sh_entsize); i++) {
		GElf_Sym symbol;
		const struct symbol *s;
		gelf_getsym(data, i, &symbol);
		if (GELF_ST_TYPE(symbol.st_info) != STT_FUNC)
			continue;
		assert_int_equal(sym_resolve(sym, "[vdso]", image.build_id, image.build_id_len,
					     symbol.st_value, &s),
				 1);
		seen += !strcmp(s[0].function, "__vdso_clock_gettime") ||
			!strcmp(s[0].function, "clock_gettime");
	}
	assert_true(seen > 0);
	image_close(&image);
	sym_free(sym);
}

static void
deleted_and_replaced_files_of_a_living_process_are_read_where_they_are_mapped(void **state)
{
	(void)state;
	assert_int_equal(
		shell("cd %s && printf 'int getchar(void);int main(void){return getchar();}' >s.c "
		      "&& "
		      "gcc -w -g -no-pie -o sleeper s.c && cp sleeper sleeper.kept && "
		      "printf 'int other(void){return 0;}int main(void){return 0;}' >s2.c && "
		      "gcc -g -no-pie -o imposter s2.c",
		      dir),
		0);
	char command[512];
	snprintf(command, sizeof(command), "exec %s/sleeper", dir);
	int in[2];
	assert_int_equal(pipe(in), 0);
	pid_t pid = fork();
	if (!pid) {
		dup2(in[0], 0);
		close(in[1]);
		execl(in_dir("sleeper"), "sleeper", NULL);
		_exit(127);
	}
	close(in[0]);
	char link[64], exe[256] = "";
	snprintf(link, sizeof(link), "/proc/%d/exe", pid);
	for (int i = 0; i < 30000 && !strstr(exe, "/sleeper"); i++) {
		ssize_t len = readlink(link, exe, sizeof(exe) - 1);
		exe[len > 0 ? len : 0] = '\0';
		usleep(1000);
	}
	assert_non_null(strstr(exe, "/sleeper"));
	/* mv: the inode stays mapped under "(deleted)", the name leads to another program */
	assert_int_equal(shell("cd %s && mv imposter sleeper", dir), 0);
	struct image image;
	assert_int_equal(image_open(&image, &(struct image_root){ .fd = -1 },
				    in_dir("sleeper.kept"), NULL, 0),
			 0);
	char at[64] = "";
	snprintf(command, sizeof(command), "nm %s/sleeper.kept | grep ' T main' | cut -d' ' -f1",
		 dir);
	FILE *nm = popen(command, "r");
	assert_non_null(fgets(at, sizeof(at), nm));
	pclose(nm);
	struct err err;
	struct sym_opt opt = { .pid = (uint32_t)pid, .no_debuginfod = 1 };
	struct sym *sym = sym_new(&opt, &err);
	assert_non_null(sym);
	const struct symbol *s;
	char deleted[256];
	snprintf(deleted, sizeof(deleted), "%s/sleeper (deleted)", dir);
	assert_int_equal(sym_resolve(sym, deleted, image.build_id, image.build_id_len,
				     strtoull(at, NULL, 16) + 1, &s),
			 1);
	assert_string_equal(s[0].function, "main");
	assert_string_equal(s[0].file, in_dir("s.c"));
	sym_free(sym);
	/* without the process the imposter must not answer */
	sym = fresh();
	assert_int_equal(sym_resolve(sym, in_dir("sleeper"), image.build_id, image.build_id_len,
				     strtoull(at, NULL, 16) + 1, &s),
			 0);
	sym_free(sym);
	image_close(&image);
	close(in[1]);
}

static void odd_files_resolve_to_nothing_and_do_not_hang(void **state)
{
	(void)state;
	const struct symbol *s;
	assert_int_equal(shell("cd %s && mkfifo fifo && : >empty && mkdir folder && "
			       "printf '\\177ELF' >magic && ar r archive.a full 2>/dev/null",
			       dir),
			 0);
	static const char *const names[] = { "fifo",  "empty",     "folder",
					     "magic", "archive.a", "absent" };
	struct sym *sym = fresh();
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		assert_int_equal(resolve(sym, names[i], 0x401000, &s), 0);
	assert_int_equal(sym_resolve(sym, "/dev/zero", NULL, 0, 0x401000, &s), 0);
	assert_int_equal(sym_resolve(sym, "", NULL, 0, 0x401000, &s), 0);
	assert_int_equal(sym_resolve(sym, "[heap]", NULL, 0, 0x401000, &s), 0);
	sym_free(sym);
}

static void damaged_files_never_crash_the_reader(void **state)
{
	(void)state;
	struct stat st;
	assert_int_equal(stat(in_dir("full"), &st), 0);
	char *bytes = malloc((size_t)st.st_size), *copy = malloc((size_t)st.st_size);
	FILE *file = fopen(in_dir("full"), "r");
	assert_int_equal(fread(bytes, 1, (size_t)st.st_size, file), st.st_size);
	fclose(file);
	uint64_t inner = printed("full", "inner"), seed = 12345;
	for (unsigned round = 0; round < 300; round++) {
		size_t len = (size_t)st.st_size;
		memcpy(copy, bytes, len);
		for (unsigned flips = 0; flips < 1 + round % 64; flips++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			/* every other time in the headers, where it hurts */
			size_t span = flips % 2 ? len : len < 1024 ? len : 1024;
			size_t at = (seed >> 33) % span;
			if (flips % 4 == 2)
				at = len - 1 - at % 4096; /* the section headers */
			copy[at] = (char)(seed >> 20);
		}
		copy[0] = 0x7f, copy[1] = 'E', copy[2] = 'L', copy[3] = 'F', copy[4] = 2,
		copy[5] = 1;
		if (round % 5 == 0)
			len = (seed >> 30) % len;
		file = fopen(in_dir("damaged"), "w");
		fwrite(copy, 1, len, file);
		fclose(file);
		struct sym *sym = fresh();
		const struct symbol *s;
		for (uint64_t at = inner - 2048; at < inner + 2048; at += 97)
			resolve(sym, "damaged", at, &s);
		sym_free(sym);
	}
	free(bytes);
	free(copy);
}

static void names_of_cpp_and_rust_are_made_readable(void **state)
{
	(void)state;
	static const char *const pairs[][2] = {
		{ "_ZN3foo3barEi", "foo::bar(int)" },
		{ "_ZNSt6vectorIS_IiSaIiEESaIS1_EE9push_backERKS1_",
		  "std::vector<std::vector<int, std::allocator<int>>, "
		  "std::allocator<std::vector<int, "
		  "std::allocator<int>>>>::push_back(std::vector<int, std::allocator<int>> "
		  "const&)" },
		{ "_Z1fNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE", "f(std::string)" },
		{ "_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE",
		  "core::fmt::Write::write_fmt" },
		{ "_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$"
		  "3bar17h930b740aa94f1d3aE",
		  "<Test + 'static as foo::Bar<Test>>::bar" },
		{ "_RNvC6_123foo3bar", "123foo::bar" },
		{ "_RINvNtC3std3mem8align_ofdE", "std::mem::align_of::<f64>" },
		{ "_RNvMs_NtCs1234_7mycrate3fooNtB4_3Bar3new", NULL },
		{ "_Z3foov.cold", "foo() [clone .cold]" },
		{ "malloc", "malloc" },
		{ "_Zgarbage", "_Zgarbage" },
		{ "_R", "_R" },
		{ "", "" },
	};
	for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
		char *plain = sym_demangle(pairs[i][0]);
		if (pairs[i][1])
			assert_string_equal(plain, pairs[i][1]);
		else
			assert_non_null(plain);
		free(plain);
	}
	/* a few hundred bytes that would expand without end */
	char bomb[2048] = "_Z1fSt4pairIiiE", *at = bomb + strlen(bomb);
	for (int i = 0; i < 30; i++)
		at += sprintf(at, "St4pairIS%c_S%c_E", i ? '0' + (i - 1) % 9 : '0',
			      i ? '0' + (i - 1) % 9 : '0');
	char *plain = sym_demangle(bomb);
	assert_non_null(plain);
	assert_true(strlen(plain) <= 64 << 10);
	free(plain);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_of_cpp_and_rust_are_made_readable),
		cmocka_unit_test(dwarf_gives_inlined_frames_with_files_and_lines),
		cmocka_unit_test(every_dwarf_dialect_gives_the_same_frames),
		cmocka_unit_test(
			a_stripped_program_is_read_through_its_debuglink_if_the_crc_matches),
		cmocka_unit_test(a_build_id_folder_serves_and_a_foreign_build_id_does_not),
		cmocka_unit_test(a_symbol_table_alone_gives_names_and_minidebuginfo_too),
		cmocka_unit_test(aliases_and_labels_choose_the_name_that_people_know),
		cmocka_unit_test(names_are_whole_however_long_and_no_more_is_read_than_they_need),
		cmocka_unit_test(plt_stubs_are_named_by_what_they_jump_to),
		cmocka_unit_test(the_vdso_resolves_from_memory),
		cmocka_unit_test(
			deleted_and_replaced_files_of_a_living_process_are_read_where_they_are_mapped),
		cmocka_unit_test(odd_files_resolve_to_nothing_and_do_not_hang),
		cmocka_unit_test(damaged_files_never_crash_the_reader),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
