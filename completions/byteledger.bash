# SPDX-License-Identifier: Apache-2.0
# bash completion for byteledger (zsh: autoload bashcompinit). It asks --help, so it knows what the program knows.
_byteledger() {
	local cur=${COMP_WORDS[COMP_CWORD]} i command=
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
	if [[ -z $command ]]; then
		mapfile -t COMPREPLY < <(compgen -W "--help --version $("${COMP_WORDS[0]}" --help 2>/dev/null |
			sed -n '/^Commands:/,/^$/s/^  \([a-z-]*\) .*/\1/p')" -- "$cur")
	elif [[ $cur == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" "$command" --help 2>/dev/null |
			grep -o -e '--[a-z][a-z0-9-]*' | sort -u)" -- "$cur")
	else
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
	fi
}
complete -o filenames -F _byteledger byteledger
