# SPDX-License-Identifier: Apache-2.0
# bash completion for byteledger (zsh: autoload bashcompinit). It asks --help, so it knows what the program knows; only the
# words that an option takes stand here, and a test compares them with --help.

# _byteledger_words COMMAND OPTION - what may stand behind that option; nothing where it is a file, fails where it is anything else.
_byteledger_words() {
	case "$1 $2" in
	"pages --by") echo function site ;;
	"explain --by") echo function module file line stack ;;
	*" --by") echo stack function module file line thread ;;
	*" --cost") echo peak allocations allocated temporary leaked live ;;
	"export --to") echo folded flamegraph pprof speedscope heaptrack massif dhat csv json jsonl prometheus ;;
	"net --format") echo jsonl json table ;;
	"diff --format") echo text json folded pprof ;;
	"report --format" | "regions --format") echo text json csv ;;
	*" --format" | "info -f") echo text json ;;
	*" --on-full") echo wait limit drop ;;
	"postprocess --anonymize" | "postprocess -a") echo none partial full ;;
	*" --role") echo initiator responder ;;
	"regions --group") echo label file module thread vma process ;;
	"report --sort" | "export --sort" | "diff --sort" | "top --sort") echo own inclusive ;;
	"regions --sort") echo rss pss swap virtual growth ;;
	"regions --addresses") echo on off ;;
	"regions --on-alert") echo log exit snapshot ;;
	"sample --allocator") echo auto glibc jemalloc tcmalloc mimalloc go hotspot rust ;;
	"sample --tier") echo a b ;;
	"sample --order-by") echo traffic count live growth temporary peak ;;
	"pages --kind") echo anon shmem file swap hugetlb cache kernel held ;;
	"regions --pid" | "regions -p" | "sample --pid" | "sample -p" | "pages --pid" | "pages -p" | "top --pid" | "top -p") (cd /proc && printf '%s\n' [0-9]*) ;;
	"explain --pid" | "explain -p" | "serve --pid" | "serve -p") (cd /proc && printf '%s\n' [0-9]*) ;;
	"explain --diff") return 1 ;;
	*" --suppress" | *" --fail-if" | *" --csv" | *" --flame" | *" --report" | *" --program" | *" --output" | *" -o" | *" --diff" | *" --history" | *" --token-file" | *" --dir" | *" --config" | *" --identity" | *" --store") ;;
	*" --"*) "$byteledger" "$1" --help 2>/dev/null | grep -q -e "^ .*$2=" && return 1 || return 0 ;;
	esac
}

_byteledger() {
	local cur=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD - 1]} byteledger=${COMP_WORDS[0]} i command= words
	COMPREPLY=()
	for ((i = 1; i < COMP_CWORD; i++)); do
		if [[ ${COMP_WORDS[i]} == -- ]]; then
			# behind "--" stands a program with its own arguments
			if ((COMP_CWORD == i + 1)); then
				mapfile -t COMPREPLY < <(compgen -c -- "$cur")
			else
				mapfile -t COMPREPLY < <(compgen -f -- "$cur")
			fi
			return
		fi
		[[ -z $command && ${COMP_WORDS[i]} != -* ]] && command=${COMP_WORDS[i]}
	done
	# bash cuts --option=value into three words
	[[ $cur == = ]] && cur=
	[[ $option == = ]] && option=${COMP_WORDS[COMP_CWORD - 2]}
	if [[ -z $command || $command == help ]]; then
		words=$("$byteledger" --help 2>/dev/null | sed -n '/^Commands:/,/^$/s/^  \([a-z-]*\) .*/\1/p')
		[[ -n $command ]] || words="--help --version $words"
	elif [[ $cur == -* ]]; then
		words=$("$byteledger" "$command" --help 2>/dev/null | grep -o -e '--[a-z][a-z0-9-]*' | sort -u)
	elif [[ $option == -* ]]; then
		words=$(_byteledger_words "$command" "$option") || return
	elif [[ $command == net ]] && ((COMP_CWORD == 2)); then
		words="replay reprocess"
	fi
	if [[ -n $words ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
	else
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
	fi
}
complete -o filenames -F _byteledger byteledger
