# bash completion for the programs of lazyfs. Options and commands come from --help of the program,
# so that none is missing here.

_lazyfs_commands() {
  "$1" --help 2>/dev/null | sed -n '/^Subcommands:/,$ s/^  \([a-z]*\) .*/\1/p'
}

_lazyfs() {
  local cur prev words cword
  _init_completion || return
  local program=$1 command=()
  case ${program##*/} in lazyfsctl | lazyfs-debug | smrsim)
    if ((cword == 1)) && [[ $cur != -* ]]; then
      mapfile -t COMPREPLY < <(compgen -W "$(_lazyfs_commands "$program")" -- "$cur")
      return
    fi
    [[ ${words[1]} == -* ]] || command=("${words[1]}")
  esac
  if [[ $cur == -* ]]; then
    local options
    options=$("$program" "${command[@]}" --help 2>/dev/null | _parse_help -)
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
    return
  fi
  _filedir
} &&
  complete -F _lazyfs edicreate edidump edistats fsck.lazyfs lazyfs lazyfs-debug lazyfs-id lazyfsctl \
    mkfs.lazyfs profiler smrdisk smrsim
