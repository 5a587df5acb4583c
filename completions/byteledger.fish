# SPDX-License-Identifier: Apache-2.0
# fish completion for byteledger. It asks --help, so it knows what the program knows; only the words that an option takes stand here.

function __byteledger_commands
	byteledger --help 2>/dev/null | sed -n '/^Commands:/,/^$/s/^  \([a-z-]*\)  *\(.*\)/\1\t\2/p'
end

# The options of the command that is being typed, while a word begins with a dash; nothing behind "--".
function __byteledger_options
	set -l words (commandline -opc)
	contains -- -- $words; and return
	string match -q -- '-*' (commandline -ct); or return
	byteledger $words[2] --help 2>/dev/null | grep -o -e '--[a-z][a-z0-9-]*' | sort -u
end

function __byteledger_after
	set -l words (commandline -opc)
	contains -- $words[-1] $argv
end

complete -c byteledger -n '__fish_use_subcommand' -f -a '(__byteledger_commands)'
complete -c byteledger -n 'not __fish_use_subcommand' -a '(__byteledger_options)'
complete -c byteledger -n '__byteledger_after --by' -f -a 'stack function module file line thread'
complete -c byteledger -n '__byteledger_after --cost' -f -a 'peak allocations allocated temporary leaked live'
complete -c byteledger -n '__byteledger_after --sort' -f -a 'own inclusive'
complete -c byteledger -n '__byteledger_after --on-full' -f -a 'wait limit drop'
complete -c byteledger -n '__byteledger_after --anonymize -a' -f -a 'none partial full'
complete -c byteledger -n '__byteledger_after --format' -f -a 'text json csv'
complete -c byteledger -n '__fish_seen_subcommand_from export; and __byteledger_after --to' -f -a 'folded flamegraph pprof speedscope heaptrack massif dhat csv json jsonl prometheus'
